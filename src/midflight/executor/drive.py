"""The driver of one run: enters its function, hears what people want, and brings it to its end.

One task, the pilot, looks at the folded state and makes the next move; the others only work
(steps), listen (the watch) or run the agent's function. Everything they learn goes through the
logbook, so the pilot decides on one state and nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Raw

from midflight.errors import StoreError
from midflight.executor import moves, stale, values
from midflight.executor.cancel import cancel
from midflight.executor.function import AgentCall
from midflight.executor.logbook import Logbook
from midflight.executor.replay import Answered, Record, Replay
from midflight.executor.steps import Step
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.kernel import events as e
from midflight.kernel.phases import ENDS, Effect, Phase
from midflight.kernel.record import NULL, Event, Recorded
from midflight.kernel.state import RunState
from midflight.run import Agent, Redirected, Signal, Stopped
from midflight.stores.base import Lease, Store, Watch

REPLAY_S: Final = 0.25  # a function that asks for nothing on record for so long has changed


Move = Callable[["Driver"], Awaitable[None]]


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
        self.asked: set[str] = set()  # under which names
        self.input: Raw = NULL
        self.tasks: TaskGroup
        self.ids = ids
        self.function = AgentCall(self)
        self.over = False  # nothing is left to do here
        self.draining = False
        self._watch: Watch
        self._context_type = RunContext
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

    def wait_over(self, state: RunState) -> list[Event]:
        """What must stand before anything that happens in a run that waits."""
        waits = state.phase is Phase.WAITING and not self.lost
        return [e.WaitEnded(epoch=self.epoch)] if waits else []

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
            asked = self.question(step, kind, message, wanted)
            more = {"about": about, "expires_at": expires_at, "answerers": answerers}
            return [msgspec.structs.replace(asked, **more)]

        await self.log.decide(opened)
        question = self.replay.questions[step]
        self.asking += 1
        self.asked.add(step)
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
            self.asked.discard(step)
            self.log.stir()
        self.raise_if_told(course)
        return self.replay.answers[question]

    def question(
        self, step: str, kind: str, message: str, schema: dict[str, Any] | None
    ) -> e.QuestionOpened:
        """A question under a step's name, to be opened."""
        wanted = values.encode(step, "its schema", schema)
        return e.QuestionOpened(
            epoch=self.epoch, kind=kind, message=message, schema=wanted, step=step
        )

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
                await moves.settle_orphans(self)
                while not self.over:
                    move = self._next_move()
                    if move is not None:
                        await move(self)
                    else:
                        await self._until_something_happens()
                self.function.abandon()
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
    def quiet(self) -> bool:
        """Nothing is inside a tool or writing down how it ended."""
        state = self.log.state
        return not state.open and not state.undos and all(step.resting for step in self.steps)

    def _next_move(self) -> Move | None:
        state, function = self.log.state, self.function
        if self.lost:
            return moves.leave
        if state.phase in ENDS:
            return moves.undo_on_request if state.undo_wanted else moves.release
        if state.phase is Phase.CANCELLING:
            return cancel
        if self.draining and (drain := self._drained()) is not None:
            return drain
        if "redirect" in state.pending.values() and state.phase is not Phase.WAITING:
            return moves.deliver if self._hushed("redirected") else None
        if state.phase is Phase.PAUSING:
            return moves.pause if self._hushed("paused") else None
        if state.phase is Phase.QUEUED or (state.phase is Phase.RUNNING and not function.running):
            return moves.enter if function.ended is None else self._finish()
        if state.phase is Phase.PAUSED and stale.unheard(self):
            return stale.reconsider
        if state.phase is Phase.RUNNING and self.only_asks:
            return moves.wait
        return moves.wake if self.wakes else None

    def _finish(self) -> Move:
        """A function that ends before it has asked for all that is on record has changed."""
        own_end = not isinstance(self.function.ended, Signal)
        return stale.mismatch if own_end and self.replay.unclaimed else moves.finish

    def drain(self) -> None:
        """Come to rest and leave, because this process is about to end."""
        self.draining = True
        self.log.stir()

    def _drained(self) -> Move | None:
        if self.log.state.phase in {Phase.RUNNING, Phase.QUEUED}:
            return moves.hold_for_drain
        return moves.evict if self.rests else None

    @property
    def wakes(self) -> bool:
        """It waits without its function and has something to do: an answer, a timer, its end."""
        state, now = self.log.state, self.clock()
        if state.phase is not Phase.WAITING or self.function.running:
            return False
        due = any(until <= now for until in state.timers.values())
        return due or state.stirred or self.function.ended is not None

    @property
    def only_asks(self) -> bool:
        """Everything that goes on here waits for a person."""
        working = [step for step in self.steps if not (step.asking or step.idle)]
        return self.asking > 0 and bool(self.log.state.questions) and not working and self.quiet

    def _hushed(self, why: str) -> bool:
        """Abort reads and model calls, unless in boundary mode; true when all is quiet."""
        if self.agent.mode == "immediate":
            self.abort(why, effects=False)
        return self.quiet

    def abort(self, why: str, *, effects: bool) -> None:
        """End what is inside a tool: reads and model calls, and effects too if it must be."""
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
        now = self.clock()
        moments = [max(0.0, until - now) for until in self._deadlines()]
        if self.rests and self.agent.evict_after is not None:
            moments.append(self.agent.evict_after)
        if self._may_be_stale and self.quiet:
            moments.append(REPLAY_S)
        return min(moments, default=None)

    def _deadlines(self) -> list[float]:
        """When this task has to do something. Windows and back-offs are their steps' own."""
        state = self.log.state
        if state.phase not in {Phase.RUNNING, Phase.WAITING}:
            return []
        found = [q.expires_at for q in state.questions.values() if q.expires_at is not None]
        return found if self.function.running else [*found, *state.timers.values()]

    @property
    def _may_be_stale(self) -> bool:
        """The function waits for something new, and has not asked for all that is on record."""
        waits = bool(self.steps) or self.asking > 0
        return waits and bool(self.replay.unclaimed) and self.log.state.phase is Phase.RUNNING

    @property
    def rests(self) -> bool:
        """Nothing happens until somebody outside does something."""
        return self.log.state.phase in {Phase.PAUSED, Phase.WAITING} and self.quiet

    async def _time_has_passed(self) -> None:
        if self.wakes:
            return
        if any(until <= self.clock() for until in self._deadlines()):
            await moves.close_expired(self)
        elif self._may_be_stale:
            if await self._is_still():
                await stale.mismatch(self)
        elif self.rests and self.agent.evict_after is not None:
            await moves.evict(self)

    async def _is_still(self) -> bool:
        """Look again: a loop that was busy gets round to the function only after its timers."""
        with anyio.move_on_after(REPLAY_S / 5) as waited:
            await self.log.next_change()
        return waited.cancelled_caught

    def call_function(self) -> None:
        """Call the agent's function, on the course as it is now."""
        self.function.start(self._context_type(self))

    def tell(self, signal: Signal) -> None:
        """From here on every call of the function raises this, whatever it catches."""
        if self.told is None or not isinstance(self.told, Stopped):
            self.told = signal
        self.log.stir()


async def _history(store: Store, run: str, upto: int) -> list[Recorded]:
    found: list[Recorded] = []
    while len(found) < upto:
        page = await store.read(run, after=len(found))
        if not page:
            raise StoreError(f"{run} ends at {len(found)} and not at {upto}.")
        found += page
    return found[:upto]
