"""``Run`` as the driver implements it: at every call the function can be told things."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import anyio

from midflight.errors import InvalidRequest, StepFailed
from midflight.executor import approval, children, talk, values
from midflight.executor.calls import refuse_inside_a_step
from midflight.executor.drive import Driver
from midflight.executor.replay import KEYED, Answered, Record
from midflight.executor.steps import Step
from midflight.guards import Guard
from midflight.kernel import events as e
from midflight.kernel.limits import validate
from midflight.kernel.record import Limits
from midflight.run import Agent, Answer, Approval, Child, Message, Redirected, Signal
from midflight.schemas import check_schema
from midflight.tools.base import Tool, as_tool, is_reusable

BREATH: Final = 64  # steps from the record before the other runs have their turn
PATIENCE: Final = 3  # signals raised before a function that catches them all waits for ever


class RunContext:
    """The run of one call of an agent function."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._course = driver.course
        self._signals = 0
        self._seed = driver.replay.seed
        self._chance = random.Random(self._seed)
        self.restored: Any = driver.restored

    def _draw_anew(self, step: str, found: bool) -> None:
        """Chances are those of the run that was forked until its last step, and then our own.

        Or steps that are taken over would have other arguments, and new ones the same as before.
        """
        replay = self._driver.replay
        seed = replay.new_seeds.get(step) if found else self._driver.run
        if replay.new_seeds and seed is not None and seed != self._seed:
            self._seed = seed
            self._chance.seed(seed)

    @property
    def id(self) -> str:
        """See ``Run.id``."""
        return self._driver.run

    @property
    def brief(self) -> str:
        """See ``Run.brief``."""
        refuse_inside_a_step("run.brief")
        return self._driver.replay.brief

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

    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, key: str = "", **kwargs: Any
    ) -> Any:
        """See ``Run.step``."""
        refuse_inside_a_step("run.step")
        await self._listen()
        driver, tool = self._driver, as_tool(function)
        given = values.encode(name, "its arguments", {"args": list(args), "kwargs": kwargs})
        what = self._what(key, f"{name}:{values.digest(bytes(given))}", is_reusable(tool))
        identity = driver.replay.identity(what)
        kind = values.result_type(tool.function)
        record = driver.replay.claim(identity)
        self._draw_anew(identity, record is not None)
        outdated = record is not None and self._outdated(tool, record)
        if record is not None and not outdated:
            driver.log.stir()
            if len(driver.replay.unclaimed) % BREATH == 0:
                await anyio.lowlevel.checkpoint()
            await self._note_reuse(identity, tool)
            return await self._from_record(name, record, kind)
        step = Step(
            driver,
            what,
            identity,
            name,
            tool,
            call=(args, kwargs),
            given=given,
            course=self._course,
            refreshing=outdated,
        )
        driver.steps.add(step)
        driver.tasks.start_soon(step.perform)
        driver.log.stir()
        return values.decode(bytes(await self._result(step)), kind)

    def _what(self, key: str, unkeyed: str, reusable: bool = True) -> str:
        return f"{KEYED}{key}" if key else self._driver.replay.scoped(unkeyed, reusable=reusable)

    def _outdated(self, tool: Tool, record: Record) -> bool:
        return tool.fresh is not None and self._driver.clock() - record.at > tool.fresh

    async def _note_reuse(self, identity: str, tool: Tool) -> None:
        """An effect of an earlier brief is wanted by this one too."""
        driver = self._driver
        if tool.effect.touches_world and driver.replay.is_reuse(identity):
            await driver.log.settle(e.StepReused(epoch=driver.epoch, step=identity))

    async def _from_record(self, name: str, record: Record, kind: Any) -> Any:
        if record.error:
            raise StepFailed(name, record.error)
        if record.blob is not None:
            return values.decode(await self._driver.store.blob(record.blob.hash), kind)
        return values.decode(bytes(record.result), kind)

    async def _result(self, step: Step) -> Any:
        try:
            return await step.future
        except Signal as signal:
            raise self._noted(signal) from None
        except asyncio.CancelledError:  # the function's own timeout, or its end
            step.give_up()
            raise

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
        step = self._driver.replay.identity(what)
        with self._noting():
            return await children.spawn(
                self._driver, step, agent, brief, given=given, limits=limits, course=self._course
            )

    # ── people ───────────────────────────────────────────────────────────────────────────────

    async def plan(self, *steps: str) -> None:
        """See ``Run.plan``."""
        await self._listen()
        epoch = self._driver.epoch
        await self._driver.log.decide(
            lambda s: (
                [*self._driver.wait_over(s), e.PlanSet(epoch=epoch, steps=steps)]
                if s.plan != steps and self._driver.may_start(self._course)
                else []
            )
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
        answered = await self._ask("ask", message, schema, expires_in, answerers)
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
        step = driver.replay.identity(what)
        expires_at = None if expires_in is None else driver.clock() + expires_in
        try:
            return await driver.ask(
                step,
                kind,
                message,
                schema=schema,
                expires_at=expires_at,
                answerers=tuple(answerers),
            )
        except Signal as signal:
            if isinstance(signal, Redirected):
                driver.replay.forget_turn(what)
            raise self._noted(signal) from None

    async def inbox(self) -> list[Message]:
        """See ``Run.inbox``."""
        refuse_inside_a_step("run.inbox")
        await self._listen()
        step = self._driver.replay.identity(self._what("", "inbox", reusable=False))
        with self._noting():
            return await talk.take_messages(self._driver, step, self._course)

    async def say(self, text: str) -> None:
        """See ``Run.say``."""
        refuse_inside_a_step("run.say")
        await self._listen()
        what = self._what("", f"say:{values.digest(text.encode())}")
        with self._noting():
            await talk.say(self._driver, self._driver.replay.identity(what), text, self._course)

    def notices(self) -> list[str]:
        """See ``Run.notices``."""
        return [text for _, text in self._driver.log.state.notices]

    # ── the world, time, chance ──────────────────────────────────────────────────────────────

    async def guard(self, guard: Guard) -> None:
        """See ``Run.guard``."""
        refuse_inside_a_step("run.guard")
        await self._listen()
        with self._noting():
            await self._driver.guards.take(guard, self._course)

    async def snapshot(self, state: Any) -> None:
        """See ``Run.snapshot``."""
        refuse_inside_a_step("run.snapshot")
        await self._listen()
        driver = self._driver
        if driver.steps:
            open_ones = ", ".join(sorted(step.name for step in driver.steps))
            raise InvalidRequest(f"run.snapshot while steps are open: {open_ones}. Nothing saved.")
        saved = e.StateSaved(
            epoch=driver.epoch, state=values.encode("snapshot", "the state", state)
        )
        with self._noting():
            while True:
                await driver.gate(self._course)
                if await driver.log.decide(
                    lambda s: (
                        [*driver.wait_over(s), saved] if driver.may_start(self._course) else []
                    )
                ):
                    break
        self._seed = driver.replay.seed
        self._chance = random.Random(self._seed)

    def now(self) -> float:
        """See ``Run.now``."""
        return self._driver.replay.now

    def random(self) -> random.Random:
        """See ``Run.random``."""
        return self._chance

    def uuid(self) -> UUID:
        """See ``Run.uuid``."""
        return UUID(int=self._chance.getrandbits(128), version=4)

    # ── signals ──────────────────────────────────────────────────────────────────────────────

    async def _listen(self) -> None:
        """Raise what has to be told; a function that will not hear it waits for ever."""
        if self._signals >= PATIENCE and self._driver.told is not None:
            await anyio.sleep_forever()
        with self._noting():
            self._driver.raise_if_told(self._course)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except Signal as signal:
            raise self._noted(signal) from None

    def _noted(self, signal: Signal) -> Signal:
        if isinstance(signal, Redirected):
            self._course = self._driver.course
        else:
            self._signals += 1
        return signal
