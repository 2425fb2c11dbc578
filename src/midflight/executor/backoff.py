"""Waits before the next try, on record: a crash neither shortens the wait nor forgets it."""

from __future__ import annotations

import anyio

from midflight.executor.foreign import may_be_retried, retry_after
from midflight.executor.steps import Step
from midflight.kernel import events as e
from midflight.kernel.identities import RETRY
from midflight.kernel.phases import Phase
from midflight.kernel.record import Event
from midflight.kernel.state import RunState


def _timer(step: Step) -> str:
    return f"{RETRY}{step.identity}"


def tries_left(step: Step, error: BaseException | None = None) -> int:
    """Each try but the first has a timer on record, so no crash gives a step more of them.

    An error that says ``retryable = False`` would only come again.
    """
    if not may_be_retried(error):
        return 0
    step.be_patient(retry_after(error))
    return step.tool.retry - step.host.history.timers.get(_timer(step), 0)


def back_off(step: Step, state: RunState) -> list[Event]:
    """Set the timer for the next try."""
    host, timer = step.host, _timer(step)
    moves = state.epoch == host.journal.epoch and state.phase in {Phase.RUNNING, Phase.PAUSING}
    if step.told or not moves:
        return []
    wait = max(step.tool.backoff * 2 ** host.history.timers.get(timer, 0), step.wait_at_least)
    until = host.journal.clock.now() + wait
    tries = 1 + step.tool.retry
    return [e.TimerSet(epoch=host.journal.epoch, name=timer, until=until, tries=tries)]


async def wait_out(step: Step) -> None:
    """Wait for the rest of a back-off, also of one that began before a crash or an eviction."""
    if not step.host.journal.state.timers:
        return
    host, timer = step.host, _timer(step)

    def cleared(state: RunState) -> list[Event]:
        if timer not in state.timers or not host.gate.may_start(step.course):
            return []
        return [
            *host.journal.wait_over(state),
            e.TimerCleared(epoch=host.journal.epoch, name=timer),
        ]

    while timer in host.journal.state.timers:
        await step.may_start()
        left = host.journal.left_of_timer(timer)
        if left <= 0 or step.told:
            await host.journal.decide(cleared)
            continue
        step.idle = True
        with anyio.move_on_after(left):
            await host.journal.until(lambda: step.told or not host.gate.may_start(step.course))
        step.idle = False
