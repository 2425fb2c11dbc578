"""Waits until what an attempt has sent cannot arrive any more; the wait is on record.

A check has looked and has not seen the effect. Until the time is over the word is *unknown
(checked, not seen yet)*; then the check is asked again. A crash forgets neither the wait nor the
word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midflight.kernel import events as e
from midflight.kernel.identities import SETTLE
from midflight.kernel.machine import TRANSITIONS
from midflight.kernel.record import Event
from midflight.kernel.state import Attempt, RunState

if TYPE_CHECKING:
    from midflight.executor.drive import Driver


async def begin_to_settle(driver: Driver, attempt: Attempt, left: float) -> None:
    """Put on record that a check has not seen it, and when it is looked up again.

    A run that has ended takes no timers. It is driven until its undo is settled all the same.
    """
    timer = f"{SETTLE}{attempt.position}"

    def begun(state: RunState) -> list[Event]:
        takes = e.TimerSet in TRANSITIONS[state.phase] and not driver.lost
        if timer in state.timers or not takes:
            return []
        until = driver.time_of_the_store() + left
        return [*driver.wait_over(state), e.TimerSet(epoch=driver.epoch, name=timer, until=until)]

    await driver.log.decide(begun)


async def end_to_settle(driver: Driver, attempt: Attempt) -> None:
    """Take the timer back: the time is over, or nobody waits any more."""
    timer = f"{SETTLE}{attempt.position}"

    def cleared(state: RunState) -> list[Event]:
        takes = e.TimerCleared in TRANSITIONS[state.phase] and not driver.lost
        return (
            [e.TimerCleared(epoch=driver.epoch, name=timer)]
            if timer in state.timers and takes
            else []
        )

    if timer in driver.log.state.timers:
        await driver.log.decide(cleared)
