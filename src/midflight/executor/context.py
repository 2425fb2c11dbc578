"""``Run`` as the driver implements it: at every call the function can be told things."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NoReturn
from uuid import UUID

import anyio

from midflight.conversation import Message, Spoken
from midflight.errors import InvalidRequest, StepFailed
from midflight.executor import approval, children, talk, values
from midflight.executor.calls import refuse_inside_a_step
from midflight.executor.drive import Driver
from midflight.executor.earlier import earlier
from midflight.executor.heard import KEYED, Answered, Record
from midflight.executor.replay import Waiting
from midflight.executor.steps import Step
from midflight.guards import Guard
from midflight.kernel import events as e
from midflight.kernel.decide import ASKED, HANDED_OVER
from midflight.kernel.limits import validate
from midflight.kernel.record import Limits, Who
from midflight.run import Agent, Answer, Approval, Child, Redirected, Signal
from midflight.schemas import check_schema
from midflight.tools.base import Tool, as_tool, is_reusable

BREATH: Final = 64  # steps from the record before the other runs have their turn
PATIENCE: Final = 3  # signals raised before a function that catches them all waits for ever


class RunContext:
    """The run of one call of an agent function; ``course`` is the last one that it has heard of."""

    __slots__ = ("_chance", "_driver", "_seed", "_signals", "restored")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._signals = 0
        self._seed = driver.replay.seed
        self._chance: random.Random | None = None
        self.restored: Any = driver.restored

    def _draw_anew(self, step: str, found: bool) -> None:
        """Chances are those of the run that was forked until its last step, and then our own.

        Or steps that are taken over would have other arguments, and new ones the same as before.
        """
        replay = self._driver.replay
        seed = replay.new_seeds.get(step) if found else self._driver.run
        if replay.new_seeds and seed is not None and seed != self._seed:
            self._seed, self._chance = seed, None

    @property
    def id(self) -> str:
        """See ``Run.id``."""
        return self._driver.run

    @property
    def brief(self) -> str:
        """See ``Run.brief``."""
        refuse_inside_a_step("run.brief")
        return self._driver.brief

    @property
    def profile(self) -> str:
        """See ``Run.profile``."""
        refuse_inside_a_step("run.profile")
        return self._driver.profile

    @property
    def input(self) -> Any:
        """See ``Run.input``."""
        return values.decode(self._driver.input)

    @property
    def workdir(self) -> Path:
        """See ``Run.workdir``."""
        self._driver.workdir.mkdir(parents=True, exist_ok=True)
        return self._driver.workdir

    # ── steps ────────────────────────────────────────────────────────────────────────────────

    def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, key: str = "", **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        """See ``Run.step``."""
        return self._step(name, function, args, kwargs, key)

    def call(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        *,
        key: str = "",
    ) -> Coroutine[Any, Any, Any]:
        """See ``Run.call``."""
        return self._step(name, function, (), dict(arguments), key)

    async def _step(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: str,
    ) -> Any:
        refuse_inside_a_step("run.step")
        await self._listen()
        driver, tool = self._driver, as_tool(function)
        given = values.encode(name, "its arguments", {"args": args, "kwargs": kwargs})
        asked = values.digest(bytes(given))
        what = self._what(key, f"{name}:{asked}", is_reusable(tool))
        identity = driver.replay.identity(what)
        kind = values.result_type(tool.function)
        record = driver.replay.given(identity) or await self._on_record(identity, name)
        self._draw_anew(identity, record is not None)
        outdated = record is not None and self._outdated(tool, record)
        if record is not None and not outdated:
            if driver.steps or driver.waiting or not driver.replay.unfinished:
                driver.log.stir()  # somebody may wait for its turn, or for the end of the replay
            if len(driver.replay.unclaimed) % BREATH == 0:
                await anyio.lowlevel.checkpoint()
            if tool.effect.touches_world and driver.replay.is_reuse(identity):
                await driver.log.settle(e.StepReused(epoch=driver.epoch, step=identity))
            return await self._from_record(name, record, kind)
        step = Step(
            driver,
            identity,
            name,
            tool,
            call=(args, kwargs),
            given=given,
            asked=asked,
            course=driver.heard,
            refreshing=outdated,
        )
        driver.steps.add(step)
        driver.tasks.start_soon(step.perform)
        if not driver.may_start(driver.heard):
            driver.log.stir()  # it waits, and that may be what somebody looks for
        return values.decode(bytes(await self._result(step)), kind)

    async def _on_record(self, identity: str, name: str) -> Record | None:
        """What is on record for a step, when it is its turn.

        Where the function has given up waiting before, it waits again until it does so again.
        """
        driver, replay = self._driver, self._driver.replay
        if not replay.is_turn_of(identity):
            async with self._waiting(identity, name) as call:
                await driver.log.until(
                    lambda: replay.is_turn_of(identity) or driver.is_told(call.course)
                )
                driver.raise_if_told(call.course)
        return replay.claim(identity)

    def _what(self, key: str, unkeyed: str, reusable: bool = True) -> str:
        return f"{KEYED}{key}" if key else self._driver.replay.scoped(unkeyed, reusable=reusable)

    def _outdated(self, tool: Tool, record: Record) -> bool:
        return tool.fresh is not None and self._driver.clock() - record.at > tool.fresh

    async def _from_record(self, name: str, record: Record, kind: Any) -> Any:
        if record.error:
            raise StepFailed(name, record.error)
        if record.blob is None:
            return values.decode(bytes(record.result), kind)
        return values.decode(bytes(await self._driver.raw(record)), kind)

    async def _result(self, step: Step) -> Any:
        future = step.future
        try:
            return await future
        except Signal:
            self._note()
            raise
        except asyncio.CancelledError:  # the function's own timeout, or its end
            if future.cancelled():
                step.give_up()
            raise
        finally:
            del future  # it knows what it has raised, which knows this frame

    async def spawn(
        self,
        agent: Agent | str,
        brief: str,
        *,
        input: Any = None,  # noqa: A002 - what people call it
        limits: Limits | None = None,
        key: str = "",
    ) -> Child:
        """See ``Run.spawn``."""
        refuse_inside_a_step("run.spawn")
        await self._listen()
        if limits is not None:
            validate(limits)
        called = agent.name if isinstance(agent, Agent) else agent
        given = values.encode(f"spawn {called}", "its input", input)
        digest = values.digest(brief.encode() + bytes(given))
        what = self._what(key, f"spawn:{called}:{digest}")
        async with self._turn(what, f"spawn {called}") as (step, course):
            return await children.spawn(
                self._driver, step, agent, brief, given=given, limits=limits, course=course
            )

    # ── people ───────────────────────────────────────────────────────────────────────────────

    async def plan(self, *steps: str) -> None:
        """See ``Run.plan``."""
        refuse_inside_a_step("run.plan")
        await self._listen()
        driver = self._driver
        planned = e.PlanSet(epoch=driver.epoch, steps=steps)
        async with self._turn("plan", "a plan") as (_, course):
            while driver.log.state.plan != steps and not driver.replay.unfinished:
                await driver.gate(course)
                await driver.log.decide(
                    lambda s: [*driver.wait_over(s), planned] if driver.may_start(course) else []
                )

    async def ask(
        self,
        message: str,
        *,
        schema: dict[str, Any] | None = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> Answer:
        """See ``Run.ask``."""
        answered = await self._ask(ASKED, message, schema, expires_in, answerers)
        return Answer(values.decode(bytes(answered.payload)), answered.by)

    async def approve(
        self,
        message: str,
        *,
        details: Any = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> Approval:
        """See ``Run.approve``."""
        schema = approval.schema(details, edited={})
        answered = await self._ask("approval", message, schema, expires_in, answerers)
        match values.decode(bytes(answered.payload)):
            case str(decision):
                return Approval(decision, answered.by)
            case {"edit": edited}:
                return Approval("edit", answered.by, edit=edited)
            case {"respond": text}:
                return Approval("respond", answered.by, respond=text)
            case _:
                return Approval("")

    async def hand_over(self, message: str, *, to: Sequence[str] = ()) -> Answer:
        """See ``Run.hand_over``."""
        answered = await self._ask(HANDED_OVER, message, None, None, to)
        return Answer(values.decode(bytes(answered.payload)), answered.by)

    async def cancel(self, why: str, *, by: str = "") -> NoReturn:
        """See ``Run.cancel``."""
        refuse_inside_a_step("run.cancel")
        await self._listen()
        driver = self._driver
        async with self._turn("cancel", "its own end") as (_, course):
            await driver.gate(course)
            who = Who(by=by or driver.agent.name, channel="agent")
            await driver.cancel(e.CancelRequested(who=who, why=why))
            await driver.log.until(lambda: driver.told is not None)
            driver.raise_if_told(course)
        raise AssertionError("a run that cancels itself is told so")

    async def _ask(
        self,
        kind: str,
        message: str,
        schema: dict[str, Any] | None,
        expires_in: float | None,
        answerers: Sequence[str],
    ) -> Answered:
        refuse_inside_a_step(f"run.{kind}")
        await self._listen()
        if schema is not None:
            check_schema(schema)
        driver = self._driver
        about = values.digest(bytes(values.encode(kind, "its schema", schema)))
        what = self._what("", f"{kind}:{message}:{about}")
        expires_at = None if expires_in is None else driver.clock() + expires_in
        async with self._turn(what, f"the question {message!r}") as (step, course):
            return await driver.questions.ask(
                step,
                kind,
                message,
                schema=schema,
                expires_at=expires_at,
                answerers=tuple(answerers),
                course=course,
            )

    async def inbox(self) -> list[Message]:
        """See ``Run.inbox``."""
        refuse_inside_a_step("run.inbox")
        await self._listen()
        what = self._what("", "inbox", reusable=False)
        async with self._turn(what, "the inbox") as (step, course):
            return await talk.take_messages(self._driver, step, course)

    async def earlier(self) -> list[Spoken]:
        """See ``Run.earlier``."""
        await self._listen()
        driver = self._driver
        return await earlier(driver.store, driver.log.state, driver.begun_for)

    async def say(self, text: str) -> None:
        """See ``Run.say``."""
        refuse_inside_a_step("run.say")
        await self._listen()
        what = self._what("", f"say:{values.digest(text.encode())}")
        async with self._turn(what, "something to say") as (step, course):
            await talk.say(self._driver, step, text, course)

    def notices(self) -> list[str]:
        """See ``Run.notices``."""
        replay = self._driver.replay
        return [text for at, text in replay.notices if at <= replay.now]

    # ── the world, time, chance ──────────────────────────────────────────────────────────────

    async def guard(self, guard: Guard) -> None:
        """See ``Run.guard``."""
        refuse_inside_a_step("run.guard")
        await self._listen()
        async with self._turn(f"guard:{guard.name}", f"a guard: {guard.name}") as (_, course):
            await self._driver.guards.take(guard, course)

    async def snapshot(self, state: Any) -> None:
        """See ``Run.snapshot``."""
        refuse_inside_a_step("run.snapshot")
        await self._listen()
        driver = self._driver
        if driver.open_calls:
            open_ones = ", ".join(driver.open_calls)
            raise InvalidRequest(f"run.snapshot while steps are open: {open_ones}. Nothing saved.")
        saved = e.StateSaved(
            epoch=driver.epoch, state=values.encode("snapshot", "the state", state)
        )
        async with self._turn("snapshot", "a snapshot") as (_, course):
            while True:
                await driver.gate(course)
                if await driver.log.decide(
                    lambda s: [*driver.wait_over(s), saved] if driver.may_start(course) else []
                ):
                    break
        self._seed = driver.replay.seed
        self._chance = None

    def now(self) -> float:
        """See ``Run.now``."""
        return self._driver.replay.now

    def random(self) -> random.Random:
        """See ``Run.random``."""
        if self._chance is None:  # made when asked for: it weighs 3 kB, and few agents do
            self._chance = random.Random(self._seed)
        return self._chance

    def uuid(self) -> UUID:
        """See ``Run.uuid``."""
        return UUID(int=self.random().getrandbits(128), version=4)

    # ── signals ──────────────────────────────────────────────────────────────────────────────

    async def _listen(self) -> None:
        """Raise what has to be told; a function that will not hear it waits for ever."""
        driver = self._driver
        if self._signals >= PATIENCE and driver.told is not None:
            await anyio.sleep_forever()
        if driver.delivering or driver.replay.tells:
            await driver.note_call()
        else:
            driver.replay.calls += 1
        try:
            driver.raise_if_told(driver.heard)
        except Signal:
            self._note()
            raise

    @asynccontextmanager
    async def _turn(self, what: str, called: str) -> AsyncIterator[tuple[str, int]]:
        """One call that may wait and is no step: its identity, and the course it is made on."""
        driver = self._driver
        identity = driver.replay.identity(what)
        async with self._waiting(identity, called) as call:
            await driver.log.until(
                lambda: not driver.replay.is_told(identity) or driver.is_told(call.course)
            )
            driver.raise_if_told(call.course)
            yield identity, call.course
            if not driver.replay.is_done(identity):  # told of a redirect it has not looked for
                driver.raise_if_told(call.course)

    @asynccontextmanager
    async def _waiting(self, identity: str, called: str) -> AsyncIterator[Waiting]:
        """While a call waits it can be told things."""
        driver = self._driver
        driver.waiting[identity] = call = Waiting(identity, called, driver.heard)
        driver.log.stir()
        try:
            yield call
        except Signal as signal:
            if isinstance(signal, Redirected):
                driver.replay.turn_away(identity, signal)
            self._note()
            raise
        finally:
            del driver.waiting[identity]
            driver.log.stir()

    def _note(self) -> None:
        """Once more it was told to stop: whether it hears that is up to it, but not for ever."""
        self._signals += self._driver.told is not None
