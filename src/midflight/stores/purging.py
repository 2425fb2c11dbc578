"""Finds the ended runs that may be removed: no run that stays may still need them.

A fork owns nothing of what it took over: as often as it is driven, also to be recovered or undone,
it reads its source, and the source of that, down to the first of its line. A run needs the runs
that it has begun: it reads how they ended, and an undo of it reaches down to what they did.
"""

from __future__ import annotations

from collections.abc import Iterable

Need = tuple[str, str]
"""A run, and one that it needs: a fork and its source, or a run and one that it has begun."""


def not_needed(ended: Iterable[str], needs: Iterable[Need]) -> list[str]:
    """Return those of them that may go at once, given what the runs that are there need."""
    going, known = dict.fromkeys(ended), list(needs)
    while needed := {other for run, other in known if run not in going and other in going}:
        for run in needed:
            del going[run]
    return list(going)
