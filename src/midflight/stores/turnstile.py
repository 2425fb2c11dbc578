"""A fair queue for the writers of one SQLite file, across processes.

SQLite has no queue: a process that commits back to back starves another for seconds (16.8 s were
seen). Two file locks make one. Whoever waits for the gate holds the door, so whoever just left the
gate must get in line behind them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Turnstile:
    """One per process and store; used by whoever holds the writer's desk."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._door = os.open(folder / "door", flags, 0o600)
        self._gate = os.open(folder / "gate", flags, 0o600)

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Wait for one's turn. The locks go with the process, however it ends."""
        self._enter(fcntl.LOCK_EX)
        try:
            yield
        finally:
            self.leave()

    def enter_at_once(self) -> bool:
        """Take one's turn if nobody else is there or waits. Whoever is let in must ``leave``."""
        try:
            self._enter(fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _enter(self, how: int) -> None:
        fcntl.flock(self._door, how)
        try:
            fcntl.flock(self._gate, how)
        finally:
            fcntl.flock(self._door, fcntl.LOCK_UN)

    def leave(self) -> None:
        """Let the next one in."""
        fcntl.flock(self._gate, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the files back."""
        os.close(self._door)
        os.close(self._gate)
