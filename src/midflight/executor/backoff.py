"""Waits before the next try, on record: a crash neither shortens the wait nor forgets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from midflight.executor.foreign import may_be_retried, retry_after
from midflight.kernel import events as e
from midflight.kernel.identities import RETRY
from midflight.kernel.phases import Phase
from midflight.kernel.record import Event
from midflight.kernel.state import RunState

if TYPE_CHECKING:
    from midflight.executor.steps import Step


def _timer(step: Step) -> str:
    return f"{RETRY}{step.identity}"


def tries_left(step: Step, error: BaseException | None = None) -> int:
    """Each try but the first has a timer on record, so no crash gives a step more of them.

    An error that says ``retryable = False`` would only come again.
    """
    if not may_be_retried(error):
        return 0
    step.wait_at_least = retry_after(error)
    return step.tool.retry.times - step.driver.replay.timers.get(_timer(step), 0)


def back_off(step: Step, state: RunState) -> list[Event]:
    """Set the timer for the next try."""
    driver, timer = step.driver, _timer(step)
    moves = state.epoch == driver.epoch and state.phase in {Phase.RUNNING, Phase.PAUSING}
    if step.told or not moves:
        return []
    wait = max(
        step.tool.retry.first_after * 2 ** driver.replay.timers.get(timer, 0), step.wait_at_least
    )
    until = driver.time_of_the_store() + wait
    tries = 1 + step.tool.retry.times
    return [e.TimerSet(epoch=driver.epoch, name=timer, until=until, tries=tries)]


async def wait_out(step: Step) -> None:
    """Wait for the rest of a back-off, also of one that began before a crash or an eviction."""
    if not step.driver.log.state.timers:
        return
    driver, timer = step.driver, _timer(step)

    def cleared(state: RunState) -> list[Event]:
        if timer not in state.timers or not driver.gate.may_start(step.course):
            return []
        return [*driver.wait_over(state), e.TimerCleared(epoch=driver.epoch, name=timer)]

    while timer in driver.log.state.timers:
        await step.may_start()
        left = driver.left_of_timer(timer)
        if left <= 0 or step.told:
            await driver.log.decide(cleared)
            continue
        step.idle = True
        with anyio.move_on_after(left):
            await driver.log.until(lambda: step.told or not driver.gate.may_start(step.course))
        step.idle = False
