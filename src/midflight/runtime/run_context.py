"""``Run`` as the driver implements it: at every call the function can be told things."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn
from uuid import UUID

import anyio
from msgspec import Raw

from midflight.agents import Agent
from midflight.conversation import Message, Spoken
from midflight.errors import InvalidRequest, StepFailed
from midflight.guards import Guard
from midflight.journal import events as e
from midflight.journal.limits import validate
from midflight.journal.record import Limits
from midflight.run import Answer, ApprovalAnswer, Child, Signal
from midflight.run import Step as Named
from midflight.runtime import children, values
from midflight.runtime.foreign import text
from midflight.runtime.function_calls import FunctionCalls, People
from midflight.runtime.host import Host
from midflight.runtime.replay.staleness import Guards
from midflight.runtime.replay.step_records import Record
from midflight.runtime.steps import offspring
from midflight.runtime.steps.attempt import do_plainly, perform
from midflight.runtime.steps.step import Step
from midflight.runtime.steps.tool_call import in_step, refuse_inside_a_step
from midflight.tools.declaration import Tool, undeclared

NAME_LOOKED_AT: Final = 1_000  # characters of a name that needs no closer look
BREATH: Final = 64  # steps from the record before the other runs have their turn


class RunContext:
    """The run of one call of an agent function; ``course`` is the last one that it has heard of."""

    __slots__ = ("_calls", "_chance", "_guards", "_host", "_people", "_seed", "restored")

    def __init__(self, host: Host, guards: Guards, restored: Any) -> None:
        self._host = host
        self._guards = guards
        self._calls = FunctionCalls(host)
        self._people = People(self._calls)
        self._seed = host.history.seed
        self._chance: random.Random | None = None
        self.restored = restored

    def _draw_anew(self, step: str, found: bool) -> None:
        """Chances are those of the run that was forked until its last step, and then our own.

        Or steps that are taken over would have other arguments, and new ones the same as before.
        """
        history = self._host.history
        seed = history.new_seeds.get(step) if found else self._host.journal.run
        if seed is not None and seed != self._seed:
            self._seed, self._chance = seed, None

    @property
    def id(self) -> str:
        """See ``Run.id``."""
        return self._host.journal.run

    @property
    def brief(self) -> str:
        """See ``Run.brief``."""
        refuse_inside_a_step("run.brief")
        return self._host.signals.brief

    @property
    def profile(self) -> str:
        """See ``Run.profile``."""
        refuse_inside_a_step("run.profile")
        return self._host.signals.profile

    @property
    def input(self) -> Any:
        """See ``Run.input``."""
        return values.decode(self._host.history.input)

    @property
    def workdir(self) -> Path:
        """See ``Run.workdir``."""
        self._host.workdir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._host.workdir.chmod(0o700)  # or one of an earlier release stays open to all
        return self._host.workdir

    # ── steps ────────────────────────────────────────────────────────────────────────────────

    async def step(
        self, name: str | Named, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """See ``Run.step``."""
        name, key = (name.name, name.key) if isinstance(name, Named) else (name, "")
        _check_call(name, key, function)
        host, history = self._host, self._host.history
        if host.journal.calm:
            history.count_call()
        elif not self._calls.count():
            await self._calls.listen()
        tool = function if isinstance(function, Tool) else undeclared(function)
        stored, asked = values.encode_arguments(
            name, args, kwargs, tool.function, size=history.digest_bytes
        )
        identity, asked = history.place_step(key, name, stored, asked, reusable=tool.reusable)
        kind, record = values.result_type(tool.function), None
        if not history.is_new(identity) or history.new_seeds:
            record = None if history.new_seeds else history.given(identity)
            if record is None:
                record = await self._known(identity, name)
        outdated = tool.max_age is not None and record is not None and self._outdated(tool, record)
        if record is not None and not outdated:
            if self._must_note(tool, identity):
                await self._note_reuse(tool, identity)
            if record.error or record.blob is not None:
                return await self._from_record(name, record, kind)
            return values.decode(record.result, kind)
        step = Step(
            host,
            self._guards,
            identity,
            name,
            tool,
            call=(args, kwargs),
            given=stored,
            asked=asked,
            course=host.signals.heard,
            refreshing=outdated,
        )
        plain = tool.plain and host.journal.calm and history.is_first_call(identity)
        host.in_flight.begin(step, do_plainly if plain else perform)
        future = step.future
        try:
            return values.decode(await future, kind)
        except (Signal, asyncio.CancelledError) as error:  # also the function's own timeout
            self._is_told(step, error, given_up=future.cancelled())
            raise
        finally:
            del future  # it knows what it has raised, which knows this frame

    def _is_told(self, step: Step, error: BaseException, *, given_up: bool) -> None:
        """Note that a step has ended with a stop, or that the function does not wait for it."""
        if isinstance(error, Signal):
            self._calls.note()
        elif given_up:
            step.give_up()

    async def _known(self, identity: str, name: str) -> Record | None:
        """Return the record of a step, if there is one."""
        history, record = self._host.history, None
        if not history.is_new(identity):
            record = history.given(identity) or await self._on_record(identity, name)
        if history.new_seeds:
            self._draw_anew(identity, record is not None)
        return record

    def _must_note(self, tool: Tool, identity: str) -> bool:
        """Return whether ``_note_reuse`` has something to do: most steps just get their record."""
        history, in_flight = self._host.history, self._host.in_flight
        left = len(history.unclaimed)
        replays = left % BREATH and not (in_flight.steps or in_flight.waiting)
        reused = history.redirected_at and tool.effect.touches_world
        return not replays or bool(reused and history.is_reuse(identity))

    async def _note_reuse(self, tool: Tool, identity: str) -> None:
        """A step is given its record: let others have their turn, and note an effect reused."""
        host = self._host
        if host.in_flight.steps or host.in_flight.waiting or not host.history.unfinished:
            host.journal.stir()  # somebody may wait for its turn, or for the end of the replay
        if len(host.history.unclaimed) % BREATH == 0:
            await anyio.lowlevel.checkpoint()
        if tool.effect.touches_world and host.history.is_reuse(identity):
            await host.journal.settle(e.StepReused(epoch=host.journal.epoch, step=identity))

    async def _on_record(self, identity: str, name: str) -> Record | None:
        """Return the record of a step, when it is the step's turn; None if there is no record.

        Where the function has given up waiting before, it waits again until it does so again.
        """
        host, history = self._host, self._host.history
        if not history.is_turn_of(identity):
            async with self._calls.waiting(identity, name) as call:
                await host.journal.until(
                    lambda: history.is_turn_of(identity) or host.signals.is_told(call.course)
                )
                host.signals.raise_if_told(call.course)
        return history.claim(identity)

    def _outdated(self, tool: Tool, record: Record) -> bool:
        assert tool.max_age is not None
        return self._host.journal.clock.now() - record.at > tool.max_age

    async def _from_record(self, name: str, record: Record, kind: Any) -> Any:
        if record.error:
            raise StepFailed(name, record.error)
        return values.decode(await self._host.journal.raw(record), kind)

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
        called = agent.name if isinstance(agent, Agent) else agent
        values.check_name("run.spawn", "an agent", called)
        values.check_text("run.spawn", "a brief", brief)
        values.check_name("run.spawn", "key=", key)
        if limits is not None:
            validate(limits)
        await self._calls.listen()
        stored = values.encode(f"spawn {called}", "its input", input)
        digest = self._digest_of_child(brief, stored)
        what = self._calls.what(key, f"spawn:{called}:{digest}")
        async with self._calls.turn(what, f"spawn {called}") as (step, course):
            wanted = offspring.Wanted(step, called, brief, stored, course)
            if taken := await offspring.child_instead(self._host, wanted):
                await children.adopt(self._host, taken)
                return children.Child(self._host, taken)
            return await children.spawn(
                self._host, step, agent, brief, given=stored, limits=limits, course=course
            )

    def _digest_of_child(self, brief: str, stored: Raw) -> str:
        """Return the digest of a child's brief and input, and of which is which."""
        size = self._host.history.digest_bytes
        if size < values.DIGEST_BYTES:  # of a run that an earlier release has begun
            return values.digest(brief.encode() + bytes(stored), size)
        both = [brief, bytes(stored).decode()]
        return values.digest(bytes(values.encode("spawn", "its brief", both)))

    # ── people ───────────────────────────────────────────────────────────────────────────────

    async def plan(self, *steps: str) -> None:
        """See ``Run.plan``."""
        await self._people.plan(*steps)

    async def ask(
        self,
        message: str,
        *,
        schema: type | dict[str, Any] | None = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> Answer:
        """See ``Run.ask``."""
        return await self._people.ask(
            message, schema=schema, expires_in=expires_in, answerers=answerers
        )

    async def approve(
        self,
        message: str,
        *,
        details: Any = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> ApprovalAnswer:
        """See ``Run.approve``."""
        return await self._people.approve(
            message, details=details, expires_in=expires_in, answerers=answerers
        )

    async def hand_over(self, message: str, *, to: Sequence[str] = ()) -> Answer:
        """See ``Run.hand_over``."""
        return await self._people.hand_over(message, to=to)

    async def cancel(self, why: str, *, by: str = "") -> NoReturn:
        """See ``Run.cancel``."""
        await self._people.cancel(why, by=by)

    async def inbox(self) -> list[Message]:
        """See ``Run.inbox``."""
        return await self._people.inbox()

    async def earlier(self) -> list[Spoken]:
        """See ``Run.earlier``."""
        return await self._people.earlier()

    async def say(self, text: str) -> None:
        """See ``Run.say``."""
        await self._people.say(text)

    async def distrust(self, source: str) -> None:
        """See ``Run.distrust``."""
        await self._people.distrust(source)

    def notices(self) -> list[str]:
        """See ``Run.notices``."""
        return self._people.notices()

    # ── the world, time, chance ──────────────────────────────────────────────────────────────

    async def guard(self, guard: Guard) -> None:
        """See ``Run.guard``."""
        refuse_inside_a_step("run.guard")
        if not callable(getattr(guard, "look", None)):
            raise InvalidRequest(
                f"run.guard takes a guard, as FileContent(path), not {_shown(guard)}."
            )
        values.check_name("run.guard", "the name of a guard", guard.name)
        await self._calls.listen()
        async with self._calls.turn(f"guard:{guard.name}", f"a guard: {guard.name}") as (_, course):
            await self._guards.take(guard, course)

    async def snapshot(self, state: Any) -> None:
        """See ``Run.snapshot``."""
        refuse_inside_a_step("run.snapshot")
        await self._calls.listen()
        host = self._host
        if host.in_flight.names:
            open_ones = ", ".join(host.in_flight.names)
            raise InvalidRequest(
                f"run.snapshot cannot be called while steps are open ({open_ones}): await them "
                "first. Nothing was saved."
            )
        saved = e.StateSaved(
            epoch=host.journal.epoch, state=values.encode("snapshot", "the state", state)
        )
        async with self._calls.turn("snapshot", "a snapshot") as (_, course):
            while True:
                await host.gate.wait(course)
                if await host.journal.decide(
                    lambda s: (
                        [*host.journal.wait_over(s), saved] if host.gate.may_start(course) else []
                    )
                ):
                    break
        self._seed = host.history.seed
        self._chance = None

    def now(self) -> float:
        """See ``Run.now``."""
        return self._host.history.now

    def random(self) -> random.Random:
        """See ``Run.random``."""
        if self._chance is None:  # made when asked for: it weighs 3 kB, and few agents do
            self._chance = random.Random(self._seed)
        return self._chance

    def uuid(self) -> UUID:
        """See ``Run.uuid``."""
        return UUID(int=self.random().getrandbits(128), version=4)


def _check_call(name: str, key: str, function: object) -> None:
    """Refuse what is no step. Two slips everybody makes once: no name, a call for a function."""
    if in_step.get() is not None:
        refuse_inside_a_step("run.step")
    usual = type(name) is str and len(name) <= NAME_LOOKED_AT and name.isprintable()
    if usual and key == "" and callable(function):
        return
    if not isinstance(name, str):
        raise InvalidRequest(
            f"run.step takes a name first, in words that a person reads, and got {_shown(name)}: "
            'await run.step("Look", look, …). Nothing was done.'
        )
    if inspect.iscoroutine(function):
        function.close()
        raise InvalidRequest(
            f"step {name!r} was given the result of a call instead of a function and its "
            f"arguments: write await run.step({name!r}, {function.__name__}, …). Nothing was "
            "done."
        )
    if not callable(function):
        raise InvalidRequest(
            f"step {name!r}: {_shown(function)} is not a function. Nothing was done."
        )
    values.check_name("run.step", "a name", name)
    if key != "":
        values.check_name("run.step", "the key of Step", key)


def _shown(value: object) -> str:
    """Return what a person has given, short, for an error about it."""
    try:
        return text(repr(value), 60)
    except Exception:  # noqa: BLE001 - code of the value's own class
        return f"a {type(value).__name__}"
