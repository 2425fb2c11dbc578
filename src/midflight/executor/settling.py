"""Waits until what an attempt has sent cannot arrive any more; the wait is on record.

A check has looked and has not seen the effect. Until the time is over the word is *unknown
(checked, not seen yet)*; then the check is asked again. A crash forgets neither the wait nor the
word.
"""

from __future__ import annotations

from midflight.executor.host import Host
from midflight.kernel import events as e
from midflight.kernel.identities import SETTLE
from midflight.kernel.machine import TRANSITIONS
from midflight.kernel.record import Event
from midflight.kernel.state import Attempt, RunState


async def begin_to_settle(host: Host, attempt: Attempt, left: float) -> None:
    """Put on record that a check has not seen it, and when it is looked up again.

    A run that has ended takes no timers. It is driven until its undo is settled all the same.
    """
    timer = f"{SETTLE}{attempt.position}"

    def begun(state: RunState) -> list[Event]:
        takes = e.TimerSet in TRANSITIONS[state.phase] and not host.journal.lost
        if timer in state.timers or not takes:
            return []
        until = host.journal.clock.now() + left
        return [
            *host.journal.wait_over(state),
            e.TimerSet(epoch=host.journal.epoch, name=timer, until=until),
        ]

    await host.journal.decide(begun)


async def end_to_settle(host: Host, attempt: Attempt) -> None:
    """Take the timer back: the time is over, or nobody waits any more."""
    timer = f"{SETTLE}{attempt.position}"

    def cleared(state: RunState) -> list[Event]:
        takes = e.TimerCleared in TRANSITIONS[state.phase] and not host.journal.lost
        return (
            [e.TimerCleared(epoch=host.journal.epoch, name=timer)]
            if timer in state.timers and takes
            else []
        )

    if timer in host.journal.state.timers:
        await host.journal.decide(cleared)
