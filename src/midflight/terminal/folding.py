"""Long lists with their middle folded: the first, the last and the marked entries are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

FIRST: Final = 5
LAST: Final = 15
SHORT: Final = 40  # a list of so many is shown whole
MARKED_MAX: Final = 20


def folded(count: int, marked: Iterable[int] = (), *, whole: bool = False) -> Iterator[int | range]:
    """Yield the places of a list in order; a range stands for a stretch that is folded.

    ``marked`` are places that are shown wherever they are, the last of them if there are many.
    """
    if whole or count <= SHORT:
        yield from range(count)
        return
    shown = {*range(FIRST), *range(count - LAST, count), *list(marked)[-MARKED_MAX:]}
    after = 0
    for place in sorted(shown):
        if place - after == 1:  # a fold of one entry takes as much room as the entry
            yield after
        elif place > after:
            yield range(after, place)
        yield place
        after = place + 1


def more(hidden: range, noun: str, how: str) -> str:
    """Return the line for a folded stretch: ``… 1,960 more steps (--all)``."""
    return f"… {len(hidden):,} more {noun}{'s' * (len(hidden) != 1)} ({how})"
