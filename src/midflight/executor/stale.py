"""When a run comes back to another world than the one it left: it stops and asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from midflight.executor import values
from midflight.kernel import events as e
from midflight.kernel.decide import Known, decide
from midflight.kernel.phases import Cause, Phase
from midflight.kernel.record import Who
from midflight.kernel.state import RunState
from midflight.run import Signal
from midflight.stores.base import Draft, Submit, View

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


async def take_up(driver: Driver) -> None:
    """A run that a predecessor has left with such a question: wait for its answer here."""
    if Cause.STALE in driver.log.state.holds:
        for step in [step for step in driver.replay.questions if step.startswith("stale:")]:
            driver.tasks.start_soon(_ask, driver, step, "")


async def _ask(driver: Driver, step: str, text: str) -> None:
    try:
        answer = await driver.ask(step, "stale", text, choices=CHOICES)
    except Signal:
        return
    choice = values.decode(answer.payload) if answer.by else ""
    if choice == "go on":
        driver.replay.unclaimed.clear()
        await driver.log.decide(
            lambda s: [e.HoldLifted(cause=Cause.STALE)] if Cause.STALE in s.holds else []
        )
    elif choice == "cancel":
        await _cancel(driver, Who(by=answer.by))


async def _cancel(driver: Driver, who: Who) -> None:
    """In the name of the person who has chosen it."""
    run = driver.run

    def cancelled(view: View) -> Draft:
        state = view.states[run]
        assert isinstance(state, RunState)
        verdict = decide(state, e.CancelRequested(who=who)) if state.alive else ()
        return Draft() if isinstance(verdict, Known) else Draft({run: verdict})

    await driver.store.submit(Submit(driver.ids(), (run,), cancelled))
