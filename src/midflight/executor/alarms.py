"""Tells calls that they have taken too long: one timer of the loop for all calls in all runs.

Most calls end long before their time, so each costs an entry here and no timer of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Final, Protocol

PER_ENTRY_S: Final = 1e-5  # between looks: one takes a tenth of a microsecond an entry


class Timed(Protocol):
    """Something that may take too long."""

    def ring(self, now: float) -> float | None:
        """Its time has come, by the loop's clock. Returns when to look again, if ever."""


def _where_anyio_knows_the_loop() -> contextvars.Context:
    """A context to begin tasks in, also from a callback of the loop.

    Where sniffio is installed, as beside many SDKs, anyio asks it, and it knows the loop of a task
    only.
    """
    context = contextvars.copy_context()
    try:
        from sniffio import current_async_library_cvar
    except ImportError:
        return context
    context.run(current_async_library_cvar.set, "asyncio")
    return context


class Alarms:
    """Of one engine, and closed with it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()  # in which the loop runs
        self._due: dict[Timed, float] = {}
        self._timers: list[asyncio.TimerHandle] = []  # the soonest last
        self._context = contextvars.copy_context()  # not that of the code that sets a timer
        self.home = _where_anyio_knows_the_loop()

    def set(self, timed: Timed, due: float) -> None:
        """Ring it at this time of the loop's clock, unless it is dropped before."""
        self._due[timed] = due
        self._look_at(due)

    def drop(self, timed: Timed) -> None:
        """It has ended. The timer stays: the next one to begin will want it."""
        self._due.pop(timed, None)

    def close(self) -> None:
        """Ring no more."""
        self._due.clear()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _look_at(self, due: float) -> None:
        """Unless somebody looks before. A later timer stays: a loop keeps what is cancelled."""
        if not self._timers or due < self._timers[-1].when():
            timer = self.loop.call_at(due, self._look, context=self._context)
            self._timers.append(timer)

    def _look(self) -> None:
        now = max(self._timers.pop().when(), self.loop.time())
        for timed in [timed for timed, due in self._due.items() if due <= now]:
            later = timed.ring(now)
            if later is None:
                self.drop(timed)
            else:
                self._due[timed] = later
        if self._due:  # very many are not looked at each time that one of them is due
            soonest = now + PER_ENTRY_S * len(self._due)
            self._look_at(max(soonest, min(self._due.values())))
