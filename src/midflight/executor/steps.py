"""One step, from being asked for to its record: gates, approval, hold, attempts, outcome.

Runs in a task that the driver owns; the agent function only waits for ``future``. The rules in one
sentence each: nothing starts while anything holds the run; what touches the world is on record
before its first line; after the record comes one more look, without an await, before that line;
what ended without a known outcome is checked or asked about, never guessed and never silently
repeated.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NoReturn

import anyio
from msgspec import Raw

from midflight.errors import CorruptEntry, IllegalEvent, StepFailed
from midflight.executor import values
from midflight.executor.calls import Aborted, Call, Ending, Raised, Returned
from midflight.executor.logbook import Choose
from midflight.executor.replay import Answered
from midflight.kernel import events as e
from midflight.kernel.limits import at_cap
from midflight.kernel.phases import Cause, Effect, Outcome, Phase
from midflight.kernel.record import NULL, Event
from midflight.kernel.state import RunState
from midflight.run import Redirected
from midflight.tools.base import Done, NotDone, Performed, Tool, Unclear

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

RETRY: Final = "retry:"  # the timers of steps that wait before they try again
CHOICES = {
    "happened": "It did happen",
    "again": "It did not: try again",
    "fail": "Give this step up",
}
BACKOFF_S = 0.5  # before the second try, and twice as long before each one after it


class Step:
    """A step that is being done."""

    def __init__(
        self,
        driver: Driver,
        identity: str,
        name: str,
        tool: Tool,
        *,
        call: tuple[tuple[Any, ...], dict[str, Any]],
        given: Raw,
        course: int,
    ) -> None:
        self.driver = driver
        self.identity = identity
        self.name = name
        self.tool = tool
        self.call: Call | None = None
        self.attempt = 0  # where the attempt under way is on record
        self._resting = True
        self._asking = False
        self._idle = False
        self.future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._args, self._kwargs = call
        self._given = given
        self._course = course

    @property
    def resting(self) -> bool:
        """Neither in the tool nor writing down how it ended."""
        return self._resting

    @resting.setter
    def resting(self, resting: bool) -> None:
        self._resting = resting
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
        except (asyncio.CancelledError, IllegalEvent, CorruptEntry):
            raise  # the driver's own affair: the function cannot do anything about it
        except BaseException as error:  # noqa: BLE001 - a signal or a failure goes to who waits
            self._tell(error)
        else:
            if not self.future.done():
                self.future.set_result(result)
        finally:
            self.driver.steps.discard(self)
            self.driver.log.stir()

    def _tell(self, error: BaseException) -> None:
        if isinstance(error, Redirected):
            self.driver.replay.forget_turn(self.identity)
        if not self.future.done():
            self.future.set_exception(error)

    # ── reads ────────────────────────────────────────────────────────────────────────────────

    async def _read(self) -> Raw:
        while True:
            await self._wait_out()
            await self._may_start()
            await self._end_wait()
            ending = await self._run_tool()
            match ending:
                case Returned(value=value):
                    result = values.encode(self.name, "its result", value)
                    return await self._record(result, "")
                case Raised(error=error) if self._tries_left <= 0:
                    await self._fail(_words(error))
                case Raised():
                    await self.driver.log.decide(self._back_off)
                case Aborted():
                    self.resting = True

    async def _fail(self, error: str) -> NoReturn:
        await self._record(NULL, error)
        raise StepFailed(self.name, error)

    async def _record(self, result: Raw, error: str) -> Raw:
        epoch = self.driver.epoch
        settled = e.StepSettled(
            epoch=epoch, step=self.identity, name=self.name, result=result, error=error
        )
        await self._end_wait()  # or the run would not take it
        written = await self.driver.log.settle(settled)
        self.resting = True
        if not written:
            await self._may_start()  # the run is not ours any more, or at rest: says which
        return result

    # ── effects ──────────────────────────────────────────────────────────────────────────────

    async def _effect(self) -> Raw:
        failed = ""  # how the last try came to nothing by itself
        while True:
            await self._wait_out()
            doubt = self._in_doubt()
            if doubt is not None and not await self._resolve(doubt, failed):
                return self._recorded()
            position = await self._begin()
            if position is None:
                continue
            self.attempt = position
            ending = await self._run_tool()
            outcome, result, error = self._judge(ending)
            failed = error if isinstance(ending, Raised) else ""
            clear = outcome is not Outcome.UNKNOWN or self.tool.effect is Effect.WRITE
            over = bool(failed) and clear and self._tries_left <= 0
            again = self._back_off if failed and clear and not over else None
            await self._settle(position, outcome, result, error, again)
            if outcome is Outcome.DONE:
                return result
            if over:
                await self._fail(error)

    async def _begin(self) -> int | None:
        """Get the start on record. None if a stop came in between: then look again from the top."""
        driver = self.driver
        await self._may_start()
        if self.tool.approval:
            await self._approved()
        if self.tool.hold:
            await self._held_back()
        written = await driver.log.decide(self._start_events)
        if not written:
            return None
        position = written[-1].position
        driver.look_again()  # no await from here to the tool's first line
        if not driver.may_start(self._course):
            await self._settle(position, Outcome.NOT_STARTED, NULL, "")
            return None
        return position

    def _start_events(self, state: RunState) -> list[Event]:
        if not self.driver.may_start(self._course):
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
                noun=tool.noun or self.name,
                input=self._given,
                undoable=tool.undo is not None,
                irreversible=tool.irreversible,
                release_always=tool.release_always,
            ),
        ]

    def _judge(self, ending: Ending) -> tuple[Outcome, Raw, str]:
        """For an effect an exception is never more than *unknown*, unless the tool knows better."""
        match ending:
            case Returned(value=value):
                return Outcome.DONE, values.encode(self.name, "its result", value), ""
            case Raised(error=error) if self.tool.effect is Effect.MODEL:
                return Outcome.FAILED, NULL, _words(error)
            case Aborted(why=why) if self.tool.effect is Effect.MODEL:
                return Outcome.ABORTED, NULL, why
            case Raised(error=NotDone() as error):
                return Outcome.NOT_DONE, NULL, str(error) or "not done"
            case Raised(error=error):
                return Outcome.UNKNOWN, NULL, _words(error)
            case Aborted(why=why):
                return Outcome.UNKNOWN, NULL, f"aborted: {why}"

    async def _settle(
        self,
        attempt: int,
        outcome: Outcome,
        result: Raw,
        error: str,
        then: Choose | None = None,
    ) -> None:
        settled = e.AttemptSettled(
            epoch=self.driver.epoch, attempt=attempt, outcome=outcome, result=result, error=error
        )
        await self.driver.log.settle(settled, then)
        self.resting = True

    # ── what is in doubt ─────────────────────────────────────────────────────────────────────

    def _in_doubt(self) -> int | None:
        """The attempt at this step whose outcome nobody knows."""
        for position in reversed(self.driver.replay.attempts_of(self.identity)):
            effect = self.driver.log.state.effects.get(position)  # None: a model call
            return position if effect and effect.outcome is Outcome.UNKNOWN else None
        return None

    async def _resolve(self, attempt: int, failed: str) -> bool:
        """Find out what became of it. True: try again. False: it is on record now.

        A try that has ``failed`` by itself and is proven not done counts as one; what was cut off
        by a crash, an abort or a stop does not, nor does what a person wants done again.
        """
        if self.tool.effect is Effect.WRITE:
            return True  # the same key makes a repeat harmless
        await self._may_start()
        answer: Any = await self._check(attempt)
        how = "check"
        if isinstance(answer, Unclear):
            answer = await self._ask_person(attempt, answer.why)
            how = "person"
        if isinstance(answer, Done):
            result = values.encode(self.name, "its result", answer.result)
            await self._learn(attempt, Outcome.DONE, result, how)
            return False
        counts = bool(failed) and how == "check"
        over = counts and self._tries_left <= 0
        again = self._back_off if counts and not over else None
        await self._learn(attempt, Outcome.NOT_DONE, NULL, how, again)
        if over:
            await self._fail(failed)
        return True

    async def _check(self, attempt: int) -> Any:
        if self.tool.check is None:
            return Unclear("the tool cannot be asked whether it happened")
        asked = Performed(self.key, list(self._args), dict(self._kwargs))
        ending = await Call(_helper(self.tool.check), (asked,), {}).run()
        match ending:
            case Returned(value=Done() | Unclear() as answer):
                return answer
            case Returned(value=NotDone()) | Raised(error=NotDone()):
                return NotDone()
            case Raised(error=error):
                return Unclear(f"its check failed: {_words(error)}")
            case _:
                return Unclear("its check gave no answer")

    async def _ask_person(self, attempt: int, why: str) -> Any:
        noun = self.tool.noun or self.name
        message = f"It is not known whether this happened: {noun}. {why}".strip()
        answer = await self.ask(f"doubt:{attempt}", "doubt", message, CHOICES, about=attempt)
        choice = values.decode(answer.payload) if answer.by else "fail"
        match choice:
            case "again":
                return NotDone()
            case "happened":
                return Done()
            case _:
                return await self._fail(f"outcome unknown: {why}")

    async def _learn(
        self, attempt: int, outcome: Outcome, result: Raw, how: str, then: Choose | None = None
    ) -> None:
        learned = e.LateOutcome(
            epoch=self.driver.epoch, attempt=attempt, outcome=outcome, result=result, how=how
        )
        await self.driver.log.settle(learned, then)

    def _recorded(self) -> Raw:
        record = self.driver.replay.records[self.identity]
        return record.result

    # ── gates ────────────────────────────────────────────────────────────────────────────────

    async def _may_start(self) -> None:
        """Wait until the run may move. Raises what the function has to be told."""
        driver = self.driver
        self.resting = True
        while True:
            await driver.log.until(lambda: driver.movable(self._course))
            driver.raise_if_told(self._course)
            if await self._within_caps():
                return

    async def _within_caps(self) -> bool:
        driver = self.driver

        def hold(state: RunState) -> list[Event]:
            meter = at_cap(state, driver.clock(), steps=1, tool_calls=1)
            if meter is None or Cause.CAP in state.holds:
                return []
            text = f"{meter.name}: the cap of {meter.cap:g} is reached. Raise it to go on."
            asked = e.QuestionOpened(epoch=driver.epoch, kind="cap", message=text)
            return [e.HoldPlaced(cause=Cause.CAP, why=text), asked]

        if at_cap(driver.log.state, driver.clock(), steps=1, tool_calls=1) is None:
            return True
        await driver.log.decide(hold)
        return False

    async def _approved(self) -> None:
        step = f"approve:{self.identity}:{values.digest(bytes(self._given))}"
        noun = self.tool.noun or self.name
        choices = {"approve": "Do it", "reject": "Do not do it"}
        answer = await self.ask(step, "approval", f"May this be done: {noun}?", choices)
        decision = values.decode(answer.payload) if answer.by else "reject"
        if decision != "approve":
            why = f"rejected by {answer.by}" if answer.by else f"not approved: {answer.closed}"
            await self._fail(why)
        await self._may_start()

    async def ask(
        self, step: str, kind: str, message: str, choices: dict[str, str], about: int = 0
    ) -> Answered:
        """Open a question of this step, or find it again, and wait for its answer."""
        self.asking = True
        try:
            return await self.driver.ask(step, kind, message, choices=choices, about=about)
        finally:
            self.asking = False

    async def _held_back(self) -> None:
        """The window in which a cancel still wins; starts again in full after a pause."""
        driver = self.driver
        while True:
            until = driver.clock() + self.tool.hold
            noun = self.tool.noun or self.name

            def opened(state: RunState, until: float = until, noun: str = noun) -> list[Event]:
                if not driver.may_start(self._course):
                    return []
                return [
                    *driver.wait_over(state),
                    e.WindowOpened(epoch=driver.epoch, step=self.identity, noun=noun, until=until),
                ]

            await driver.log.decide(opened)
            with anyio.move_on_after(max(0.0, until - driver.clock())):
                await driver.log.until(lambda: not driver.may_start(self._course))
            if driver.may_start(self._course):
                return
            await self._may_start()

    async def _run_tool(self) -> Ending:
        kwargs = dict(self._kwargs)
        if self.tool.wants_key:
            kwargs["idempotency_key"] = self.key
        self.resting = False
        self.call = Call(self.tool, self._args, kwargs)
        return await self.call.run()

    # ── trying again ─────────────────────────────────────────────────────────────────────────

    @property
    def _timer(self) -> str:
        return f"{RETRY}{self.identity}"

    @property
    def _tries_left(self) -> int:
        """Each try but the first has a timer on record, so no crash gives a step more of them."""
        return self.tool.retry - self.driver.replay.timers[self._timer]

    def _back_off(self, state: RunState) -> list[Event]:
        """Wait before the next try, on record: a crash neither shortens nor forgets it."""
        driver = self.driver
        if state.epoch != driver.epoch or state.phase not in {Phase.RUNNING, Phase.PAUSING}:
            return []
        until = driver.clock() + BACKOFF_S * 2 ** driver.replay.timers[self._timer]
        return [e.TimerSet(epoch=driver.epoch, name=self._timer, until=until)]

    async def _wait_out(self) -> None:
        """What is left of a back-off, also of one that began before a crash or an eviction."""
        driver, timer = self.driver, self._timer

        def cleared(state: RunState) -> list[Event]:
            if timer not in state.timers or not driver.may_start(self._course):
                return []
            return [
                *driver.wait_over(state),
                e.TimerCleared(epoch=driver.epoch, name=timer),
            ]

        while timer in driver.log.state.timers:
            await self._may_start()
            left = driver.log.state.timers.get(timer, 0.0) - driver.clock()
            if left <= 0:
                await driver.log.decide(cleared)
                continue
            self.idle = True
            with anyio.move_on_after(left):
                await driver.log.until(lambda: not driver.may_start(self._course))
            self.idle = False

    async def _end_wait(self) -> None:
        """Something happens in a run that waits for a person: it does not only wait any more."""
        if self.driver.log.state.phase is Phase.WAITING:
            await self.driver.log.decide(self.driver.wait_over)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _helper(function: Any) -> Tool:
    """A check or an undo, called as a tool is."""
    is_async = asyncio.iscoroutinefunction(function)
    return Tool(name="helper", function=function, runs="async" if is_async else "thread")
