"""When something of a run has taken too long: one timer of the loop for all that is under way.

Most calls end long before their time, so each costs an entry here and no timer of its own.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Protocol


class Timed(Protocol):
    """Something that may take too long."""

    def ring(self, now: float) -> float | None:
        """Its time has come, by the loop's clock. Returns when to look again, if ever."""


class Alarms:
    """Of one driver, and closed with it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()  # in which the loop runs
        self._due: dict[Timed, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = 0.0

    def set(self, timed: Timed, due: float) -> None:
        """Ring it at this time of the loop's clock, unless it is dropped before."""
        self._due[timed] = due
        if self._timer is None or due < self._looks_at:
            self._look_at(due)

    def drop(self, timed: Timed) -> None:
        """It has ended. The timer stays: the next one to begin will want it."""
        self._due.pop(timed, None)

    def close(self) -> None:
        """Ring no more."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_at(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at, self._timer = due, self.loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer, now = None, self._looks_at
        for timed in [timed for timed, due in self._due.items() if due <= now]:
            later = timed.ring(now)
            if later is None:
                self.drop(timed)
            else:
                self._due[timed] = later
        if self._due:
            self._look_at(min(self._due.values()))
