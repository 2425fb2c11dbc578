"""Leases on one host: a file lock that the operating system gives back at death, however it comes.

Whoever can take a driver's lock has proof that the driver is dead; nobody needs to guess by time.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from midflight.errors import InvalidRequest


class FileLease:
    """Held until its block ends or the process does."""

    def __init__(self, driver: str) -> None:
        self.driver = driver
        self.held = True


class Leases:
    """The lock files of all drivers of one store."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._mine: set[str] = set()

    @contextmanager
    def hold(self, driver: str) -> Iterator[FileLease]:
        """Be that driver."""
        lease = FileLease(driver)
        handle = os.open(self._path(driver), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise InvalidRequest(f"driver {driver} is alive already; take another name.") from None
        self._mine.add(driver)
        try:
            yield lease
        finally:
            lease.held = False
            self._mine.discard(driver)
            self._path(driver).unlink(missing_ok=True)
            os.close(handle)

    def gone(self, driver: str) -> bool:
        """Whether that driver is proven dead."""
        if driver in self._mine:
            return False
        try:
            handle = os.open(self._path(driver), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._path(driver).unlink(missing_ok=True)
        except BlockingIOError:
            return False
        finally:
            os.close(handle)
        return True

    def _path(self, driver: str) -> Path:
        if not driver or "/" in driver or driver.startswith("."):
            raise InvalidRequest(f"{driver!r} cannot be the name of a driver.")
        return self._folder / f"{driver}.lock"
