"""Text of others, shown so that nothing in it is hidden; and results in one short line."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Raw

from midflight.journal.record import Blob

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
    return unicodedata.category(char) in HIDDEN or ord(char) in BLANK


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
