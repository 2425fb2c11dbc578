"""When a run comes back to another world than the one it left: it stops and asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from midflight.executor import values
from midflight.executor.replay import Answered
from midflight.kernel import events as e
from midflight.kernel.phases import Cause, Phase
from midflight.kernel.record import Event, Who
from midflight.kernel.state import RunState
from midflight.run import Signal

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

STALE: Final = "stale:"
CHOICES: Final = {"go on": "Go on, as if it were new", "cancel": "Cancel the run"}


async def mismatch(driver: Driver) -> None:
    """The function asks for other things than before: it must not go on by itself."""
    missing = sorted(driver.replay.unclaimed)
    names = ", ".join(driver.replay.records[step].name for step in missing[:3])
    found = ", ".join(sorted(step.name for step in driver.steps)) or "its end"
    text = f"The agent's code has changed: expected {names}, found {found}. Go on as new?"
    step = f"{STALE}{len(missing)}:{missing[0]}"

    def held(state: RunState) -> list[Event]:
        if state.phase is not Phase.RUNNING or driver.lost:
            return []
        asked = driver.question(step, "stale", text, {"enum": list(CHOICES), "x-labels": CHOICES})
        known = step in driver.replay.questions  # answered before: the code is still another one
        return [e.HoldPlaced(cause=Cause.STALE, why=text), *([] if known else [asked])]

    if await driver.log.decide(held):  # in one append: a run that is held for it always asks
        driver.tasks.start_soon(_ask, driver, step, text)


async def _ask(driver: Driver, step: str, text: str) -> None:
    try:
        answer = await driver.ask(step, "stale", text, choices=CHOICES)
    except Signal:
        return
    await _follow(driver, answer)


def _asked(driver: Driver) -> list[str]:
    return [step for step in driver.replay.questions if step.startswith(STALE)]


def unheard(driver: Driver) -> bool:
    """It is held for this, an answer may have come, and nobody here waits for it."""
    state = driver.log.state
    held = Cause.STALE in state.holds and state.stirred
    return held and not driver.asking and bool(_asked(driver))


async def reconsider(driver: Driver) -> None:
    """It was held when we came: follow the answer that was given meanwhile, or wait for it."""
    asked = _asked(driver)
    answer = driver.replay.answers.get(driver.replay.questions[asked[-1]])
    if answer is not None:
        await _follow(driver, answer)
    else:
        driver.asking += 1  # or the next look at the run would come here again
        driver.tasks.start_soon(_ask_again, driver, asked[-1])


async def _ask_again(driver: Driver, step: str) -> None:
    driver.asking -= 1
    await _ask(driver, step, "")


async def _follow(driver: Driver, answer: Answered) -> None:
    choice = values.decode(answer.payload) if answer.by else "go on"  # withdrawn: nobody minds

    def followed(state: RunState) -> list[Event]:
        if Cause.STALE not in state.holds or driver.lost:
            return []
        if choice == "cancel":
            return [e.CancelRequested(who=Who(by=answer.by), in_flight=tuple(state.open))]
        return [e.HoldLifted(cause=Cause.STALE)]

    if choice == "go on":
        driver.replay.unclaimed.clear()
    await driver.log.decide(followed)
