"""Further conditions of a step: the world as it was noted, consent, time to say no."""

from __future__ import annotations

from functools import partial

import anyio

from midflight.executor.approval import approved
from midflight.executor.recording import record
from midflight.executor.steps import Step
from midflight.kernel import events as e
from midflight.kernel.record import NULL, Event
from midflight.kernel.state import RunState


async def permitted(step: Step) -> bool:
    """Return whether the world is as it was and a person agrees, also after waiting for that."""
    if not await _can_rely(step):
        return False
    if step.tool.approval:
        await approved(step)
    if step.tool.hold:
        await _held_back(step)
    waited = step.tool.approval or step.tool.hold
    return not waited or await _can_rely(step)


async def _can_rely(step: Step) -> bool:
    """Return whether what the step relies on is as noted; otherwise hold the run, which asks."""
    if step.told:  # what it has changed is no change of others, and nobody need agree to it
        return False
    guards, relies_on = step.guards, step.tool.relies_on
    unset = [name for name in relies_on if name not in step.host.journal.state.guards]
    if unset:
        never = f"relies on {', '.join(unset)}, never guarded: call run.guard before this step"
        await record(step, NULL, never)
    if not guards.any:
        return True
    intact = await guards.intact()
    step.rely_on(intact)
    return await guards.hold_unless(relies_on, intact)


async def _held_back(step: Step) -> None:
    """The window in which a cancel still wins; starts again in full after a pause."""
    host = step.host
    while True:
        opened = await host.journal.decide(partial(_window, step))
        if opened:
            with anyio.move_on_after(step.tool.hold):  # in full, however long the store took
                await host.journal.until(lambda: step.told or not step.starts())
        if step.told or (opened and step.starts()):
            return
        await step.may_start()


def _window(step: Step, state: RunState) -> list[Event]:
    """The window counts from when people can see it: its end is chosen anew at each try."""
    if step.told or not step.starts():
        return []
    until = step.host.journal.clock.now() + step.tool.hold
    opened = e.WindowOpened(
        epoch=step.host.journal.epoch, step=step.identity, noun=step.label, until=until
    )
    return [*step.host.journal.wait_over(state), opened]
