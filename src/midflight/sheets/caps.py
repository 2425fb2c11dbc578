"""The cap that is nearest, and how a person reads it."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from midflight.kernel.limits import WARN_AT, Meter
from midflight.sheets.shapes import RunSheet

WORTH_SAYING: Final = 0.5  # of five caps that are hardly used, which is fuller changes all the time
BY_CLOCK_S: Final = 120  # from here on seconds are read as minutes


def nearest(sheet: RunSheet, seconds: float) -> Meter | None:
    """The fullest meter; while none is half full, that of money. ``seconds`` in motion go on."""
    meters = [replace(one, used=seconds) if one.name == "seconds" else one for one in sheet.meters]
    fullest = max(meters, key=lambda one: (one.share, one.name == "usd"), default=None)
    money = next((one for one in meters if one.name == "usd"), None)
    return money if money and fullest and fullest.share < WORTH_SAYING else fullest


def is_near(meter: Meter | None) -> bool:
    """Whether it is to be marked: from here on the run itself is warned."""
    return meter is not None and meter.share >= WARN_AT


def figure(meter: Meter) -> str:
    """``$0.42 of $2.00``, ``2 of 2 steps``, ``58 of 60 s``, ``time 9:40 of 10:00``."""
    used, cap = meter.used, meter.cap
    match meter.name:
        case "usd":
            return f"${used:.2f} of ${cap:.2f}"
        case "seconds" if cap < BY_CLOCK_S:
            return f"{int(used)} of {cap:g} s"
        case "seconds":
            return f"time {_clock(used)} of {_clock(cap)}"
        case name:
            words = name.replace("_", " ")
            return f"{used:,.0f} of {cap:,.0f} {words.removesuffix('s') if cap == 1 else words}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return (
        f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
        if minutes >= 60
        else f"{minutes}:{rest:02d}"
    )
