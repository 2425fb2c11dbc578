"""Which of the runs that have ended may go: none that a run which stays was forked from.

A fork owns nothing of what it took over: as often as it is driven, also to be recovered or undone,
it reads its source, and the source of that, down to the first of its line.
"""

from __future__ import annotations

from collections.abc import Iterable

Fork = tuple[str, str]
"""A run, and the one it was forked from."""


def not_needed(ended: Iterable[str], forks: Iterable[Fork]) -> list[str]:
    """Those of them that may go at once, given the forks that are there."""
    going, known = dict.fromkeys(ended), list(forks)
    while needed := {source for fork, source in known if fork not in going and source in going}:
        for source in needed:
            del going[source]
    return list(going)
