"""Text of others, shown so that nothing in it is hidden: what a person approves is what they read.

A terminal obeys control characters, a page and a chat show nothing in place of many others, and
some turn the direction of reading. Text that holds none of them is shown as it is, with its line
breaks. Other text stands in quotes, with an escape in place of each such character; line breaks
stay. ``json.loads(…, strict=False)`` gives the text back, and so do the names of arguments.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from typing import Any, Final

import msgspec

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
