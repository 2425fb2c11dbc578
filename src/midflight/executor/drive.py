"""The driver of one run: enters its function, hears what people want, and brings it to its end.

One task, the pilot, looks at the folded state and makes the next move; the others only work
(steps), listen (the watch) or run the agent's function. Everything they learn goes through the
logbook, so the pilot decides on one state and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from msgspec import Raw

from midflight.errors import StoreError
from midflight.executor import values
from midflight.executor.detach import detachable
from midflight.executor.logbook import Logbook
from midflight.executor.replay import Answered, Record, Replay
from midflight.executor.steps import Step
from midflight.executor.undo import compensate
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.kernel import events as e
from midflight.kernel.diff import one_line
from midflight.kernel.phases import ENDS, Cause, Effect, Outcome, Phase
from midflight.kernel.record import NULL, Event, Recorded
from midflight.kernel.state import RunState
from midflight.kernel.thread import Said
from midflight.run import Agent, Evicted, Redirected, Signal, Stopped
from midflight.stores.base import Draft, Lease, Store, Submit, View, Watch

UNWIND_S: Final = 5.0  # what a function has for its own clean-up before it is abandoned
REPLAY_S: Final = 0.25  # a function that asks for nothing on record for so long has changed

Move = Callable[[], Awaitable[None]]

log: Final = logging.getLogger(__name__)


class Driver:
    """Drives a run that was claimed under ``epoch``."""

    def __init__(
        self,
        store: Store,
        agent: Agent,
        state: RunState,
        lease: Lease,
        *,
        workdir: Path,
        clock: Clock = wall_clock,
        ids: Ids = new_id,
    ) -> None:
        from midflight.executor.context import RunContext

        self.store = store
        self.agent = agent
        self.lease = lease
        self.workdir = workdir
        self.clock = clock
        self.epoch = state.epoch
        self.log = Logbook(store, state, ids)
        self.replay = Replay()
        self.steps: set[Step] = set()
        self.course = 0
        self.told: Signal | None = None
        self.asking = 0
        self.input: Raw = NULL
        self.tasks: TaskGroup
        self._ids = ids
        self._watch: Watch
        self._context_type = RunContext
        self._calling = False  # the agent's function is being called
        self._function: asyncio.Task[Any] | None = None
        self._ended: BaseException | Raw | None = None
        self._over = False
        self._draining = False
        self._abandoned = False
        self.log.heard.append(self._hear)

    @property
    def run(self) -> str:
        """The run's id."""
        return self.log.state.journal

    @property
    def lost(self) -> bool:
        """Whether the run was killed or has another driver: nothing may be decided here."""
        return self.log.state.epoch != self.epoch

    # ── what steps ask ───────────────────────────────────────────────────────────────────────

    def may_start(self, course: int) -> bool:
        """Whether something may begin now."""
        state = self.log.state
        return (
            self.told is None
            and course == self.course
            and not self.lost
            and self.lease.held
            and state.phase in {Phase.RUNNING, Phase.WAITING}
            and not state.pending
            and not self.replay.unclaimed
        )

    def movable(self, course: int) -> bool:
        """Whether somebody at a gate has something to do: start, or be told."""
        return self.told is not None or course != self.course or self.may_start(course)

    def raise_if_told(self, course: int) -> None:
        """Raise what the function has to know."""
        if self.told is not None:
            raise self.told
        if course != self.course:
            raise Redirected(self.log.state.brief)

    def look_again(self) -> None:
        """Take in what was published here already, without an await."""
        self.log.absorb(self._watch.ready())

    async def value(self, record: Record) -> Any:
        """The value of a record, from its row or from its blob."""
        raw = bytes(record.result)
        return values.decode(await self.store.blob(record.blob.hash) if record.blob else raw)

    async def ask(
        self,
        step: str,
        kind: str,
        message: str,
        *,
        choices: dict[str, str] | None = None,
        schema: dict[str, Any] | None = None,
        expires_at: float | None = None,
        answerers: tuple[str, ...] = (),
        about: int = 0,
    ) -> Answered:
        """Open a question under a step's name, or find it again; wait for its answer."""
        wanted = schema if choices is None else {"enum": list(choices), "x-labels": choices}
        course = self.course

        def opened(state: RunState) -> list[Event]:
            self.raise_if_told(course)
            if step in self.replay.questions:
                return []
            return [
                e.QuestionOpened(
                    epoch=self.epoch,
                    kind=kind,
                    message=message,
                    schema=values.encode(step, "its schema", wanted),
                    step=step,
                    about=about,
                    expires_at=expires_at,
                    answerers=answerers,
                )
            ]

        await self.log.decide(opened)
        question = self.replay.questions[step]
        self.asking += 1
        self.log.stir()
        try:
            await self.log.until(
                lambda: (
                    question in self.replay.answers
                    or self.told is not None
                    or course != self.course
                )
            )
        finally:
            self.asking -= 1
            self.log.stir()
        self.raise_if_told(course)
        return self.replay.answers[question]

    # ── the pilot ────────────────────────────────────────────────────────────────────────────

    async def drive(self) -> None:
        """Drive until the run ends, rests for long, or is not ours any more."""
        for record in await _history(self.store, self.run, self.log.state.head):
            self._hear(record)
        async with self.store.watch({self.run: self.log.state.head}) as watch:
            self._watch = watch
            async with anyio.create_task_group() as tasks:
                self.tasks = tasks
                tasks.start_soon(self._listen)
                await self._settle_orphans()
                while not self._over:
                    move = self._next_move()
                    if move is not None:
                        await move()
                    else:
                        await self._until_something_happens()
                self._abandoned = True  # whatever still runs of the function is not resumed
                tasks.cancel_scope.cancel()

    async def _listen(self) -> None:
        async for record in self._watch:
            self.log.absorb([record])

    def _hear(self, record: Recorded) -> None:
        self.replay.hear(record)
        if isinstance(record.event, e.RedirectDelivered) and record.event.epoch == self.epoch:
            self.course += 1
        if isinstance(record.event, e.RunCreated):
            self.input = record.event.input
        if isinstance(record.event, e.EffectStopRequested):
            self._stop_effect(record.event.attempt)

    def _stop_effect(self, attempt: int) -> None:
        """*Stop it*: the person does not want to wait for the effect that a pause waits for."""
        for step in self.steps:
            call = step.call
            if step.attempt == attempt and call and call.running and not call.aborting:
                self.tasks.start_soon(call.abort, "stopped by a person")

    @property
    def _quiet(self) -> bool:
        """Nothing is inside a tool or writing down how it ended."""
        state = self.log.state
        return not state.open and not state.undos and all(step.resting for step in self.steps)

    def _next_move(self) -> Move | None:
        state = self.log.state
        if self.lost:
            return self._leave
        if state.phase in ENDS:
            return self._undo_on_request if state.undo_wanted else self._release
        if state.phase is Phase.CANCELLING:
            return self._cancel
        if self._draining and (drain := self._drained()) is not None:
            return drain
        if "redirect" in state.pending.values() and state.phase is not Phase.WAITING:
            return self._deliver if self._hushed("redirected") else None
        if state.phase is Phase.PAUSING:
            return self._pause if self._hushed("paused") else None
        if state.phase is Phase.QUEUED or (state.phase is Phase.RUNNING and not self._calling):
            return self._enter if self._ended is None else self._finish
        if state.phase is Phase.RUNNING and self._ended is not None and self._quiet:
            return self._finish
        if state.phase is Phase.RUNNING and self._only_asks:
            return self._wait
        return None

    def drain(self) -> None:
        """Come to rest and leave, because this process is about to end."""
        self._draining = True
        self.log.stir()

    def _drained(self) -> Move | None:
        if self.log.state.phase in {Phase.RUNNING, Phase.QUEUED}:
            return self._hold_for_drain
        return self._evict if self._rests else None

    async def _hold_for_drain(self) -> None:
        movable = {Phase.RUNNING, Phase.QUEUED}
        held = e.HoldPlaced(cause=Cause.DRAIN, why="the process that drives it is ending")
        await self.log.decide(lambda s: [held] if s.phase in movable and not self.lost else [])

    @property
    def _only_asks(self) -> bool:
        working = [step for step in self.steps if not step.asking]
        return self.asking > 0 and bool(self.log.state.questions) and not working and self._quiet

    def _hushed(self, why: str) -> bool:
        """Abort reads and model calls, unless in boundary mode; true when all is quiet."""
        if self.agent.mode == "immediate":
            self._abort(why, effects=False)
        return self._quiet

    def _abort(self, why: str, *, effects: bool) -> None:
        for step in self.steps:
            harmless = step.tool.effect in {Effect.READ, Effect.MODEL}
            inside = step.call is not None and step.call.running
            if inside and (harmless or effects) and not step.tool.irreversible:
                assert step.call is not None
                if not step.call.aborting:
                    self.tasks.start_soon(step.call.abort, why)

    async def _until_something_happens(self) -> None:
        """Wait for any change, or for the next moment at which time alone makes one."""
        with anyio.move_on_after(self._patience()) as waited:
            await self.log.next_change()
        if waited.cancelled_caught:
            await self._time_has_passed()

    def _patience(self) -> float | None:
        state = self.log.state
        due = state.due_at
        moments = [] if due is None else [max(0.0, due - self.clock())]
        if self._rests and self.agent.evict_after is not None:
            moments.append(self.agent.evict_after)
        if self.replay.unclaimed and state.phase is Phase.RUNNING and self._quiet:
            moments.append(REPLAY_S)
        return min(moments, default=None)

    @property
    def _rests(self) -> bool:
        return self.log.state.phase in {Phase.PAUSED, Phase.WAITING} and self._quiet

    async def _time_has_passed(self) -> None:
        state, now = self.log.state, self.clock()
        expired = [q for q in state.questions.values() if q.expires_at and q.expires_at <= now]
        if expired:
            closing = [e.QuestionClosed(question=q.position, why="expired") for q in expired]
            await self.log.decide(
                lambda s: [c for c in closing if c.question in s.questions and not self.lost]
            )
        elif self.replay.unclaimed and state.phase is Phase.RUNNING:
            await self._mismatch()
        elif self._rests and self.agent.evict_after is not None:
            await self._evict()

    # ── moves ────────────────────────────────────────────────────────────────────────────────

    async def _enter(self) -> None:
        """Call the function, with everything on record at hand."""
        state = self.log.state
        if state.phase is Phase.QUEUED or not state.entered:
            await self.log.decide(
                lambda s: [e.RunEntered(epoch=self.epoch)] if s.phase is Phase.QUEUED else []
            )
        elif Cause.DRAIN in state.holds:
            await self.log.decide(lambda s: [e.HoldLifted(cause=Cause.DRAIN)])
        if self.log.state.phase is not Phase.RUNNING or self.lost:
            return
        self.replay.enter()
        self._start_function()

    def _start_function(self) -> None:
        self._ended, self._calling = None, True
        self.tasks.start_soon(self._call_function, self._context_type(self))

    async def _call_function(self, context: Any) -> None:
        self._function = asyncio.current_task()
        try:
            calling = self.agent.function(context)
            value = await detachable(calling, lambda: self._abandoned)
            self._ended = values.encode(self.agent.name, "its result", value)
        except asyncio.CancelledError:
            if self.told is None or self._over:
                raise  # the driver itself is being ended
            self._ended = self.told
        except BaseException as error:  # noqa: BLE001 - the edge of the agent's own code
            self._ended = _unwrapped(error)
        finally:
            self._calling = False
            self.log.stir()

    async def _deliver(self) -> None:
        """Tell the function of the new course; it goes on by itself or is called again."""

        def delivered(state: RunState) -> list[Event]:
            if "redirect" not in state.pending.values() or state.redirect is None:
                return []
            text, profile = state.redirect
            if state.phase in {Phase.CANCELLING, *ENDS} or self.lost or not self._quiet:
                return []
            return [
                e.RedirectDelivered(
                    epoch=self.epoch,
                    upto=state.head,
                    brief=text,
                    profile=profile,
                    diff=one_line(state.brief, text),
                    calls=tuple(sorted(step.identity for step in self.steps)),
                )
            ]

        await self.log.decide(delivered)

    async def _pause(self) -> None:
        def paused(state: RunState) -> list[Event]:
            if state.phase is not Phase.PAUSING or self.lost or not self._quiet:
                return []
            return [e.Paused(epoch=self.epoch, upto=state.head)]

        await self.log.decide(paused)

    async def _wait(self) -> None:
        await self.log.decide(
            lambda s: (
                [e.WaitBegan(epoch=self.epoch)]
                if s.phase is Phase.RUNNING and self._only_asks and not s.pending
                else []
            )
        )

    async def _finish(self) -> None:
        """The function has ended: by itself, with a failure, or to be called again."""
        ended = self._ended
        if isinstance(ended, Redirected):
            self.replay.enter_redirected()
            self._start_function()
            return
        if isinstance(ended, Signal):
            self._ended, self.told = None, None
            return
        await compensate(self, only_releases=True)
        failed = isinstance(ended, BaseException)
        words = f"{type(ended).__name__}: {ended!s}" if isinstance(ended, BaseException) else ""
        result = ended if isinstance(ended, Raw) else NULL

        def finished(state: RunState) -> list[Event]:
            if state.phase is not Phase.RUNNING or state.pending or self.lost:
                return []
            outcome = "failed" if failed else "done"
            return [
                e.RunFinished(epoch=self.epoch, outcome=outcome, result=result, error=words),
                e.DriverReleased(epoch=self.epoch, why=outcome),
            ]

        if await self.log.decide(finished):
            self._over = True

    async def _cancel(self) -> None:
        """Abort, settle, undo, save; and only then say that it is cancelled."""
        self._tell(Stopped("the run was cancelled"))
        while self.steps or not self._quiet:
            if self.lost:
                return
            if self.agent.mode == "immediate" or self.log.state.cancel_now:
                self._abort("cancelled", effects=True)
            steps, now = len(self.steps), self.log.state.cancel_now
            await self.log.until(self._fewer_steps(steps, now))
        await self._unwind()
        await compensate(self, only_releases=self.log.state.cancel_now)
        await self._save()

        def cancelled(state: RunState) -> list[Event]:
            if state.phase is not Phase.CANCELLING or self.lost:
                return []
            return [
                e.RunFinished(epoch=self.epoch, outcome="cancelled"),
                e.DriverReleased(epoch=self.epoch, why="cancelled"),
            ]

        if await self.log.decide(cancelled):
            self._over = True

    def _fewer_steps(self, steps: int, now: bool) -> Callable[[], bool]:
        def changed() -> bool:
            escalated = self.log.state.cancel_now != now
            return len(self.steps) != steps or escalated or self.lost

        return changed

    async def _save(self) -> None:
        """Put what was done so far into the thread, in one append with the run's own note."""
        state, run = self.log.state, self.run
        if state.saved:
            return
        done = [record.name for record in self.replay.records.values() if not record.error]
        what = (f"results of {len(done)} steps: {', '.join(done)}",) if done else ()
        if not what:
            return

        def saved(view: View) -> Draft:
            mine = view.states[run]
            assert isinstance(mine, RunState)
            if mine.epoch != self.epoch or mine.phase is not Phase.CANCELLING:
                return Draft()
            said = Said(run=run, text=f"Cancelled. Kept: {what[0]}.", kind="partial")
            note = e.WorkSaved(epoch=self.epoch, what=what)
            thread = {state.thread: (said,)} if view.states[state.thread].head else {}
            return Draft({run: (note,), **thread})

        both = (run, state.thread)
        await self.store.submit(Submit(self._ids(), both, saved, new=(state.thread,)))
        self.look_again()

    async def _undo_on_request(self) -> None:
        await compensate(self)

    async def _leave(self) -> None:
        """Another driver has the run, or it was killed: start nothing, report what still ends."""
        self._tell(Stopped("the run is not driven here any more"))
        killed = self.log.state.phase is Phase.KILLED
        self._abort("killed" if killed else "another driver took over", effects=killed)
        await self.log.until(lambda: not self.steps)
        await self._unwind()
        self._over = True

    async def _evict(self) -> None:
        """Let the function go; it is called again, with its records, when the run moves."""
        self._tell(Evicted("the run rests"))
        await self.log.until(lambda: not self.steps or self.lost)
        await self._unwind()

        def released(state: RunState) -> list[Event]:
            rests = state.phase in {Phase.PAUSED, Phase.WAITING}
            if self.lost or not rests or (state.wants_driver and not self._draining):
                return []
            return [e.DriverReleased(epoch=self.epoch, why="rests")]

        if await self.log.decide(released):
            self._over = True
        else:
            self.told, self._ended = None, None  # it moves again: call it anew

    async def _release(self) -> None:
        await self.log.decide(
            lambda s: [e.DriverReleased(epoch=self.epoch)] if s.driver and not self.lost else []
        )
        self._over = True

    def _tell(self, signal: Signal) -> None:
        """From here on every call of the function raises this, whatever it catches."""
        if self.told is None or not isinstance(self.told, Stopped):
            self.told = signal
        self.log.stir()

    async def _unwind(self) -> None:
        """Wait for the function to end; one that does not is abandoned."""
        with anyio.move_on_after(UNWIND_S):
            await self.log.until(lambda: not self._calling)
        if self._calling and self._function is not None:
            self._function.cancel()
            with anyio.move_on_after(1.0):
                await self.log.until(lambda: not self._calling)
        if self._calling and self._function is not None:
            where = {"action": "function_abandoned", "run": self.run, "agent": self.agent.name}
            log.warning("The agent's function does not end and was abandoned", extra=where)
            self._abandoned = True
            self._function.cancel()
            await self.log.until(lambda: not self._calling)

    async def _settle_orphans(self) -> None:
        """What a dead predecessor had in flight: nobody here knows how it ended."""
        for position, attempt in list(self.log.state.open.items()):
            outcome = Outcome.UNKNOWN if attempt.effect.touches_world else Outcome.ABORTED
            await self.log.settle(
                e.AttemptSettled(
                    epoch=self.epoch, attempt=position, outcome=outcome, error="worker lost"
                )
            )
        for undo in list(self.log.state.undos):
            await self.log.settle(
                e.UndoSettled(
                    epoch=self.epoch, undo=undo, undone=False, why="worker lost", final=False
                )
            )

    async def _mismatch(self) -> None:
        """The function asks for other things than before: it must not go on by itself."""
        missing = sorted(self.replay.unclaimed)
        names = ", ".join(self.replay.records[step].name for step in missing[:3])
        found = ", ".join(sorted(step.name for step in self.steps)) or "its end"
        text = f"The agent's code has changed: expected {names}, found {found}. Go on as new?"
        step = f"stale:{len(missing)}:{missing[0]}"
        await self.log.decide(
            lambda s: (
                [e.HoldPlaced(cause=Cause.STALE, why=text)]
                if s.phase is Phase.RUNNING and not self.lost
                else []
            )
        )
        choices = {"go on": "Go on, as if it were new", "cancel": "Cancel the run"}
        self.tasks.start_soon(self._unstale, step, text, choices)

    async def _unstale(self, step: str, text: str, choices: dict[str, str]) -> None:
        try:
            answer = await self.ask(step, "stale", text, choices=choices)
        except Signal:
            return
        if answer.by and values.decode(answer.payload) == "go on":
            self.replay.unclaimed.clear()
            await self.log.decide(
                lambda s: [e.HoldLifted(cause=Cause.STALE)] if Cause.STALE in s.holds else []
            )


async def _history(store: Store, run: str, upto: int) -> list[Recorded]:
    found: list[Recorded] = []
    while len(found) < upto:
        page = await store.read(run, after=len(found))
        if not page:
            raise StoreError(f"{run} ends at {len(found)} and not at {upto}.")
        found += page
    return found[:upto]


def _unwrapped(error: BaseException) -> BaseException:
    """A signal that came out of a task group is still that signal."""
    while isinstance(error, BaseExceptionGroup):
        signals = [inner for inner in error.exceptions if isinstance(inner, Signal)]
        error = signals[0] if signals else error.exceptions[0]
    return error
