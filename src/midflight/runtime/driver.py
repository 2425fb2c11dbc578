"""The driver of one run: enters its function, takes requests of people, and brings it to its end.

One task, the pilot, looks at the folded state and makes the next move; the others only work
(steps), read what was missed, or run the agent's function. Everything they learn goes through the
journal, so the pilot decides on one state and nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio

from midflight.errors import SourceGone
from midflight.journal import events as e
from midflight.journal.phases import ENDS, Cause, Phase
from midflight.journal.record import Recorded
from midflight.run import Signal, Stopped
from midflight.runtime import children, transitions
from midflight.runtime.cancellation import CANCELLED, cancel
from midflight.runtime.replay import staleness
from midflight.runtime.replay.code_change import hold_for_code
from midflight.runtime.replay.stored_history import Folds
from midflight.runtime.run_session import Session
from midflight.runtime.steps.tool_call import Call
from midflight.runtime.steps.undo import next_undo
from midflight.stores.protocol import PAGE, Watch

ENDING: Final = "its process is ending"
REPLAY_S: Final = 1.0  # a function that waits for so long without asking for more has changed

Move = Callable[[Session], Awaitable[None]]


class Driver:
    """Drives the run of a session; the session's journal is still to be read."""

    __slots__ = ("_catching_up", "_folds", "_rested", "_session", "_watch")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rested = False
        self._catching_up = False
        self._folds = Folds(session.journal.client.keep_fold)
        self._watch: Watch

    # ── what an engine asks ──────────────────────────────────────────────────────────────────

    @property
    def has_left(self) -> bool:
        """True if the run was released: new requests to it are for the next driver."""
        return self._session.over or not self._session.journal.state.driver

    @property
    def lost(self) -> bool:
        """True if the run was killed or has another driver: nothing may be decided here."""
        return self._session.journal.lost

    def look_again(self) -> None:
        """Look again at what is in no journal: a lease may be sure again."""
        self._session.journal.ask_again()

    def step_making(self, call: Call) -> str:
        """Return the name of the step that makes this call. It is asked in another thread."""
        steps = tuple(self._session.in_flight.steps)
        return next((step.name for step in steps if step.call is call), "")

    def give_notice(self, kind: str, text: str) -> None:
        """Tell person and function, once for each kind."""
        self._session.tasks.begin(self._session.journal.give_notice, kind, text)

    def drain(self) -> None:
        """Come to rest and leave, because this process is about to end."""
        self._session.gate.drain()
        self._session.journal.kept.write_soon()
        self._session.attention.abort(ENDING)
        self._session.journal.stir()

    def cut_short(self) -> None:
        """End what is inside a tool, effects too: this process ends now, and they with it."""
        self._session.in_flight.cut_short(ENDING)

    def leave_behind(self) -> None:
        """Do not let what would not end keep this process, and put on record that it may act."""
        self._session.in_flight.leave_behind(ENDING)
        self._session.function.abandon()

    # ── the pilot ────────────────────────────────────────────────────────────────────────────

    async def drive(self) -> None:
        """Drive until the run ends, rests for long, or is not ours any more."""
        journal = self._session.journal
        try:
            await self._read()
            await journal.clock.set(journal.state.at, journal.client.clock_of(journal.run))
            if journal.state.driver == self._session.lease.driver:
                async with journal.client.watch({journal.run: journal.state.head}) as watch:
                    self._watch = watch
                    journal.drive_on(watch, partial(self._session.tasks.begin, journal.flush))
                    store = partial(self._folds.store, journal.state, journal.history)
                    begin = partial(self._session.tasks.begin, store)
                    self._folds.look_after(journal.state, journal.history, begin)
                    self._rested = journal.state.phase is Phase.PAUSED
                    with journal.listening(self._hear):
                        await self._pilot()
        finally:
            self._session.let_go()

    async def _pilot(self) -> None:
        session = self._session
        async with anyio.create_task_group() as tasks:
            session.tasks.open(tasks)
            journal = session.journal
            self._watch.tap(journal.absorb, self._fell_behind)
            await children.look_after(session)
            if session.agent.converses:
                session.tasks.start(session.attention.pay_attention)
            try:
                while not session.over:
                    move = next_move(session)
                    if move is not None:
                        await move(session)
                    else:
                        await until_something_happens(session)
                session.function.abandon()
                if journal.kept.facts:
                    await journal.flush()
            finally:
                session.tasks.close()
            tasks.cancel_scope.cancel()

    # ── hearing ──────────────────────────────────────────────────────────────────────────────

    async def _read(self) -> None:
        """Fold the journal and note its records: once, and a page at a time for the loop's sake.

        What a stored fold holds of it need not be read again.
        """
        journal = self._session.journal
        while True:
            page = await journal.client.read(journal.run, after=journal.state.head)
            if len(page) == PAGE and journal.state.head == 0:
                found = await journal.client.fold()
                if self._folds.take_up(journal.state, journal.history, found):
                    continue
            if page and isinstance(created := page[0].event, e.RunCreated):
                await self._session.lineage.take_over(created)
            journal.absorb(page)
            if len(page) < PAGE:
                return

    def _fell_behind(self) -> None:
        if not self._catching_up:
            self._catching_up = True
            self._session.tasks.begin(self._catch_up)

    async def _catch_up(self) -> None:
        try:
            await self._watch.catch_up()
        finally:
            self._catching_up = False

    def _hear(self, record: Recorded) -> None:
        """React at once to the few events that cannot wait for the pilot's turn."""
        session = self._session
        if session.journal.kept.facts:
            session.journal.kept.write_soon()  # layer press-finds-what-done-on-record
        rested, self._rested = self._rested, session.journal.state.phase is Phase.PAUSED
        if rested and not self._rested:
            session.gate.look_again()
        match record.event:
            case e.LateOutcome():
                session.in_flight.hear_late()  # layer nobody-asked-whether-what-lost
            case e.EffectStopRequested(attempt=attempt):
                session.in_flight.stop_effect(attempt)
            case e.CancelRequested(now=now) if session.journal.state.phase is Phase.CANCELLING:
                session.in_flight.cancel(now=now)
                session.signals.tell(Stopped(CANCELLED))
            case _:
                pass


