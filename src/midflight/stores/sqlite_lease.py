"""Leases on one host: a lock that the operating system gives back at death, however it comes.

A process that could take a driver's lock has proof that the driver is dead, and need not guess.
Each driver has a byte of the store's file for its lock, far behind where data can be: whichever
path leads to the file, everybody looks at the same lock, and no lock file can be deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from typing import Final, Protocol

from midflight.errors import InvalidRequest
from midflight.kernel.facts import check_driver_name
from midflight.stores.locks import ByteLock
from midflight.stores.sqlite_hold import Hold

FIRST: Final = 1 << 62  # the byte where the drivers' begin


class FileLease:
    """Held until its block ends or the process does."""

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
            if not lock.take(wait=False):
                raise InvalidRequest(f"driver {driver} is alive already; take another name.")
            yield lease
        finally:
            lease.held = False
            self._hold.give_back(fd, lock)

    def gone(self, driver: str) -> bool:
        """See ``Leases.gone``. It takes no lock, so looking is in nobody's way."""
        return not ByteLock(self._looking, _byte_of(driver)).is_taken()


def _byte_of(driver: str) -> int:
    name = driver.encode(errors="surrogatepass")
    return FIRST + (int.from_bytes(blake2b(name, digest_size=8).digest(), "big") >> 3)
