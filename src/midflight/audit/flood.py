"""Bounds the refusals of one source that are recorded one by one.

Anybody can send requests that are refused. Of one source the first few in a window are recorded;
the rest are counted, and the count is recorded once when the window is over. The number of sources
that are remembered is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

EACH: Final = 10  # records of one source in a window
IN_ALL: Final = 100  # of all sources together: of strangers, and again of callers that are known
WINDOW_S: Final = 60.0
SOURCES_MAX: Final = 1_000
COUNTED_MAX: Final = 50  # counts that are recorded at the end of a window; others are added up
OTHERS: Final = "other addresses"
"""The source of what comes when too many are remembered."""


class _Window(Struct):
    since: float
    until: float
    recorded: int = 0
    more: int = 0


class Counted(Struct, frozen=True):
    """So many refusals of a source were counted and not recorded one by one."""

    source: str
    more: int
    since: float
    until: float


class Flood:
    """Decides which refusals are recorded."""

    def __init__(
        self, clock: Callable[[], float], *, each: int = EACH, in_all: int = IN_ALL
    ) -> None:
        self._clock = clock
        self._each, self._in_all = each, in_all
        self._windows: dict[str, _Window] = {}
        self._all = _Window(0.0, 0.0)

    def __len__(self) -> int:
        """Return the number of sources that are remembered."""
        return len(self._windows)

    def admits(self, source: str) -> bool:
        """Return whether this refusal is to be recorded; if not, it is counted."""
        now = self._clock()
        if now - self._all.since >= WINDOW_S:
            self._all = _Window(now, now)
        if source not in self._windows and len(self._windows) >= SOURCES_MAX:
            source = OTHERS
        window = self._windows.setdefault(source, _Window(now, now))
        window.until = now
        if window.recorded < self._each and self._all.recorded < self._in_all:
            window.recorded += 1
            self._all.recorded += 1
            return True
        window.more += 1
        return False

    def over(self, *, all_of_them: bool = False) -> list[Counted]:
        """Return what was counted in windows that are over, and begin these anew."""
        now = self._clock()
        found: list[Counted] = []
        for source, window in list(self._windows.items()):
            if all_of_them or now - window.since >= WINDOW_S:
                del self._windows[source]
                if window.more:
                    found.append(Counted(source, window.more, window.since, window.until))
        return _added_up(found)


def _added_up(found: list[Counted]) -> list[Counted]:
    """Return the largest counts, and the rest as one."""
    found.sort(key=lambda counted: counted.more, reverse=True)
    kept, rest = found[:COUNTED_MAX], found[COUNTED_MAX:]
    if not rest:
        return kept
    more = sum(counted.more for counted in rest)
    since, until = min(c.since for c in rest), max(c.until for c in rest)
    return [*kept, Counted(OTHERS, more, since, until)]
