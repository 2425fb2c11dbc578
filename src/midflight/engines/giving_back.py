"""Gives memory of runs that were let go back to the system.

The C library keeps freed memory below whatever lies on top of it until it is asked for it, and
after ten thousand runs that is tens of megabytes. Asking costs a few milliseconds, so it is done
rarely.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

MANY: Final = 1000  # runs let go, at about 30 kB each


class GivingBack:
    """Counts runs that were let go, and gives their memory back once there were many."""

    def __init__(self) -> None:
        self._trim = _trim()
        self._let_go = 0

    def let_go(self) -> None:
        """A run has left this process."""
        self._let_go += 1

    def look(self) -> None:
        """Give back what is worth it. Called now and then."""
        if self._let_go >= MANY:
            self._let_go = 0
            self._trim()


def _trim() -> Callable[[], None]:
    """Return glibc's ``malloc_trim``, or elsewhere a function that does nothing."""
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda: None
    return lambda: malloc_trim(0)
