"""Splits a long text into pieces that a chat takes, and keeps code blocks readable."""

from __future__ import annotations

import re
from typing import Final

FENCE: Final = re.compile(r"`{3,16}|^ {0,3}~{3,16}")  # chats take ticks in the middle of a line too
LANGUAGE: Final = re.compile(r"[\w+#.-]{1,24}")
SPARE: Final = 64  # what opening a block again and closing it take, and a little more


def split(text: str, limit: int) -> list[str]:
    """Return pieces of at most ``limit`` characters, cut at lines where that is possible.

    A code block that goes over a cut is closed before it and opened again behind it, with its
    language, so that each piece reads as what it is.
    """
    if len(text) <= limit:
        return [text] if text else []
    assert limit > 2 * SPARE
    pieces: list[str] = []
    held: list[str] = []
    size, fence, opening = 0, "", ""
    for line in _lines(text, limit - SPARE):
        then, reopening = _fenced(line, fence, opening)
        room = limit - len(then) - 1  # or there would be none left to close it
        if held and size + len(line) > room:
            pieces.append("\n".join([*held, fence] if fence else held))
            held = [opening] if fence else []
            size = len(opening) + 1 if fence else 0
        held.append(line)
        size += len(line) + 1
        fence, opening = then, reopening
    pieces.append("\n".join(held))
    return [piece for piece in pieces if piece.strip()]


def _lines(text: str, longest: int) -> list[str]:
    """Return lines; one that is longer than a piece is cut at a space, or anywhere."""
    found = []
    for line in text.split("\n"):
        while len(line) > longest:
            cut = line.rfind(" ", longest // 2, longest)
            cut = cut if cut > 0 else longest
            while cut > longest // 2 and line[cut - 1 : cut + 1] == "``":
                cut -= 1  # or half a fence would stand on each side
            found.append(line[:cut])
            line = line[cut:].removeprefix(" ")
        found.append(line)
    return found


def _fenced(line: str, fence: str, opening: str) -> tuple[str, str]:
    """Return the code block that is open behind this line: its end and its beginning."""
    for found in FENCE.finditer(line):
        ticks = found[0].strip()
        if not fence:
            behind = line[found.end() :].strip()
            fence, opening = ticks, ticks + (behind if LANGUAGE.fullmatch(behind) else "")
        elif ticks.startswith(fence):
            fence, opening = "", ""
    return fence, opening
