"""Time, money, counts and caps as people read them, and the caps with which a run could go on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from midflight.journal.events import QuestionOpened
from midflight.journal.limits import WARN_AT, Meter, meters
from midflight.journal.record import Limits
from midflight.journal.state import Question, RunState, Spent
from midflight.view.data import RunSheet, RunView

WORTH_SAYING: Final = 0.5  # of caps that are hardly used, which is fuller changes all the time
BY_CLOCK_S: Final = 120  # from here on seconds are read as minutes
UNPRICED: Final = " + unpriced"  # the cost of some calls is not known: the sum is not all of it


def clock(seconds: float) -> str:
    """``02:01``, or ``1:02:01`` from an hour on."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def money(usd: float) -> str:
    """Return an amount in dollars; one that would round to nothing is shown as ``<$0.01``."""
    return "<$0.01" if 0 < usd < 0.005 else f"${usd:.2f}"


def count(number: float) -> str:
    """``9999``, ``12.3k``, ``2.0M``; never rounded up, so that what is near a cap is not at it."""
    if number < 10_000:
        return str(int(number))
    size, unit = (1_000_000, "M") if number >= 1_000_000 else (1_000, "k")
    return f"{int(number * 10 // size) / 10:.1f}{unit}"


def figure(meter: Meter) -> str:
    """``$0.42 of $2.00``, ``2 of 2 steps``, ``58 of 60 s``, ``time 09:40 of 10:00``."""
    used, cap = meter.used, meter.cap
    match meter.name:
        case "usd":
            return f"{money(used)} of {money(cap)}"
        case "seconds" if cap < BY_CLOCK_S:
            return f"{_seconds(used)} of {cap:g} s"
        case "seconds":
            return f"time {clock(used)} of {clock(cap)}"
        case name:
            return f"{count(used)} of {count(cap)} {_noun(name, cap)}"


def cap_words(meter: Meter, spent: Spent) -> str:
    """A cap and how full it is; of money also whether that is all of it."""
    return figure(meter) + UNPRICED * (meter.name == "usd" and bool(spent.unpriced))


def elapsed(sheet: RunSheet, now: float) -> float:
    """Return a run's seconds in motion, up to now while it moves and somebody drives it."""
    ticks = sheet.moving_since is not None and sheet.undriven_since is None
    return sheet.spent.seconds + (max(0.0, now - sheet.updated_at) if ticks else 0.0)


def nearest(sheet: RunSheet, now: float) -> Meter | None:
    """Return the fullest cap, if any, with the time up to now; of equal ones the cap on money."""
    running = elapsed(sheet, now)
    meters = [replace(one, used=running) if one.name == "seconds" else one for one in sheet.meters]
    return max(meters, key=lambda one: (one.share, one.name == "usd"), default=None)


def is_near(meter: Meter | None) -> bool:
    """Return whether a cap is to be marked as near: from here on the run itself is warned."""
    return meter is not None and meter.share >= WARN_AT


def spent_words(sheet: RunSheet) -> str:
    """Return the money spent where it is known or capped, else the tokens, with the cap if any."""
    name, spent = _unit(sheet), sheet.spent
    used, cap = getattr(spent, name), getattr(sheet.limits, name)
    if cap is not None:
        return cap_words(Meter(name, used, cap), spent)
    if name == "usd":
        return money(used) + UNPRICED * bool(spent.unpriced)
    return f"{count(used)} {_noun(name, used)}" if used else ""


def spending(sheet: RunSheet, now: float) -> str:
    """Return what was spent in words, and the nearest cap if that is a cap on something else.

    While no cap is half full, the one on what is shown anyway says enough: a line has little room.
    """
    spent, name, near = spent_words(sheet), _unit(sheet), nearest(sheet, now)
    if near is None or near.name == name:
        return spent
    if near.share < WORTH_SAYING and getattr(sheet.limits, name) is not None:
        return spent
    return "  ".join(filter(None, [spent, figure(near)]))


def _unit(sheet: RunSheet) -> str:
    return "usd" if sheet.spent.usd or sheet.limits.usd is not None else "tokens"


def _noun(name: str, number: float) -> str:
    plural = name.replace("_", " ")
    return plural.removesuffix("s") if number == 1 else plural


def _seconds(number: float) -> str:
    """Return whole seconds, rounded down as a clock does; below one second its tenths."""
    return f"{int(number * 10) / 10:g}" if number < 1 else str(int(number))


# ── higher caps ──────────────────────────────────────────────────────────────────────────────

CAP: Final = "cap"  # the kind of a question that a higher cap answers
GROW: Final = 2  # a cap that is reached is offered twice as high


def raised(sheet: RunView) -> dict[str, float]:
    """Return caps that would let a run go on for as long again.

    These are the cap that holds the run, or else those that are nearly reached. There are no
    others: a person who sends the form as it is raises what stops the run, and nothing besides.
    """
    held_by = next((one.cap for one in sheet.questions if one.cap), "")
    return _raised(sheet.limits, sheet.meters, held_by)


def raised_of(state: RunState, now: float) -> dict[str, float]:
    """Return the same as ``raised``, for a run without a sheet at hand."""
    held_by = next((cap_in(one)[0] for one in state.questions.values() if one.kind == CAP), "")
    return _raised(state.limits, meters(state, now), held_by)


def typed(cap: float) -> str:
    """A cap as it can be typed: all its digits, and no power of ten in it."""
    return f"{cap:.15g}"


def cap_in(asked: QuestionOpened | Question) -> tuple[str, str]:
    """Return the name of the cap that a question is about, and why it holds the run.

    A journal has both in one text, as "usd: the cap of 2 is reached. Raise it to go on." This is
    the only place that takes it apart.
    """
    name, _, words = asked.message.partition(":")
    return name.replace(" ", "_"), words.partition(". ")[0].strip()


def _raised(limits: Limits, full: Iterable[Meter], held_by: str) -> dict[str, float]:
    near = [meter.name for meter in full if meter.share >= WARN_AT]
    names = [held_by] if held_by in Limits.__struct_fields__ else near
    caps = {name: getattr(limits, name) for name in names}
    return {name: max(1, cap * GROW) for name, cap in caps.items() if cap is not None}
