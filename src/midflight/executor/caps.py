"""Before anything starts: whether there is budget left, and whether the run gets anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from midflight.kernel import events as e
from midflight.kernel.limits import at_cap, stuck, warnings
from midflight.kernel.phases import Cause, Phase
from midflight.kernel.record import Event
from midflight.kernel.state import RunState

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

NOTED_IN: Final = {Phase.RUNNING, Phase.PAUSING}


async def within_caps(driver: Driver) -> bool:
    """False when the run was held at a cap instead; warns before."""
    state, now = driver.log.state, driver.clock()
    if at_cap(state, now, steps=1, tool_calls=1) is not None:
        await driver.log.decide(lambda s: _at_cap(driver, s))
        return False
    circle = stuck(list(driver.replay.history), state.limits.repeats or 0)
    if circle is not None:
        return await _in_circles(driver, circle)
    for meter in warnings(state, now):
        words = f"{meter.name}: {meter.share:.0%} of {meter.cap:g} is used"
        await give_notice(driver, f"cap:{meter.name}:{meter.cap:g}", words)
    return True


def _at_cap(driver: Driver, state: RunState) -> list[Event]:
    meter = at_cap(state, driver.clock(), steps=1, tool_calls=1)
    if meter is None:
        return []
    return _hold(driver, state, f"{meter.name}: the cap of {meter.cap:g} is reached.")


def _hold(driver: Driver, state: RunState, why: str) -> list[Event]:
    if Cause.CAP in state.holds or driver.lost or not state.alive:
        return []
    text = f"{why} Raise it to go on."
    asked = e.QuestionOpened(epoch=driver.epoch, kind="cap", message=text)
    return [e.HoldPlaced(cause=Cause.CAP, why=text), asked]


async def _in_circles(driver: Driver, circle: str) -> bool:
    """One nudge, which the function can hand to its model; if that does not help, a hold."""
    replay, repeats = driver.replay, driver.log.state.limits.repeats or 0
    if replay.nudged_at is None:
        kind = f"stuck:{replay.calls_made}"
        await give_notice(driver, kind, f"This goes in circles: {circle}. Try something else.")
        return True
    if replay.calls_made - replay.nudged_at <= repeats:
        return True
    why = f"repeats: it goes in circles ({circle}), also after it was told."
    await driver.log.decide(lambda s: _hold(driver, s, why))
    return False


async def give_notice(driver: Driver, kind: str, text: str) -> None:
    """Tell person and function, once for each kind."""

    def given(state: RunState) -> list[Event]:
        known = any(noticed == kind for noticed, _ in state.notices)
        if known or driver.lost or state.phase not in NOTED_IN:
            return []
        return [e.NoticeGiven(epoch=driver.epoch, kind=kind, text=text)]

    await driver.log.decide(given)