def next_move(session: Session) -> Move | None:
    """Return the move that is to be made now in this state, or None."""
    state, function = session.journal.state, session.function
    if session.journal.lost:
        return transitions.leave
    if state.phase in ENDS:
        return transitions.undo_on_request if next_undo(state) else transitions.release
    if state.phase is Phase.CANCELLING:
        return cancel
    if session.gate.draining and (drain := _drained(session)) is not None:
        return drain
    if Cause.STALE in state.holds and staleness.is_answered(session):
        return staleness.resolve
    if "redirect" in state.pending.values() and state.phase is not Phase.WAITING:
        return transitions.deliver if session.in_flight.hushed("redirected") else None
    if state.phase is Phase.PAUSING:
        return transitions.pause if session.in_flight.hushed("paused") else None
    if state.phase is Phase.QUEUED or (state.phase is Phase.RUNNING and not function.running):
        return _after_function(session)
    return _while_running(session) if state.phase is Phase.RUNNING else _while_resting(session)


def _drained(session: Session) -> Move | None:
    if session.journal.state.phase in {Phase.RUNNING, Phase.QUEUED}:
        return transitions.hold_for_drain
    return transitions.evict if _rests(session) else None


def _after_function(session: Session) -> Move | None:
    """It is not being called: it has still to be, or has ended."""
    ended = session.function.ended
    if ended is None:
        return transitions.enter
    if session.history.redirect_due(()):
        return transitions.tell_redirect
    by_itself = not isinstance(ended, Signal | SourceGone)
    return (
        transitions.hold_for_end if by_itself and session.history.unfinished else transitions.finish
    )


