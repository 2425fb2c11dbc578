"""One step, from being asked for to its record: gates, attempts, outcome.

Runs in a task that the driver owns; the agent function only waits for ``future``. The rules in one
sentence each: nothing starts while anything holds the run; what touches the world is on record
before its first line; after the record comes one more look, without an await, before that line;
what ended without a known outcome is checked or asked about, never guessed and never silently
repeated.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import Raw

from midflight.errors import CorruptEntry, IllegalEvent, StepFailed
from midflight.executor import doubt, values
from midflight.executor.backoff import back_off, tries_left, wait_out
from midflight.executor.calls import Aborted, Call, Ending, Raised, Returned
from midflight.executor.caps import within_caps
from midflight.executor.heard import Answered
from midflight.executor.left import fingerprint
from midflight.executor.logbook import Choose
from midflight.executor.permission import permitted
from midflight.executor.speech import NOTHING, Speech
from midflight.kernel import events as e
from midflight.kernel.phases import Effect, Outcome, Phase
from midflight.kernel.record import NULL, Event, Usage
from midflight.kernel.state import RunState
from midflight.run import Redirected
from midflight.tools.base import NotDone, Tool
from midflight.tools.secret import hide

if TYPE_CHECKING:
    from midflight.executor.drive import Driver


class NotWaitedFor(Exception):
    """The function has given the step up before it began; nobody hears this."""


class Step:
    """A step that is being done."""

    __slots__ = (
        "_asking", "_idle", "_questions", "_refreshing", "_resting", "_since",
        "_unwanted", "args", "asked", "attempt", "call", "course", "driver", "future", "given",
        "identity", "intact", "kwargs", "name", "speech", "tool", "wait_at_least",
    )  # fmt: skip

    def __init__(
        self,
        driver: Driver,
        identity: str,
        name: str,
        tool: Tool,
        *,
        call: tuple[tuple[Any, ...], dict[str, Any]],
        given: Raw,
        asked: str,
        course: int,
        refreshing: bool = False,
    ) -> None:
        self.driver = driver
        self.identity = identity
        self.name = name
        self.tool = tool
        self.args, self.kwargs = call
        self.given = given
        self.asked = asked  # the digest of what the function has given; a person may edit it
        self.course = course
        self.call: Call | None = None
        self.wait_at_least = 0.0  # before the next try, as who refused the last one has said
        self.attempt = 0  # where the attempt under way is on record
        self.future: asyncio.Future[Raw] = driver.alarms.loop.create_future()
        self.speech = Speech(self)
        self._refreshing = refreshing  # a read that is repeated, so it waits for no other record
        self._unwanted = False
        self.intact: dict[str, str] = {}  # how guards looked just before it began
        self._resting = True
        self._asking = False
        self._idle = False
        self._questions: anyio.CancelScope | None = None
        self._since = driver.alarms.loop.time()

    @property
    def noun(self) -> str:
        """What a person calls it."""
        return self.tool.noun or self.name

    @property
    def reserved(self) -> Usage:
        """What it may spend, as its tool says."""
        reserves = self.tool.reserves
        return reserves(*self.args, **self.kwargs) if reserves else NOTHING

    @property
    def resting(self) -> bool:
        """Neither in the tool nor writing down how it ended."""
        return self._resting

    @resting.setter
    def resting(self, resting: bool) -> None:
        stirs = resting and not self._resting  # nobody waits for a step to begin
        self._resting = resting
        if stirs:
            self.driver.log.stir()

    @property
    def asking(self) -> bool:
        """Waits for a person."""
        return self._asking

    @asking.setter
    def asking(self, asking: bool) -> None:
        self._asking = asking
        self.driver.log.stir()

    @property
    def idle(self) -> bool:
        """Waits before it tries again."""
        return self._idle

    @idle.setter
    def idle(self, idle: bool) -> None:
        self._idle = idle
        self.driver.log.stir()

    @property
    def key(self) -> str:
        """Stable over every repeat, so that a provider can recognise one."""
        return f"{self.driver.run}:{self.identity}"

    async def perform(self) -> None:
        """Do it, and tell the function that waits for it."""
        try:
            result = await (self._read() if self.tool.effect is Effect.READ else self._effect())
            self._hear()
        except (asyncio.CancelledError, IllegalEvent, CorruptEntry):
            raise  # the driver's own affair: the function cannot do anything about it
        except StepFailed as error:
            try:
                self._hear()
            except Redirected as redirected:
                self._tell(redirected)
            else:
                self._tell(error)
        except BaseException as error:  # noqa: BLE001 - a signal or a failure goes to who waits
            self._tell(error)
        else:
            if not self.future.done():
                self.future.set_result(result)
        finally:
            self.call = None  # all know us: or each step would be left to the collector
            del self.speech, self.future
            self.driver.steps.discard(self)
            self.driver.under_way.discard(self)
            self.driver.log.stir()

    def _hear(self) -> None:
        """It was told of a redirect while its end was being written down: that it gives later."""
        if self.driver.told is None:
            self.driver.raise_if_told(self.course)

    def _tell(self, error: BaseException) -> None:
        if isinstance(error, Redirected):
            self.driver.replay.turn_away(self.identity, error)
        if not self.future.done():
            self.future.set_exception(error)

    def give_up(self) -> None:
        """The function does not wait any more: a read is ended, an effect finishes and settles.

        What has not begun does not begin.
        """
        self._unwanted = True
        if self._questions is not None:
            self._questions.cancel()
        self.driver.begin(self._leave)
        if self.tool.effect is Effect.READ and self.call is not None:
            self.call.abort("not waited for any more")
        self.driver.log.stir()

    async def _leave(self) -> None:
        """Note that the function has not learnt how this ended."""
        await anyio.lowlevel.checkpoint()  # nothing is noted by a driver that is being ended itself
        waited = self.driver.alarms.loop.time() - self._since
        left = e.StepLeft(
            epoch=self.driver.epoch, step=self.identity, name=self.name, waited=waited
        )
        if self.driver.told is None:
            await self.driver.log.settle(left)

    # ── reads ────────────────────────────────────────────────────────────────────────────────

    async def _read(self) -> Raw:
        while not self._unwanted:
            await wait_out(self)
            await self.may_start()
            if (self.tool.approval or self.tool.relies_on) and not await permitted(self):
                continue
            await self._end_wait()
            if not self.starts():
                continue
            ending = await self._run_tool()
            if (spent := self.speech.usage).tokens:
                await self.driver.log.settle(e.UsageSpent(epoch=self.driver.epoch, usage=spent))
            match ending:
                case Returned(value=value):
                    return await self.record(*values.storable(self.name, value))
                case Raised(error=error) if tries_left(self, error) <= 0:
                    await self.speech.keep()
                    return await self.record(NULL, values.words(error))
                case Raised():
                    await self.driver.log.decide(partial(back_off, self))
                case Aborted():
                    await self.speech.keep()
                    self.resting = True
        return NULL

    async def _end_wait(self) -> None:
        """Something happens in a run that waits for a person: it does not only wait any more."""
        log = self.driver.log
        if log.busy or log.state.phase is Phase.WAITING:
            await log.decide(self.driver.wait_over)

    async def record(self, result: Raw, error: str) -> Raw:
        """Write down how the step ended, for good; raises if that is a failure."""
        epoch = self.driver.epoch
        settled = e.StepSettled(
            epoch=epoch, step=self.identity, name=self.name, result=result, error=error
        )
        await self._end_wait()  # or the run would not take it
        written = await self.driver.log.settle(settled)
        self._resting = True  # heard of at once, by who waits for the step's end
        if not written:
            self.driver.log.stir()
            await self.may_start()  # the run is not ours any more, or at rest: says which
        else:
            self.driver.replay.learn(written[-1].at)
        if error:
            raise StepFailed(self.name, error)
        return result

    # ── effects ──────────────────────────────────────────────────────────────────────────────

    async def _effect(self) -> Raw:
        kept = await doubt.wanted_twice(self)
        if kept is not None:
            return kept
        failed = ""  # how the last try came to nothing by itself
        while True:
            await wait_out(self)
            unknown = doubt.attempt_in_doubt(self)
            if unknown is not None and not await doubt.resolve(self, unknown, failed):
                return await self._recorded(NULL)
            position = await self._begin()
            if position is None:
                continue
            self.attempt = position
            ending = await self._run_tool()
            outcome, result, error = self._judge(ending)
            failed = error if isinstance(ending, Raised) else ""
            clear = outcome is not Outcome.UNKNOWN or self.tool.effect is Effect.WRITE
            over = isinstance(ending, Raised) and clear and tries_left(self, ending.error) <= 0
            again = partial(back_off, self) if failed and clear and not over else None
            if outcome is not Outcome.DONE:
                await self.speech.keep()
            left = await fingerprint(self, position, result) if outcome is Outcome.DONE else ""
            done = outcome is Outcome.DONE
            await self._settle(position, outcome, result, error, again, left=left, rests=not done)
            if done:
                # Before the run is said to be paused: what others change from then on is theirs.
                await self.driver.guards.refresh(self.intact)
                self.resting = True
                return await self._recorded(result)
            if over:
                return await self.record(NULL, error)

    async def _begin(self) -> int | None:
        """Get the start on record. None if a stop came in between: then look again from the top."""
        driver = self.driver
        await self.may_start()
        if not await permitted(self):
            return None
        written = await driver.log.decide(self._start_events)
        if not written:
            return None
        position = written[-1].position
        if not driver.may_start(self.course):  # no await from here to the tool's first line
            await self._settle(position, Outcome.NOT_STARTED, NULL, "")
            return None
        return position

    def _start_events(self, state: RunState) -> list[Event]:
        if not self.driver.may_start(self.course):
            return []
        epoch, tool = self.driver.epoch, self.tool
        return [
            *self.driver.wait_over(state),
            e.AttemptStarted(
                epoch=epoch,
                step=self.identity,
                name=self.name,
                tool=tool.name,
                effect=tool.effect,
                idempotency_key=self.key,
                noun=self.noun,
                input=self.given,
                undoable=tool.undo is not None,
                irreversible=tool.irreversible,
                release_always=tool.release_always,
                in_thread=tool.runs == "thread",
                reserved=self.reserved,
            ),
        ]

    def _judge(self, ending: Ending) -> tuple[Outcome, Raw, str]:
        """For an effect an exception is never more than *unknown*, unless the tool knows better."""
        touches = self.tool.effect.touches_world
        match ending:
            case Returned(value=value):
                return Outcome.DONE, *values.storable(self.name, value)
            case Raised(error=NotDone() as error) if touches:
                return Outcome.NOT_DONE, NULL, hide(str(error)) or "not done"
            case Raised(error=error, began=False) if touches:
                return Outcome.NOT_DONE, NULL, values.words(error)
            case Raised(error=error):
                return Outcome.UNKNOWN if touches else Outcome.FAILED, NULL, values.words(error)
            case Aborted(began=False):
                return Outcome.NOT_STARTED, NULL, ""
            case Aborted(why=why):
                outcome = Outcome.UNKNOWN if touches else Outcome.ABORTED
                return outcome, NULL, f"aborted: {why}"

    async def _settle(
        self,
        attempt: int,
        outcome: Outcome,
        result: Raw,
        error: str,
        then: Choose | None = None,
        *,
        left: str = "",
        rests: bool = True,
    ) -> None:
        settled = e.AttemptSettled(
            epoch=self.driver.epoch,
            attempt=attempt,
            outcome=outcome,
            result=result,
            error=error,
            usage=self.speech.usage,
            left=left,
        )
        await self.driver.log.settle(settled, then)
        self.resting = rests

    async def _recorded(self, result: Raw) -> Raw:
        """Give what is on record, so that this time is like every later one."""
        record = self.driver.replay.records.get(self.identity)
        if record is None:  # the run is not ours any more, and somebody else knew already
            return result
        self.driver.replay.learn(record.at)
        if record.error:
            raise StepFailed(self.name, record.error)
        return await self.driver.raw(record)

    # ── gates ────────────────────────────────────────────────────────────────────────────────

    async def may_start(self) -> None:
        """Wait until the run may move. Raises what the function has to be told."""
        driver = self.driver
        self.resting = True
        driver.under_way.discard(self)
        wait = driver.log.until if self._refreshing else driver.at_gate
        while True:
            await wait(self._has_something_to_do)
            driver.raise_if_told(self.course)
            if self._unwanted:
                raise NotWaitedFor
            if await within_caps(driver, self):
                return

    def _has_something_to_do(self) -> bool:
        return self._unwanted or self.driver.movable(self.course, replaying=self._refreshing)

    async def ask(
        self,
        step: str,
        kind: str,
        message: str,
        schema: dict[str, Any],
        *,
        about: int = 0,
        replaces: str = "",
        expires_at: float | None = None,
    ) -> Answered:
        """Open a question of this step, or find it again, and wait for its answer."""
        self.asking = True
        self._questions = anyio.CancelScope()
        try:
            with self._questions:
                return await self.driver.questions.ask(
                    step,
                    kind,
                    message,
                    schema=schema,
                    about=about,
                    replaces=replaces,
                    expires_at=expires_at,
                    course=self.course,
                )
            await self.driver.questions.withdraw(step)
            raise NotWaitedFor
        finally:
            self.asking = False
            self._questions = None

    def starts(self) -> bool:
        """Whether it may begin right now, without waiting."""
        return self.driver.may_start(self.course, replaying=self._refreshing)

    async def _run_tool(self) -> Ending:
        kwargs = dict(self.kwargs)
        if self.tool.wants_key:
            kwargs["idempotency_key"] = self.key
        return await self.run_call(
            Call(self.tool, self.args, kwargs, self.driver.alarms, self.speech.begin())
        )

    async def run_call(self, call: Call) -> Ending:
        """Be inside a tool, where a stop can reach it."""
        self.resting = False
        self.call = call
        try:
            return await call.run()
        finally:
            self.speech.end()
