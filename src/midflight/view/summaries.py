"""A result or a brief in one short line."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from midflight.kernel.record import Blob

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
