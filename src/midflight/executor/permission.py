"""Further conditions of a step: the world as it was noted, consent, time to say no."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio

from midflight.executor.approval import approved
from midflight.executor.recording import record
from midflight.kernel import events as e
from midflight.kernel.record import NULL, Event
from midflight.kernel.state import RunState

if TYPE_CHECKING:
    from midflight.executor.steps import Step


async def permitted(step: Step) -> bool:
    """Return whether the world is as it was and a person agrees, also after waiting for that."""
    if not await _can_rely(step):
        return False
    if step.tool.approval:
        await approved(step)
    if step.tool.undo_window:
        await _held_back(step)
    waited = step.tool.approval or step.tool.undo_window
    return not waited or await _can_rely(step)


async def _can_rely(step: Step) -> bool:
    """Return whether what the step relies on is as noted; otherwise hold the run, which asks."""
    if step.told:  # what it has changed is no change of others, and nobody need agree to it
        return False
    guards, relies_on = step.driver.guards, step.tool.relies_on
    unset = [name for name in relies_on if name not in step.driver.log.state.guards]
    if unset:
        never = f"relies on {', '.join(unset)}, never guarded: call run.guard before this step"
        await record(step, NULL, never)
    if not guards.any:
        return True
    step.intact = await guards.intact()
    return await guards.hold_unless(relies_on, step.intact)


async def _held_back(step: Step) -> None:
    """The window in which a cancel still wins; starts again in full after a pause."""
    driver = step.driver
    while True:
        opened = await driver.log.decide(partial(_window, step))
        if opened:
            with anyio.move_on_after(step.tool.undo_window):  # in full, however long the store took
                await driver.log.until(lambda: step.told or not step.starts())
        if step.told or (opened and step.starts()):
            return
        await step.may_start()


def _window(step: Step, state: RunState) -> list[Event]:
    """The window counts from when people can see it: its end is chosen anew at each try."""
    if step.told or not step.starts():
        return []
    until = step.driver.time_of_the_store() + step.tool.undo_window
    opened = e.WindowOpened(
        epoch=step.driver.epoch, step=step.identity, noun=step.label, until=until
    )
    return [*step.driver.wait_over(state), opened]
