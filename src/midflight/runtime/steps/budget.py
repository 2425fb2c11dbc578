"""Checks before anything starts: that there is budget left, and that the run gets anywhere."""

from __future__ import annotations

import msgspec

from midflight.journal import events as e
from midflight.journal.limits import NO_CAPS, Meter, at_cap, is_metered, stuck, warnings
from midflight.journal.phases import Cause, Effect
from midflight.journal.record import Event, Limits, Usage
from midflight.journal.state import RunState
from midflight.runtime.host import Host
from midflight.runtime.in_flight import OpenStep


async def within_caps(host: Host, step: OpenStep | None = None) -> bool:
    """Return whether one more call may begin; if so ``step`` counts as under way from here on.

    The answer is False when the run was held at a cap instead, or had to wait for calls under way:
    what they will have cost counts as spent, so that calls at once do not pass a cap together.
    """
    state = host.journal.state
    if state.limits == NO_CAPS:
        return True
    metered = is_metered(state.limits)
    if metered:
        await _warn(host, state)
    repeats = state.limits.repeats
    circles = host.history.circles
    circle = stuck(circles.history, repeats) if repeats and circles.possible else None
    if repeats and circle is not None and not await _in_circles(host, circle, repeats):
        return False
    if not metered:
        return True
    if _passed(host, state, step) is not None:
        await host.journal.decide(lambda s: _at_cap(host, s, step))
        return False
    flying = _under_way(host, step)
    if _full(host, step, flying):
        await host.journal.until(lambda: _under_way(host, step) != flying or not _moves(host))
        return False
    if step is not None:
        host.in_flight.let_through(step)
    return True


async def _warn(host: Host, state: RunState) -> None:
    """Give notice of caps that are nearly reached."""
    for meter in warnings(state, host.journal.clock.in_motion()):
        if meter.share < 1.0:  # then it asks
            words = f"{meter.name}: {meter.share:.0%} of {meter.cap:g} is used"
            await host.journal.give_notice(f"cap:{meter.name}:{meter.cap:g}", words)


def _under_way(host: Host, step: OpenStep | None) -> set[OpenStep]:
    """Others that have begun, or are just about to, and have no result on record yet."""
    known = host.history.records
    busy = (s for s in host.in_flight.under_way if s is not step and not (s.asking or s.idle))
    return {s for s in busy if s.identity not in known}


def _full(host: Host, step: OpenStep | None, flying: set[OpenStep]) -> bool:
    """Return whether one more call would pass a cap together with those not counted yet."""
    state = host.journal.state
    acting = [s for s in flying if not _is_thought(s)]
    uncounted = [s for s in flying if s.attempt not in state.open]  # counted as they begin
    reserved = [s.reserved for s in uncounted]
    full = at_cap(
        state,
        host.journal.clock.in_motion(),
        steps=1 + len(acting),
        tool_calls=1 + sum(not _is_thought(s) for s in uncounted),
        tokens=sum(usage.tokens for usage in reserved),
        usd=sum(usage.usd or 0.0 for usage in reserved),
        caps=_caps(state, step),
    )
    return bool(flying) and full is not None


def _moves(host: Host) -> bool:
    state = host.journal.state
    return (
        host.signals.told is None
        and not host.journal.lost
        and not state.pending
        and not state.holds
    )


def _is_thought(step: OpenStep | None) -> bool:
    return step is not None and step.tool.effect is Effect.MODEL


def _caps(state: RunState, step: OpenStep | None) -> Limits:
    """Return the caps that are for this call: a thought is neither a step nor a tool call."""
    caps = state.limits
    return msgspec.structs.replace(caps, steps=None, tool_calls=None) if _is_thought(step) else caps


def _passed(host: Host, state: RunState, step: OpenStep | None) -> Meter | None:
    """The cap that one more call would pass."""
    return at_cap(
        state, host.journal.clock.in_motion(), steps=1, tool_calls=1, caps=_caps(state, step)
    )


def _at_cap(host: Host, state: RunState, step: OpenStep | None) -> list[Event]:
    meter = _passed(host, state, step)
    if meter is None:
        return []
    return _hold(host, state, f"{meter.name}: the cap of {meter.cap:g} is reached.")


def _hold(host: Host, state: RunState, why: str) -> list[Event]:
    if Cause.CAP in state.holds or host.journal.lost or not state.alive:
        return []
    text = f"{why} Raise it to go on."
    asked = e.QuestionOpened(epoch=host.journal.epoch, kind="cap", message=text)
    return [e.HoldPlaced(cause=Cause.CAP, why=text), asked]


async def _in_circles(host: Host, circle: str, repeats: int) -> bool:
    """One nudge, which the function can hand to its model; if that does not help, a hold."""
    circles = host.history.circles
    if circles.nudged_at is None:
        kind = f"stuck:{circles.made}"
        await host.journal.give_notice(kind, f"This goes in circles: {circle}. Try something else.")
        return True
    if circles.made - circles.nudged_at <= repeats:
        return True
    why = f"repeats: it goes in circles ({circle}), also after it was told."
    await host.journal.decide(lambda s: _hold(host, s, why))
    return False


async def tell_if_uncounted(host: Host, step: OpenStep, spent: Usage) -> None:
    """Give notice of a model call that does not say what it spent: a cap cannot count it.

    There is one notice for each tool: the person who set the cap has to know, and cannot see it
    from a sum of zero.
    """
    if not _is_thought(step) or spent != Usage():
        return
    limits = host.journal.state.limits
    caps = [name for name in ("tokens", "usd") if getattr(limits, name) is not None]
    if caps:
        said = f"{step.name} did not say what it spent, so this cap does not count it"
        kind = f"uncounted:{step.tool.name}"
        await host.journal.give_notice(kind, f"{' and '.join(caps)}: {said}")
