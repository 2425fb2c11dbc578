"""The pilot's judgement: the move that a run needs next, or until when it needs none.

These are functions of a driver and nothing else; they choose moves of ``moves``, ``stale`` and
``cancel``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from midflight.errors import SourceGone
from midflight.executor import moves, stale
from midflight.executor.cancel import cancel
from midflight.executor.undo import next_undo
from midflight.kernel.phases import ENDS, Phase
from midflight.run import Signal

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

REPLAY_S: Final = 1.0  # a function that waits for so long without asking for more has changed

Move = Callable[["Driver"], Awaitable[None]]


def next_move(driver: Driver) -> Move | None:
    """Return the move that is to be made now in this state, or None."""
    state, function = driver.log.state, driver.function
    if driver.lost:
        return moves.leave
    if state.phase in ENDS:
        return moves.undo_on_request if next_undo(state) else moves.release
    if state.phase is Phase.CANCELLING:
        return cancel
    if driver.draining and (drain := _drained(driver)) is not None:
        return drain
    if stale.is_answered(driver):
        return stale.resolve
    if "redirect" in state.pending.values() and state.phase is not Phase.WAITING:
        return moves.deliver if driver.working.hushed("redirected") else None
    if state.phase is Phase.PAUSING:
        return moves.pause if driver.working.hushed("paused") else None
    if state.phase is Phase.QUEUED or (state.phase is Phase.RUNNING and not function.running):
        return _after_function(driver)
    return _while_running(driver) if state.phase is Phase.RUNNING else _while_resting(driver)


def _drained(driver: Driver) -> Move | None:
    if driver.log.state.phase in {Phase.RUNNING, Phase.QUEUED}:
        return moves.hold_for_drain
    return moves.evict if driver.rests else None


def _after_function(driver: Driver) -> Move | None:
    """It is not being called: it has still to be, or has ended."""
    ended = driver.function.ended
    if ended is None:
        return moves.enter
    if driver.replay.redirect_due(()):
        return moves.tell_redirect
    by_itself = not isinstance(ended, Signal | SourceGone)
    return stale.hold_for_end if by_itself and driver.replay.unfinished else moves.finish


def _while_running(driver: Driver) -> Move | None:
    if driver.replay.tells and driver.replay.redirect_due(driver.working.calls):
        return moves.tell_redirect
    if _must_look(driver):
        return _check_guards
    return moves.wait if driver.working.only_asks else None


def _while_resting(driver: Driver) -> Move | None:
    if driver.log.state.phase is Phase.WAITING and _must_look(driver):
        return _check_guards
    return moves.wake if driver.wakes else None


def _must_look(driver: Driver) -> bool:
    """Return whether something would begin now, if only the world were known to be as it was."""
    return driver.gate.waiting > 0 and driver.guards.due and not driver.replay.unfinished


async def _check_guards(driver: Driver) -> None:
    driver.guards.start_check()


# ── waiting ──────────────────────────────────────────────────────────────────────────────────


async def until_something_happens(driver: Driver) -> None:
    """Wait for any change, or for the next moment at which time alone makes one."""
    if _patience(driver) is None:
        await driver.log.until(lambda: _calls_for_a_move(driver))
        return
    with anyio.move_on_after(_patience(driver)) as waited:
        await driver.log.next_change()
    if waited.cancelled_caught:
        await _time_has_passed(driver)


def _calls_for_a_move(driver: Driver) -> bool:
    """Asked at every change, where it happens: most are a step's own affair."""
    if _just_works(driver):
        return False
    return next_move(driver) is not None or _patience(driver) is not None


def _just_works(driver: Driver) -> bool:
    """Return whether no move is due: nothing is wanted or asked, and the function goes on."""
    state, replay = driver.log.state, driver.replay
    plain = state.phase is Phase.RUNNING and driver.function.running and not driver.lost
    heard = not (state.pending or state.holds or state.questions or state.timers)
    there = not (replay.unfinished or replay.entry.left or driver.draining) and driver.guards.fresh
    return plain and heard and there


async def _time_has_passed(driver: Driver) -> None:
    if driver.wakes:
        return
    if any(left <= 0 for left in _deadlines(driver)):
        await moves.close_expired(driver)
    elif _astray(driver):
        if driver.replay.give_in_any_order():
            driver.log.stir()
        elif await _is_still(driver):
            await stale.hold_for_code(driver, _left_again(driver))
    elif driver.rests and driver.agent.evict_after is not None:
        await moves.evict(driver)


async def _is_still(driver: Driver) -> bool:
    """Look again: a loop that was busy gets round to the function only after its timers."""
    with anyio.move_on_after(REPLAY_S / 5) as waited:
        await driver.log.next_change()
    return waited.cancelled_caught


def _patience(driver: Driver) -> float | None:
    moments = [max(0.0, left) for left in _deadlines(driver)]
    if driver.rests and driver.agent.evict_after is not None:
        moments.append(driver.agent.evict_after)
    if _astray(driver):
        left = [driver.replay.entry.left[step].waited for step in _left_again(driver)]
        moments.append(REPLAY_S + max(left, default=0.0))
    return min(moments, default=None)


def _deadlines(driver: Driver) -> list[float]:
    """In how many seconds this task has to do something. Windows and back-offs are their steps'."""
    state = driver.log.state
    if state.phase not in {Phase.RUNNING, Phase.WAITING}:
        return []
    asked = (driver.left_of_question(question) for question in state.questions)
    found = [left for left in asked if left is not None]
    timers = () if driver.function.running else state.timers
    return [*found, *(driver.left_of_timer(timer) for timer in timers)]


def _astray(driver: Driver) -> bool:
    """The function waits for what was not on its way, and not for what was.

    As long as it is busy with something of its own it may still come to it.
    """
    waits = driver.replay.unfinished and bool(driver.working.steps or driver.working.waiting)
    still = driver.log.state.phase is Phase.RUNNING and driver.working.quiet
    return still and (waits or bool(_left_again(driver)))


def _left_again(driver: Driver) -> list[str]:
    """Calls that it gave up at that time, and not yet now."""
    return [call for call in driver.working.waiting if call in driver.replay.entry.left]
