"""Values as people read them: texts of others, results in a line, time, money, counts and caps."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from midflight.journal.events import QuestionOpened
from midflight.journal.limits import WARN_AT, Meter, meters
from midflight.journal.record import Blob, Limits
from midflight.journal.state import Question, RunState, Spent
from midflight.view.data import RunSheet, RunView

HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
"""Categories of Unicode that show nothing, or what a font happens to show."""
FILLERS: Final = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)
VARIANTS: Final = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
BLANK: Final = frozenset({*FILLERS, *VARIANTS})
"""Letters, marks and signs that show nothing all the same."""
SEEN: Final = frozenset(" \n")
JOINS: Final = frozenset("\u200d\ufe0f")  # inside an emoji they are a part of what is seen
PLAIN: Final = re.compile(r"[\w.-](?:[\w .-]*[\w.-])?")


def exactly(text: str) -> str:
    """Return the text as it is if all of it can be seen; otherwise quoted, with escapes."""
    quoted = text[:1] == '"' or text != text.strip() or not text
    if not quoted and (text.isascii() and text.isprintable()):
        return text
    parts = [_escape(char) if _is_hidden(text, at) else char for at, char in enumerate(text)]
    if not quoted and all(len(part) == 1 for part in parts):
        return text
    marks = {"\\": "\\\\", '"': '\\"'}
    return f'"{"".join(marks.get(part, part) for part in parts)}"'


def value_exactly(value: Any) -> str:
    """Return a value as it is shown: text as ``exactly`` says, anything else as JSON."""
    if isinstance(value, str):
        return exactly(value)
    encoded = msgspec.json.encode(value).decode()
    if encoded.isascii() and encoded.isprintable():
        return encoded
    return "".join(
        _escape(char) if _is_hidden(encoded, at) else char for at, char in enumerate(encoded)
    )


def name_exactly(name: str) -> str:
    """Return the name of an argument; one that could be taken for more than a name is quoted."""
    shown = exactly(name)
    return shown if PLAIN.fullmatch(name) or shown[:1] == '"' else f'"{_within_quotes(name)}"'


def _within_quotes(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _is_hidden(text: str, at: int) -> bool:
    char = text[at]
    if char in SEEN or not _shows_nothing(char):
        return False
    return not (char in JOINS and at > 0 and _is_of_emoji(text[at - 1]))


@cache
def _shows_nothing(char: str) -> bool:
    return unicodedata.category(char) in HIDDEN or ord(char) in BLANK  # layer what-approved-hides


def _is_of_emoji(char: str) -> bool:
    return char in JOINS or unicodedata.category(char) in {"So", "Sk"}


def _escape(char: str) -> str:
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"


WIDTH: Final = 140
READ_MAX: Final = 64 * 1024  # larger ones are not decoded only to be shortened
NAMED_MAX: Final = 4  # members of an object that are named
STOPPED: Final = {
    "aborted: paused": "Stopped by the pause, begins again at the resume",
    "aborted: redirected": "Stopped by the redirect",
    "aborted: cancelled": "Stopped by the cancel",
    "aborted: killed": "Stopped by the kill switch",
    "aborted: stopped by a person": "Stopped by a person",
}
"""The errors of calls that somebody ended, as a journal has them -> in words for people."""


def short(text: str, width: int = WIDTH) -> str:
    """The first line that says something, cut where it gets long."""
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    return line if len(line) <= width else f"{line[: width - 1]}…"


def stopped(error: str) -> str:
    """Why a step has ended, as a person would say it; other errors as they are."""
    return STOPPED.get(error, error)


def summary(result: Raw, blob: Blob | None = None) -> str:
    """Return the result of a step in one line; a large one only by its size."""
    if blob is not None:
        return f"{_size(blob.size)}, on record"
    raw = bytes(result)
    if len(raw) > READ_MAX:
        return f"{_size(len(raw))}, on record"
    return short(_said(msgspec.json.decode(raw)))


def _said(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case list():
            return _listed(value)
        case {"text": str(text)} if text.strip():
            return text
        case dict():
            return _named(value)
        case _:
            return str(value)


def _listed(values: list[Any]) -> str:
    if all(isinstance(one, str | int | float) for one in values) and len(values) <= NAMED_MAX:
        return ", ".join(str(one) for one in values)
    return f"{len(values)} item{'s' * (len(values) != 1)}"


def _named(members: dict[str, Any]) -> str:
    plain = {name: one for name, one in members.items() if isinstance(one, str | int | float)}
    told = [f"{name} {_said(one)}" for name, one in list(plain.items())[:NAMED_MAX]]
    rest = len(members) - len(told)
    return ", ".join(told + ([f"{rest} more"] if rest and told else []))


def _size(count: int) -> str:
    return f"{count / 1000:.0f} kB" if count >= 1000 else f"{count} bytes"


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