def _while_running(session: Session) -> Move | None:
    if session.history.tells and session.history.redirect_due(session.in_flight.calls):
        return transitions.tell_redirect
    if _must_look(session):
        return _check_guards
    return transitions.wait if session.in_flight.only_asks else None


def _while_resting(session: Session) -> Move | None:
    if session.journal.state.phase is not Phase.WAITING:
        return None
    if _must_look(session):
        return _check_guards
    return transitions.wake if transitions.wakes(session) else None


def _rests(session: Session) -> bool:
    """Return whether nothing happens until somebody outside does something."""
    at_rest = session.journal.state.phase in {Phase.PAUSED, Phase.WAITING}
    return at_rest and session.in_flight.quiet and not session.attention.busy


def _must_look(session: Session) -> bool:
    """Return whether something would begin now, if only the world were known to be as it was."""
    return session.gate.waiting > 0 and session.guards.due and not session.history.unfinished


async def _check_guards(session: Session) -> None:
    session.guards.start_check()


# ── waiting ──────────────────────────────────────────────────────────────────────────────────


async def until_something_happens(session: Session) -> None:
    """Wait for any change, or for the next moment at which time alone makes one."""
    if _patience(session) is None:
        await session.journal.until(partial(_calls_for_a_move, session), resting=True)
        return
    with anyio.move_on_after(_patience(session)) as waited:
        await session.journal.next_change()
    if waited.cancelled_caught:
        await _time_has_passed(session)


def _calls_for_a_move(session: Session) -> bool:
    """Asked at every change, where it happens: most are a step's own affair."""
    if session.function.running and session.gate.undisturbed:
        if session.gate.opens_to_all:
            session.journal.be_calm()
        return False
    return next_move(session) is not None or _patience(session) is not None


async def _time_has_passed(session: Session) -> None:
    if transitions.wakes(session):
        return
    if any(left <= 0 for left in _deadlines(session)):
        await transitions.close_expired(session)
    elif _astray(session):
        if session.history.give_in_any_order():
            session.journal.stir()
        elif await _is_still(session):
            await hold_for_code(session, session.guards, _left_again(session))
    elif _rests(session) and session.agent.evict_after is not None:
        await transitions.evict(session)


async def _is_still(session: Session) -> bool:
    """Look again: a loop that was busy gets round to the function only after its timers."""
    with anyio.move_on_after(REPLAY_S / 5) as waited:
        await session.journal.next_change()
    return waited.cancelled_caught


def _patience(session: Session) -> float | None:
    moments = [max(0.0, left) for left in _deadlines(session)]
    if _rests(session) and session.agent.evict_after is not None:
        moments.append(session.agent.evict_after)
    if _astray(session):
        left = [session.history.entry.left[step].waited for step in _left_again(session)]
        moments.append(REPLAY_S + max(left, default=0.0))
    return min(moments, default=None)


def _deadlines(session: Session) -> list[float]:
    """In how many seconds this task has to do something. Windows and back-offs are their steps'."""
    state = session.journal.state
    if state.phase not in {Phase.RUNNING, Phase.WAITING}:
        return []
    asked = (session.journal.left_of_question(question) for question in state.questions)
    found = [left for left in asked if left is not None]
    timers = () if session.function.running else state.timers
    return [*found, *(session.journal.left_of_timer(timer) for timer in timers)]


def _astray(session: Session) -> bool:
    """The function waits for what was not on its way, and not for what was.

    As long as it is busy with something of its own it may still come to it.
    """
    if session.journal.state.phase is not Phase.RUNNING or not session.in_flight.quiet:
        return False
    waits = session.in_flight.steps or session.in_flight.waiting
    return bool((waits and session.history.unfinished) or _left_again(session))


def _left_again(session: Session) -> list[str]:
    """Calls that it gave up at that time, and not yet now."""
    return [call for call in session.in_flight.waiting if call in session.history.entry.left]
