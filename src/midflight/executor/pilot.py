"""The pilot's judgement: the move that a run needs next, or until when it needs none.

These are functions of a session and nothing else; they choose moves of ``moves``, ``stale`` and
``cancel``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from midflight.errors import SourceGone
from midflight.executor import moves, stale
from midflight.executor.cancel import cancel
from midflight.executor.difference import hold_for_code
from midflight.executor.session import Session
from midflight.executor.undo import next_undo
from midflight.kernel.phases import ENDS, Phase
from midflight.run import Signal

REPLAY_S: Final = 1.0  # a function that waits for so long without asking for more has changed

Move = Callable[[Session], Awaitable[None]]


def next_move(session: Session) -> Move | None:
    """Return the move that is to be made now in this state, or None."""
    state, function = session.journal.state, session.function
    if session.journal.lost:
        return moves.leave
    if state.phase in ENDS:
        return moves.undo_on_request if next_undo(state) else moves.release
    if state.phase is Phase.CANCELLING:
        return cancel
    if session.gate.draining and (drain := _drained(session)) is not None:
        return drain
    if stale.is_answered(session):
        return stale.resolve
    if "redirect" in state.pending.values() and state.phase is not Phase.WAITING:
        return moves.deliver if session.in_flight.hushed("redirected") else None
    if state.phase is Phase.PAUSING:
        return moves.pause if session.in_flight.hushed("paused") else None
    if state.phase is Phase.QUEUED or (state.phase is Phase.RUNNING and not function.running):
        return _after_function(session)
    return _while_running(session) if state.phase is Phase.RUNNING else _while_resting(session)


def _drained(session: Session) -> Move | None:
    if session.journal.state.phase in {Phase.RUNNING, Phase.QUEUED}:
        return moves.hold_for_drain
    return moves.evict if session.rests else None


def _after_function(session: Session) -> Move | None:
    """It is not being called: it has still to be, or has ended."""
    ended = session.function.ended
    if ended is None:
        return moves.enter
    if session.history.redirect_due(()):
        return moves.tell_redirect
    by_itself = not isinstance(ended, Signal | SourceGone)
    return moves.hold_for_end if by_itself and session.history.unfinished else moves.finish


def _while_running(session: Session) -> Move | None:
    if session.history.tells and session.history.redirect_due(session.in_flight.calls):
        return moves.tell_redirect
    if _must_look(session):
        return _check_guards
    return moves.wait if session.in_flight.only_asks else None


def _while_resting(session: Session) -> Move | None:
    if session.journal.state.phase is Phase.WAITING and _must_look(session):
        return _check_guards
    return moves.wake if session.wakes else None


def _must_look(session: Session) -> bool:
    """Return whether something would begin now, if only the world were known to be as it was."""
    return session.gate.waiting > 0 and session.guards.due and not session.history.unfinished


async def _check_guards(session: Session) -> None:
    session.guards.start_check()


# ── waiting ──────────────────────────────────────────────────────────────────────────────────


async def until_something_happens(session: Session) -> None:
    """Wait for any change, or for the next moment at which time alone makes one."""
    if _patience(session) is None:
        await session.journal.until(lambda: _calls_for_a_move(session))
        return
    with anyio.move_on_after(_patience(session)) as waited:
        await session.journal.next_change()
    if waited.cancelled_caught:
        await _time_has_passed(session)


def _calls_for_a_move(session: Session) -> bool:
    """Asked at every change, where it happens: most are a step's own affair."""
    if _just_works(session):
        return False
    return next_move(session) is not None or _patience(session) is not None


def _just_works(session: Session) -> bool:
    """Return whether no move is due: nothing is wanted or asked, and the function goes on."""
    state, replay = session.journal.state, session.history
    plain = state.phase is Phase.RUNNING and session.function.running and not session.journal.lost
    heard = not (state.pending or state.holds or state.questions or state.timers)
    there = (
        not (replay.unfinished or replay.entry.left or session.gate.draining) and session.gate.fresh
    )
    return plain and heard and there


async def _time_has_passed(session: Session) -> None:
    if session.wakes:
        return
    if any(left <= 0 for left in _deadlines(session)):
        await moves.close_expired(session)
    elif _astray(session):
        if session.history.give_in_any_order():
            session.journal.stir()
        elif await _is_still(session):
            await hold_for_code(session, session.guards, _left_again(session))
    elif session.rests and session.agent.evict_after is not None:
        await moves.evict(session)


async def _is_still(session: Session) -> bool:
    """Look again: a loop that was busy gets round to the function only after its timers."""
    with anyio.move_on_after(REPLAY_S / 5) as waited:
        await session.journal.next_change()
    return waited.cancelled_caught


def _patience(session: Session) -> float | None:
    moments = [max(0.0, left) for left in _deadlines(session)]
    if session.rests and session.agent.evict_after is not None:
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
    waits = session.history.unfinished and bool(
        session.in_flight.steps or session.in_flight.waiting
    )
    still = session.journal.state.phase is Phase.RUNNING and session.in_flight.quiet
    return still and (waits or bool(_left_again(session)))


def _left_again(session: Session) -> list[str]:
    """Calls that it gave up at that time, and not yet now."""
    return [call for call in session.in_flight.waiting if call in session.history.entry.left]
