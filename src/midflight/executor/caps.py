"""Checks before anything starts: that there is budget left, and that the run gets anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from midflight.kernel import events as e
from midflight.kernel.limits import NO_CAPS, Meter, at_cap, is_metered, stuck, warnings
from midflight.kernel.phases import Cause, Effect, Phase
from midflight.kernel.record import Event, Limits, Usage
from midflight.kernel.state import RunState

if TYPE_CHECKING:
    from midflight.executor.drive import Driver
    from midflight.executor.steps import Step

NOTHING: Final = Usage()  # spent or reserved, as far as was said
NOTED_IN: Final = {Phase.RUNNING, Phase.PAUSING}


async def within_caps(driver: Driver, step: Step | None = None) -> bool:
    """Return whether one more call may begin; if so ``step`` counts as under way from here on.

    The answer is False when the run was held at a cap instead, or had to wait for calls under way:
    what they will have cost counts as spent, so that calls at once do not pass a cap together.
    """
    if driver.log.state.limits == NO_CAPS:
        return True
    state, now = driver.log.state, driver.now_in_motion()
    for meter in (m for m in warnings(state, now) if m.share < 1.0):  # then it asks
        words = f"{meter.name}: {meter.share:.0%} of {meter.cap:g} is used"
        await give_notice(driver, f"cap:{meter.name}:{meter.cap:g}", words)
    repeats = state.limits.repeats
    circle = stuck(driver.replay.circles.history, repeats) if repeats else None
    if repeats and circle is not None and not await _in_circles(driver, circle, repeats):
        return False
    if not is_metered(state.limits):
        return True
    if _passed(driver, state, step) is not None:
        await driver.log.decide(lambda s: _at_cap(driver, s, step))
        return False
    flying = _under_way(driver, step)
    if _full(driver, step, flying):
        await driver.log.until(lambda: _under_way(driver, step) != flying or not _moves(driver))
        return False
    if step is not None:
        driver.working.under_way.add(step)
    return True


def _under_way(driver: Driver, step: Step | None) -> set[Step]:
    """Others that have begun, or are just about to, and have no result on record yet."""
    known = driver.replay.records
    busy = (s for s in driver.working.under_way if s is not step and not (s.asking or s.idle))
    return {s for s in busy if s.identity not in known}


def _full(driver: Driver, step: Step | None, flying: set[Step]) -> bool:
    """Return whether one more call would pass a cap together with those not counted yet."""
    state = driver.log.state
    acting = [s for s in flying if not _is_thought(s)]
    uncounted = [s for s in flying if s.attempt not in state.open]  # counted as they begin
    reserved = [s.reserved for s in uncounted]
    full = at_cap(
        state,
        driver.now_in_motion(),
        steps=1 + len(acting),
        tool_calls=1 + sum(not _is_thought(s) for s in uncounted),
        tokens=sum(usage.tokens for usage in reserved),
        usd=sum(usage.usd or 0.0 for usage in reserved),
        caps=_caps(state, step),
    )
    return bool(flying) and full is not None


def _moves(driver: Driver) -> bool:
    state = driver.log.state
    return driver.course.told is None and not driver.lost and not state.pending and not state.holds


def _is_thought(step: Step | None) -> bool:
    return step is not None and step.tool.effect is Effect.MODEL


def _caps(state: RunState, step: Step | None) -> Limits:
    """Return the caps that are for this call: a thought is neither a step nor a tool call."""
    caps = state.limits
    return msgspec.structs.replace(caps, steps=None, tool_calls=None) if _is_thought(step) else caps


def _passed(driver: Driver, state: RunState, step: Step | None) -> Meter | None:
    """The cap that one more call would pass."""
    return at_cap(state, driver.now_in_motion(), steps=1, tool_calls=1, caps=_caps(state, step))


def _at_cap(driver: Driver, state: RunState, step: Step | None) -> list[Event]:
    meter = _passed(driver, state, step)
    if meter is None:
        return []
    return _hold(driver, state, f"{meter.name}: the cap of {meter.cap:g} is reached.")


def _hold(driver: Driver, state: RunState, why: str) -> list[Event]:
    if Cause.CAP in state.holds or driver.lost or not state.alive:
        return []
    text = f"{why} Raise it to go on."
    asked = e.QuestionOpened(epoch=driver.epoch, kind="cap", message=text)
    return [e.HoldPlaced(cause=Cause.CAP, why=text), asked]


async def _in_circles(driver: Driver, circle: str, repeats: int) -> bool:
    """One nudge, which the function can hand to its model; if that does not help, a hold."""
    circles = driver.replay.circles
    if circles.nudged_at is None:
        kind = f"stuck:{circles.made}"
        await give_notice(driver, kind, f"This goes in circles: {circle}. Try something else.")
        return True
    if circles.made - circles.nudged_at <= repeats:
        return True
    why = f"repeats: it goes in circles ({circle}), also after it was told."
    await driver.log.decide(lambda s: _hold(driver, s, why))
    return False


async def tell_if_uncounted(step: Step) -> None:
    """Give notice of a model call that does not say what it spent: a cap cannot count it.

    There is one notice for each tool: the person who set the cap has to know, and cannot see it
    from a sum of zero.
    """
    if not _is_thought(step) or step.speech.usage != NOTHING:
        return
    limits = step.driver.log.state.limits
    caps = [name for name in ("tokens", "usd") if getattr(limits, name) is not None]
    if caps:
        said = f"{step.name} did not say what it spent, so this cap does not count it"
        kind = f"uncounted:{step.tool.name}"
        await give_notice(step.driver, kind, f"{' and '.join(caps)}: {said}")


async def give_notice(driver: Driver, kind: str, text: str) -> None:
    """Tell person and function, once for each kind."""

    def given(state: RunState) -> list[Event]:
        known = any(noticed == kind for noticed, _ in state.notices)
        if known or driver.lost or state.phase not in NOTED_IN:
            return []
        return [e.NoticeGiven(epoch=driver.epoch, kind=kind, text=text)]

    await driver.log.decide(given)
