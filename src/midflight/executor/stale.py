"""When a run comes back to another world than the one it left: it stops and asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from midflight.executor import values
from midflight.kernel import events as e
from midflight.kernel.phases import Cause, Phase
from midflight.run import Signal

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

CHOICES: Final = {"go on": "Go on, as if it were new", "cancel": "Cancel the run"}


async def mismatch(driver: Driver) -> None:
    """The function asks for other things than before: it must not go on by itself."""
    missing = sorted(driver.replay.unclaimed)
    names = ", ".join(driver.replay.records[step].name for step in missing[:3])
    found = ", ".join(sorted(step.name for step in driver.steps)) or "its end"
    text = f"The agent's code has changed: expected {names}, found {found}. Go on as new?"
    step = f"stale:{len(missing)}:{missing[0]}"
    await driver.log.decide(
        lambda s: (
            [e.HoldPlaced(cause=Cause.STALE, why=text)]
            if s.phase is Phase.RUNNING and not driver.lost
            else []
        )
    )
    driver.tasks.start_soon(_ask, driver, step, text)


async def _ask(driver: Driver, step: str, text: str) -> None:
    try:
        answer = await driver.ask(step, "stale", text, choices=CHOICES)
    except Signal:
        return
    if answer.by and values.decode(answer.payload) == "go on":
        driver.replay.unclaimed.clear()
        await driver.log.decide(
            lambda s: [e.HoldLifted(cause=Cause.STALE)] if Cause.STALE in s.holds else []
        )
