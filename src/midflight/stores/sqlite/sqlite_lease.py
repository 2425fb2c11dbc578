"""Leases on one host: a lock that the operating system gives back at death, however it comes.

A process that could take a driver's lock has proof that the driver is dead, and need not guess.
Each driver has a byte of the store's file for its lock, far behind where data can be: whichever
path leads to the file, everybody looks at the same lock, and no lock file can be deleted.

Systems that have no locks on bytes of a file use lock files in a folder. The rules above hold for
them too, as long as nobody deletes the folder. If somebody does, the store that holds a lease
notices it before its next acknowledgement.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

from midflight.journal.facts import check_driver_name, is_driver_name
from midflight.stores.protocol import name_taken
from midflight.stores.sqlite.locks import ByteLock, close, open_alone
from midflight.stores.sqlite.sqlite_hold import Hold

FIRST: Final = 1 << 62  # the byte where the drivers' begin


class FileLease:
    """A lease that is held until its block ends or the process does."""

    def __init__(self, driver: str, lock: int) -> None:
        self.driver = driver
        self.held = True
        self.proven = True
        self.lock = lock


class Leases(Protocol):
    """The locks of all drivers of one store."""

    def hold(self, driver: str) -> AbstractContextManager[FileLease]:
        """Hold the lease of a driver while the block runs."""

    def gone(self, driver: str) -> bool:
        """Return whether that driver is proven dead."""


class ByteLeases:
    """See ``Leases``. Each lock has a descriptor of its own: supervisors of tools hold it too."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._looking = hold.descriptor()

    @contextmanager
    def hold(self, driver: str) -> Iterator[FileLease]:
        """See ``Leases.hold``."""
        check_driver_name(driver)
        fd = self._hold.descriptor()
        lock = ByteLock(fd, _byte_of(driver))
        lease = FileLease(driver, fd)
        try:
            if not lock.take(wait=False):  # layer lease-lock
                raise name_taken(driver)
            yield lease
        finally:
            lease.held = False
            self._hold.give_back(fd, lock)

    def gone(self, driver: str) -> bool:
        """See ``Leases.gone``. It takes no lock, so looking is in nobody's way."""
        return not ByteLock(self._looking, _byte_of(driver)).is_taken()  # layer driver-lives


def _byte_of(driver: str) -> int:
    name = driver.encode(errors="surrogatepass")
    return FIRST + (int.from_bytes(blake2b(name, digest_size=8).digest(), "big") >> 3)


TRIES_MAX: Final = 10
TRY_AGAIN_S: Final = 0.002


class FolderLeases:
    """See ``Leases``: the lock files of all drivers of one store."""

    def __init__(self, folder: Path, store: Hold | None = None) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._store = store
        self._mine: set[str] = set()
        self._clear_away_the_dead()

    def _clear_away_the_dead(self) -> None:
        """Remove the files of drivers that were killed; under their lock, so nobody loses one."""
        for path in self._folder.glob("*.lock"):
            with suppress(OSError):
                handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # layer file-of-living
                    if os.path.samestat(os.fstat(handle), path.stat()):  # layer clears-away-looks
                        path.unlink()  # else a new driver of that name has just begun
                finally:
                    os.close(handle)

    @contextmanager
    def hold(self, driver: str) -> Iterator[FileLease]:
        """Hold the lease of a driver while the block runs."""
        check_driver_name(driver)
        handle = self._locked(driver)
        lease = FileLease(driver, handle)
        self._mine.add(driver)
        if self._store is not None:
            self._store.keep_lock_file(str(self._path(driver)), handle)
        try:
            yield lease
        finally:
            lease.held = False
            if self._store is not None:
                self._store.free_lock_file(str(self._path(driver)))
            self._mine.discard(driver)
            self._path(driver).unlink(missing_ok=True)
            close(handle)

    def _locked(self, driver: str) -> int:
        path = self._path(driver)
        for _ in range(TRIES_MAX):
            handle = open_alone(path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # layer lease-held-only-under-name-others
                if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                    return handle  # else its last holder has just removed it: nobody would see us
            except (BlockingIOError, FileNotFoundError):
                time.sleep(TRY_AGAIN_S)  # somebody may only be looking
            close(handle)
        raise name_taken(driver)

    def gone(self, driver: str) -> bool:
        """Return whether a driver is proven dead. Remove nothing: a file may have a new holder."""
        if driver in self._mine:
            return False
        if not is_driver_name(driver):  # layer name-cannot-driver-leads-nowhere
            return True  # nobody can hold it, and its path would lead anywhere
        try:
            handle = os.open(self._path(driver), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(handle)
        return True

    def _path(self, driver: str) -> Path:
        return self._folder / f"{driver}.lock"
