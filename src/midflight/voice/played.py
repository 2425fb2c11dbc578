"""What was heard of a text, told from how many samples of its speech were played. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from midflight.voice.seams import Mark

ENDS: Final = re.compile(r"[.!?…:;]+[\"')\]\u201d\u2019]*\s+|\n+")
CLAUSE_MAX: Final = 160  # characters that are spoken in one go; the first sound must come soon
SIGNS: Final = re.compile(r"[*_`#>|~\\]")


def heard_of(text: str, marks: Sequence[Mark], samples: int, played: int) -> str:
    """The words of which at least a half was played, as they stand in the text.

    ``samples`` is how long the whole of it takes. Without marks each character takes as long as any
    other, and the last word is counted if more than a half of it was due.
    """
    if played >= samples:
        return text
    spans = list(_spans(text, marks, samples))
    upto = 0
    for start, end, _, until in spans:
        if (start + end) / 2 > played:
            break
        upto = until
    return text[:upto].rstrip()


def _spans(
    text: str, marks: Sequence[Mark], samples: int
) -> Iterable[tuple[float, float, int, int]]:
    """From which sample to which, and which characters, for each word."""
    words = [(found.start(), found.end()) for found in re.finditer(r"\S+", text)]
    if not marks:
        each = samples / max(len(text), 1)
        return [(each * at, each * until, at, until) for at, until in words]
    starts = [(at, until, _begins(at, until, marks)) for at, until in words]
    spans: list[tuple[float, float, int, int]] = []
    for number, (at, until, begins) in enumerate(starts):
        later = (begun for *_, begun in starts[number + 1 :] if begun is not None)
        ends = next(later, samples)
        if begins is None:  # spoken in one with the word before it
            spans.append((spans[-1][0], spans[-1][1], at, until) if spans else (0, ends, at, until))
        else:
            spans.append((begins, ends, at, until))
    return spans


def _begins(at: int, until: int, marks: Sequence[Mark]) -> int | None:
    inside = [mark.sample for mark in marks if at <= mark.at < until]
    return min(inside) if inside else None


def clauses(text: str, *, whole: bool) -> tuple[list[str], str]:
    """The clauses that can be spoken, and the rest that waits for its end. Nothing is lost."""
    found, start = [], 0
    for end in ENDS.finditer(text):
        found.append(text[start : end.end()])
        start = end.end()
    rest = text[start:]
    while len(rest) > CLAUSE_MAX:
        cut = max(rest.rfind(", ", 0, CLAUSE_MAX) + 2, rest.rfind(" ", 0, CLAUSE_MAX) + 1)
        cut = cut if cut > CLAUSE_MAX // 4 else CLAUSE_MAX
        found.append(rest[:cut])
        rest = rest[cut:]
    if whole and rest:
        found.append(rest)
        rest = ""
    return found, rest


def speakable(text: str) -> str:
    """Without the signs of Markdown, each of them a space: places stay what they are."""
    return SIGNS.sub(" ", text)
