"""The driver of one run: enters its function, hears what people want, and brings it to its end.

One task, the pilot, looks at the folded state and makes the next move; the others only work
(steps), read what was missed, or run the agent's function. Everything they learn goes through the
logbook, so the pilot decides on one state and nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from msgspec import Raw

from midflight.errors import SourceGone
from midflight.executor import children, values
from midflight.executor.alarms import Alarms
from midflight.executor.asking import Questions
from midflight.executor.attention import Attention
from midflight.executor.calls import Call
from midflight.executor.course import Course
from midflight.executor.forking import take_over
from midflight.executor.function import AgentCall
from midflight.executor.gate import Gate
from midflight.executor.guarding import Guards
from midflight.executor.heard import Moment, Record
from midflight.executor.journal_client import JournalClient
from midflight.executor.line import Done
from midflight.executor.logbook import Logbook
from midflight.executor.pilot import next_move, until_something_happens
from midflight.executor.replay import Replay
from midflight.executor.speech import LastWords
from midflight.executor.working import Working
from midflight.inputs import Clock, Ids, new_id, steady, wall_clock
from midflight.kernel import events as e
from midflight.kernel.decide import Known, decide
from midflight.kernel.fold import BULK
from midflight.kernel.phases import Phase
from midflight.kernel.record import NULL, Earlier, Event, Recorded
from midflight.kernel.state import RunState
from midflight.run import Agent
from midflight.stores.journal_clock import JournalClock
from midflight.stores.protocol import PAGE, Draft, Lease, Submit, View, Watch

Ensure = Callable[[str], Awaitable[None]]
Afterwards = Callable[..., None]
"""Begins work for a run that may outlive its driver: a coroutine function and its arguments."""
ENDING: Final = "its process is ending"


async def _nobody_else(_run: str) -> None:
    """Other runs are found by a sweep."""


def _nothing_afterwards(*_work: Any) -> None:
    """Do nothing: nobody is there to do the work."""


class Driver:
    """Drives a run that was claimed for the holder of ``lease``; ``state`` is still to be read."""

    __slots__ = (
        "_catching_up", "_clock_then", "_context_type", "_heard_at", "_leaving", "_moving",
        "_read_at", "_rested", "_watch", "afterwards", "agent", "alarms", "attention", "begun_for",
        "below",
        "clock", "course", "draining", "ensure", "epoch", "function", "gate", "guards", "helpers",
        "ids", "input", "journals", "last_words", "lease", "line", "log", "looked_up", "over",
        "questions", "repeating", "replay", "restored", "source_gone", "tasks", "thread_read",
        "workdir", "working",
    )  # fmt: skip

    def __init__(
        self,
        journals: JournalClient,
        agent: Agent,
        state: RunState,
        lease: Lease,
        *,
        workdir: Path,
        clock: Clock = wall_clock,
        ids: Ids = new_id,
        ensure: Ensure = _nobody_else,
        afterwards: Afterwards = _nothing_afterwards,
        alarms: Alarms,
    ) -> None:
        from midflight.executor.context import RunContext

        self.journals = journals
        self.agent = agent
        self.lease = lease
        self.workdir = workdir
        self.clock = clock
        self.epoch = state.epoch
        self.log = Logbook(journals, state, ids)
        self.replay = Replay()
        self.course = Course(self)
        self.working = Working(self)
        self.gate = Gate(self)
        self.begun_for: tuple[int, ...] = ()  # messages of the thread
        self.input: Raw = NULL
        self.source_gone = ""  # a run of its line, without which a fork can only be ended
        self.tasks: TaskGroup
        self.ids = ids
        self.ensure = ensure
        self.afterwards = afterwards
        self.guards = Guards(self)
        self.questions = Questions(self)
        self.attention = Attention(self)
        self.alarms = alarms
        self.helpers: set[Call] = set()  # undos and checks under way
        self.restored: Any = None
        self.last_words: LastWords | None = None
        self.thread_read = 0  # how far the thread is known to hold nothing unread
        self.looked_up: set[int] = set()  # effects in doubt whose check was asked
        self.line: list[Done] | None = None  # effects of the runs before a fork, once they are read
        self.below: dict[str, tuple[RunState, list[Done]]] = {}  # background runs that were read
        self.repeating: set[Earlier] = set()  # effects that a step at work may take over
        self.function = AgentCall(self)
        self.over = False  # nothing is left to do here
        self._watch: Watch
        self._clock_then, self._read_at = JournalClock(), (state.at, steady())
        self._heard_at = self._read_at
        self._moving: Moment | None = None  # when the run began to move as it does now
        self._catching_up = self._leaving = self._rested = self.draining = False
        self._context_type = RunContext
        self.log.heard.append(self._hear)

    @property
    def run(self) -> str:
        """The run's id."""
        return self.log.state.journal

    def time_of_the_store(self) -> float:
        """Its clock shows at least that: it stamped what was heard last before that was heard.

        Ours may be wrong, and what others may still do must not depend on that.
        """
        stamped, heard = self._heard_at
        return stamped + steady() - heard

    def age(self, moment: Moment) -> float:
        """Return how many seconds ago something came on record, however clocks were set since.

        An event that this driver heard as it happened is measured by the steady clock. An event
        from before is as old as the store's clock says, less the steps of that clock which were
        seen since.
        """
        stamped, read = self._read_at
        if moment.heard > read:
            return steady() - moment.heard
        moved = self._clock_then.moved(moment.position)
        return steady() - moment.heard + max(0.0, stamped - moment.at - moved)

    def left_of(self, moment: Moment, until: float) -> float:
        """Return the seconds left of a wait that was put on record then, to last ``until``."""
        return until - moment.at - self.age(moment)

    def left_of_timer(self, timer: str) -> float:
        """Return the seconds left until a timer of the run is due; 0 if it is not set."""
        until = self.log.state.timers.get(timer)
        return 0.0 if until is None else self.left_of(self.replay.set_at[timer], until)

    def left_of_question(self, question: int) -> float | None:
        """Return the seconds left until a question expires; None if it never does."""
        expires_at = self.log.state.questions[question].expires_at
        if expires_at is None:
            return None
        return self.left_of(self.replay.asked_at[question], expires_at)

    def now_in_motion(self) -> float:
        """The time for a cap on seconds: it counts those that have passed since the run moves."""
        moment = self._moving
        return self.time_of_the_store() if moment is None else moment.at + self.age(moment)

    @property
    def has_left(self) -> bool:
        """True if the run was released: what is asked of it now is for the next driver."""
        return self.over or not self.log.state.driver

    @property
    def lost(self) -> bool:
        """True if the run was killed or has another driver: nothing may be decided here."""
        return self.log.state.epoch != self.epoch

    def is_stopped(self) -> bool:
        """Return whether the function was told to end, or must be: its calls are not waited for."""
        return self.lost or self.course.told is not None

    # ── what steps ask ───────────────────────────────────────────────────────────────────────

    def wait_over(self, state: RunState) -> list[Event]:
        """Return the events that must stand before anything that happens in a run that waits."""
        waits = state.phase is Phase.WAITING and not self.lost
        return [e.WaitEnded(epoch=self.epoch)] if waits else []

    async def raw(self, record: Record) -> Raw:
        """The stored value of a record, from its row or from its blob."""
        return Raw(await self.journals.blob(record.blob.hash)) if record.blob else record.result

    async def value(self, record: Record) -> Any:
        """The value of a record."""
        return values.decode(bytes(await self.raw(record)))

    def watch_child(self, child: str, after: int) -> None:
        """Hear when a child has ended."""
        self._watch.add(child, after)

    async def restore(self) -> None:
        """Be ready for the function to be called (again)."""
        saved = self.replay.state
        if saved is not None:
            raw = await self.journals.blob(saved.blob.hash) if saved.blob else bytes(saved.state)
            self.restored = values.decode(raw)
        self.replay.enter()
        self.course.enter()
        self.guards.enter()

    # ── the pilot ────────────────────────────────────────────────────────────────────────────

    async def drive(self) -> None:
        """Drive until the run ends, rests for long, or is not ours any more."""
        try:
            await self._read()
            self._heard_at = (self.log.state.at, steady())
            self._clock_then = then = await self.journals.clock_of(self.run)
            self._read_at = (self.log.state.at if then.now is None else then.now, steady())
            if self.log.state.driver == self.lease.driver:
                self.epoch = self.log.state.epoch
                async with self.journals.watch({self.run: self.log.state.head}) as watch:
                    self._watch = watch
                    await self._pilot()
        finally:
            self._let_go()

    async def _pilot(self) -> None:
        async with anyio.create_task_group() as tasks:
            self.tasks = tasks
            self._watch.tap(self._take_in, self._fell_behind)
            await children.look_after(self)
            if self.agent.converses:
                tasks.start_soon(self.attention.pay_attention)
            try:
                while not self.over:
                    move = next_move(self)
                    if move is not None:
                        await move(self)
                    else:
                        await until_something_happens(self)
                self.function.abandon()
            finally:
                self._leaving = True
            tasks.cancel_scope.cancel()

    def _let_go(self) -> None:
        """Cut the references between the parts of the driver.

        Left to the garbage collector, ten thousand runs would be in memory long after they were let
        go.
        """
        self.course.let_go()
        self.working.let_go()
        self.gate.let_go()
        self.function.forget()
        self.log.heard.clear()
        del self.function, self.guards, self.questions, self.attention

    async def _read(self) -> None:
        """Fold the journal and note its records: once, and a page at a time for the loop's sake."""
        while True:
            page = await self.journals.read(self.run, after=self.log.state.head)
            if page and isinstance(created := page[0].event, e.RunCreated):
                self.source_gone = await take_over(self.journals, created, self.replay.hear)
            self.log.absorb(page)
            if len(page) < PAGE:
                return

    def _fell_behind(self) -> None:
        if not self._catching_up:
            self._catching_up = True
            self.begin(self._catch_up)

    async def _catch_up(self) -> None:
        try:
            await self._watch.catch_up()
        finally:
            self._catching_up = False

    def _take_in(self, record: Recorded) -> None:
        if record.journal == self.run:
            self.log.absorb([record])
        elif isinstance(record.event, e.RunFinished | e.Killed):
            self.begin(children.settle, self, record.journal)

    def _hear(self, record: Recorded) -> None:
        self.replay.hear(record)
        self._heard_at = (record.at, steady())
        moving_since = self.log.state.moving_since
        if moving_since is None:
            self._moving = None
        elif self._moving is None or self._moving.at != moving_since:
            self._moving = Moment(moving_since, steady(), record.position)
        if type(record.event) in BULK:
            return  # most of a journal, and none of it is for us
        rested, self._rested = self._rested, self.log.state.phase is Phase.PAUSED
        if rested and not self._rested:
            self.guards.look_again()
        if isinstance(record.event, e.RunCreated):
            self.input, self.begun_for = record.event.input, record.event.messages
        if isinstance(record.event, e.LateOutcome):
            self.working.hear_late()
        if isinstance(record.event, e.EffectStopRequested):
            self.working.stop_effect(record.event.attempt)
        if isinstance(record.event, e.CancelRequested):
            self.working.cancel(now=record.event.now)

    def drain(self) -> None:
        """Come to rest and leave, because this process is about to end."""
        self.draining = True
        self.attention.abort(ENDING)
        self.log.stir()

    def cut_short(self) -> None:
        """End what is inside a tool, effects too: this process ends now, and they with it."""
        self.working.cut_short(ENDING)

    def leave_behind(self) -> None:
        """Do not let what would not end keep this process, and put on record that it may act."""
        for call in (*self.working.being_called, *self.helpers):
            call.end_with_process(ENDING)
        self.function.abandon()

    @property
    def wakes(self) -> bool:
        """It waits without its function and has something to do: an answer, a timer, its end."""
        state = self.log.state
        if state.phase is not Phase.WAITING or self.function.running:
            return False
        due = any(self.left_of_timer(timer) <= 0 for timer in state.timers)
        return due or state.stirred or self.function.ended is not None

    @property
    def rests(self) -> bool:
        """True if nothing happens until somebody outside does something."""
        at_rest = self.log.state.phase in {Phase.PAUSED, Phase.WAITING}
        return at_rest and self.working.quiet and not self.attention.busy

    def call_function(self) -> None:
        """Call the agent's function, on the course as it is now.

        Not without what it takes over from another run: it would do all of that once more.
        """
        if self.source_gone:
            self.function.ended = SourceGone(self.source_gone)
        else:
            self.function.start(self._context_type(self))

    async def cancel(self, request: e.CancelRequested) -> None:
        """Somebody wants this run to end, and has said so to the run itself."""
        run = self.run

        def decided(view: View) -> Draft:
            verdict = decide(view.states[run], request)
            return Draft() if isinstance(verdict, Known) else Draft({run: verdict})

        await self.log.submit(Submit(self.ids(), (run,), decided), unless=self.is_stopped)

    def begin(self, work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Begin a task of this driver, also where none runs: in a callback of the loop.

        Once it leaves nothing begins: a group at its end does not wait for newcomers.
        """
        if self._leaving:
            return

        def start() -> None:
            self.tasks.start_soon(work, *args)

        self.alarms.home.run(start)
