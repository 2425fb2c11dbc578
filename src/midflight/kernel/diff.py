"""One line that says what a person has changed."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

import msgspec
from msgspec import Struct

from midflight.kernel.record import Limits

DIFF_WIDTH: Final = 160  # one line of the page; the full text is a tap away


class Piece(Struct, frozen=True):
    """Some words that were kept, removed or added."""

    kind: str  # "same" | "removed" | "added"
    text: str


def word_diff(old: str, new: str) -> tuple[Piece, ...]:
    """Return the change from ``old`` to ``new``, by words."""
    before, after = old.split(), new.split()
    pieces: list[Piece] = []
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            pieces.append(Piece("same", " ".join(before[a:b])))
            continue
        if a < b:
            pieces.append(Piece("removed", " ".join(before[a:b])))
        if c < d:
            pieces.append(Piece("added", " ".join(after[c:d])))
    return tuple(pieces)


def one_line(old: str, new: str) -> str:
    """Return the change as text: removed words between ``~``, added ones between ``=``."""
    marks = {"same": ("", ""), "removed": ("~", "~"), "added": ("=", "=")}
    words = (f"{marks[p.kind][0]}{p.text}{marks[p.kind][1]}" for p in word_diff(old, new))
    line = " ".join(words)
    return line if len(line) <= DIFF_WIDTH else line[: DIFF_WIDTH - 1] + "…"


def changed_meanwhile(
    brief: tuple[str, str],
    limits: tuple[Limits, Limits],
    *,
    answers: Sequence[str] = (),
    messages: int = 0,
) -> str:
    """Return the line that a resume shows: before and after of what the person could change."""
    parts = []
    if brief[0] != brief[1]:
        parts.append(one_line(*brief))
    old, new = (msgspec.structs.asdict(side) for side in limits)
    parts += [f"{name} cap {old[name]} → {new[name]}" for name in new if old[name] != new[name]]
    parts += [f"answered {answer!r}" for answer in answers]
    if messages:
        parts.append(f"{messages} new message{'s' if messages > 1 else ''}")
    return "; ".join(parts) or "nothing changed"
