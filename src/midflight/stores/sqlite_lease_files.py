"""Leases of drivers as files in a folder, for systems that have no locks on bytes of a file.

What is said in ``sqlite_lease`` is true of them too, as long as nobody deletes the folder. If
somebody does, the store that holds a lease notices it before its next acknowledgement.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from midflight.errors import InvalidRequest
from midflight.kernel.facts import check_driver_name, is_driver_name
from midflight.stores.descriptors import close, open_alone
from midflight.stores.sqlite_hold import Hold
from midflight.stores.sqlite_lease import FileLease

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
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if os.path.samestat(os.fstat(handle), path.stat()):
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
                if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                    return handle  # else its last holder has just removed it: nobody would see us
            except (BlockingIOError, FileNotFoundError):
                time.sleep(TRY_AGAIN_S)  # somebody may only be looking
            close(handle)
        raise InvalidRequest(f"driver {driver} is alive already; take another name.")

    def gone(self, driver: str) -> bool:
        """Return whether a driver is proven dead. Remove nothing: a file may have a new holder."""
        if driver in self._mine:
            return False
        if not is_driver_name(driver):
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
