"""Caps and stuckness: amounts spent and reserved, when to warn and when to hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from midflight.errors import InvalidRequest
from midflight.journal.record import Limits
from midflight.journal.state import RunState, Spent, seconds_in_motion

NO_CAPS: Final = Limits()
WARN_AT: Final = 0.8
MEASURED: Final = frozenset({"seconds", "usd"})  # the others are counted, in whole numbers
ERRORS_IN_A_ROW: Final = 4  # at least; three can be one bad minute of a provider


class Meter(Struct, frozen=True):
    """One cap and how full it is; ``used`` includes what calls in flight have reserved."""

    name: str
    used: float
    cap: float

    @property
    def share(self) -> float:
        """The part of the cap that is used: 1.0 is at the cap."""
        return self.used / self.cap if self.cap else 1.0


def validate(limits: Limits) -> None:
    """Refuse caps that cannot be meant."""
    given: object = limits
    if not isinstance(given, Limits):
        raise InvalidRequest(f"{given!r:.60} is not Limits(…). Nothing was changed.")
    for name, cap in msgspec.structs.asdict(limits).items():
        if cap is not None and not _can_be_meant(name, cap):
            raise _no_cap(name, cap)


def limits_from(given: Mapping[str, str]) -> Limits:
    """Read caps by name, as people write them; raise ``InvalidRequest`` for anything else."""
    if not given:
        raise InvalidRequest("no cap is named: write one as usd=4. Nothing was changed.")
    caps: dict[str, Any] = {}
    for name, text in given.items():
        if name not in Limits.__struct_fields__:
            known = ", ".join(Limits.__struct_fields__)
            raise InvalidRequest(
                f"{name:.40} is not a cap; the caps are {known}. Nothing was changed."
            )
        caps[name] = _number(name, text)
    return Limits(**caps)


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise _no_cap(name, text) from None
    whole = name not in MEASURED and number.is_integer()
    cap = int(number) if whole else number
    if not _can_be_meant(name, cap):
        raise _no_cap(name, text)
    return cap


def _can_be_meant(name: str, cap: object) -> bool:
    """Return whether a cap is a number of zero or more, and neither NaN nor infinite."""
    kinds = int | float if name in MEASURED else int
    return isinstance(cap, kinds) and not isinstance(cap, bool) and 0 <= cap < float("inf")


def _no_cap(name: str, cap: object) -> InvalidRequest:
    number = "number" if name in MEASURED else "whole number"
    return InvalidRequest(
        f"limit {name}={cap!s:.40} is not a {number} of zero or more. Nothing was changed."
    )


def is_metered(limits: Limits) -> bool:
    """Return whether there is a cap on something that is spent; going in circles spends nothing."""
    return msgspec.structs.replace(limits, repeats=None) != NO_CAPS


def meters(
    state: RunState, now: float, caps: Limits | None = None, *, alone: bool = False
) -> list[Meter]:
    """Return a meter for every cap that is set, or of ``caps``: spent and reserved against it.

    ``alone`` says that nobody drives the run: then its clock stands still.
    """
    limits = state.limits if caps is None else caps
    if not is_metered(limits):
        return []
    spent, flying = state.spent, state.open.values()
    spawns = len(state.children)  # a run that only spawns comes to its cap as well
    used = {
        "steps": spent.steps + spawns + _allotted(state, "steps"),
        "seconds": seconds_in_motion(state, now, alone=alone),
        "tokens": spent.tokens
        + sum(a.reserved_tokens for a in flying)
        + _allotted(state, "tokens"),
        "usd": spent.usd + sum(a.reserved_usd for a in flying) + _allotted(state, "usd"),
        "tool_calls": spent.tool_calls + spawns + _allotted(state, "tool_calls"),
    }
    cap = msgspec.structs.asdict(limits)
    return [Meter(name, used[name], cap[name]) for name in used if cap[name] is not None]


def _allotted(state: RunState, meter: str) -> float:
    """Return what children that live may still spend; it is spent only once they have ended."""
    return sum(getattr(allotted, meter) or 0 for allotted in state.allotments.values())


def at_cap(
    state: RunState,
    now: float,
    *,
    steps: int = 0,
    tokens: int = 0,
    usd: float = 0.0,
    tool_calls: int = 0,
    caps: Limits | None = None,
) -> Meter | None:
    """Return the first cap that the next call would pass, or None.

    This is asked before each call, so that the overshoot is at most what is in flight already.
    """
    wants = {"steps": steps, "tokens": tokens, "usd": usd, "tool_calls": tool_calls}
    for meter in meters(state, now, caps):
        want = wants.get(meter.name, 0)
        if meter.used + want > meter.cap or (meter.used >= meter.cap and not want):
            return Meter(meter.name, meter.used + want, meter.cap)
    return None


def warnings(state: RunState, now: float) -> list[Meter]:
    """Return the caps that are 80 % full: person and model are told of them."""
    return [meter for meter in meters(state, now) if meter.share >= WARN_AT]


def allotment(state: RunState, now: float, wanted: Limits) -> Limits:
    """Return the caps of a child: those it asks for, within what its parent has left.

    A child that asks for nothing in particular gets half of that, so that its parent can go on.
    """
    taken = {"steps": 1, "tool_calls": 1}  # by the spawn itself
    left = {
        meter.name: max(0, meter.cap - meter.used - taken.get(meter.name, 0))
        for meter in meters(state, now)
    }
    grant = {
        name: _share(want, left.get(name), whole=name not in MEASURED)
        for name, want in msgspec.structs.asdict(wanted).items()
    }
    grant["repeats"] = _tighter(wanted.repeats, state.limits.repeats)
    return msgspec.convert(grant, Limits, strict=False)


def committed(state: RunState) -> Spent:
    """Return the cost of a run that has ended, with what its living children may still spend."""
    spent, spawns = state.spent, len(state.children)
    return Spent(
        steps=spent.steps + spawns + int(_allotted(state, "steps")),
        tool_calls=spent.tool_calls + spawns + int(_allotted(state, "tool_calls")),
        tokens=spent.tokens + int(_allotted(state, "tokens")),
        usd=spent.usd + _allotted(state, "usd"),
        unpriced=spent.unpriced,
        seconds=spent.seconds,
    )


def _tighter(wanted: int | None, above: int | None) -> int | None:
    """Return the bound of a child, which is never looser than its parent's. 0 is no bound."""
    if wanted is None:
        return above
    return min(wanted or above, above) if above else wanted


def _share(want: float | None, left: float | None, *, whole: bool) -> float | None:
    if left is None:
        return want
    if want is None:
        return left // 2 if whole else left / 2
    return min(want, left)


class Call(Struct, frozen=True):
    """A call and what came of it, by digest: enough to see a run going in circles."""

    call: str
    result: str
    failed: bool = False


def stuck(history: Sequence[Call], repeats: int) -> str | None:
    """Say how a run goes in circles, or None. ``repeats`` equal turns make a circle."""
    if repeats <= 0:
        return None
    for period, words in ((1, "the same call with the same result"), (2, "two calls in turn")):
        span = period * (repeats + 1)
        tail = list(history[-span:])
        if len(tail) == span and all(tail[i] == tail[i % period] for i in range(span)):
            return f"{words}, {repeats + 1} times"
    errors = max(ERRORS_IN_A_ROW, repeats)
    if len(history) >= errors and all(call.failed for call in history[-errors:]):
        return f"{errors} errors in a row"
    return None
