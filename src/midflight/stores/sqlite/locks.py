"""Locks that belong to an open file and not to a process, and a fair queue made of two of them.

A ``ByteLock`` is an *open file description* lock on a range of bytes of a file. It is held until it
is freed or until every descriptor of that one opening is closed. In contrast to the POSIX locks
that SQLite uses, it is not dropped when the process closes another descriptor of the file, but it
keeps POSIX locks of anybody out, also of the same process. Linux has such locks.

A ``FileLock`` locks a whole file that exists for nothing else. It is used where the system has no
open file description locks.

SQLite has no queue: a process that commits back to back starves another for seconds (16.8 s were
seen). A ``Turnstile`` makes one of two locks. A process that waits for the gate holds the door, so
a process that has just left the gate must get in line behind it.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from midflight.stores.sqlite.descriptors import close, open_alone

HAS_BYTE_LOCKS: Final = (
    sys.platform == "linux" and sys.maxsize > 1 << 32 and hasattr(fcntl, "F_OFD_SETLK")
)
_FLOCK: Final = struct.Struct("hhqqi4x")  # the system's ``struct flock``: type, whence, start, …


class Lock(Protocol):
    """A lock that at most one holder has."""

    def take(self, *, wait: bool) -> bool:
        """Take it; without ``wait`` return False if somebody else has it."""

    def free(self) -> None:
        """Give it back."""


class ByteLock:
    """A range of bytes of an open file; ``shared`` ones keep only the others out."""

    __slots__ = ("_fd", "_freed", "_wanted")

    def __init__(self, fd: int, start: int, length: int = 1, *, shared: bool = False) -> None:
        self._fd = fd
        kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
        self._wanted = _FLOCK.pack(kind, os.SEEK_SET, start, length, 0)
        self._freed = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, start, length, 0)

    def take(self, *, wait: bool) -> bool:
        """See ``Lock.take``."""
        how = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
        try:
            fcntl.fcntl(self._fd, how, self._wanted)
        except (BlockingIOError, PermissionError):  # the system may answer with either
            return False
        return True

    def free(self) -> None:
        """See ``Lock.free``."""
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, self._freed)

    def is_taken(self) -> bool:
        """Return whether somebody else holds what keeps this lock from being taken."""
        found = fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, self._wanted)
        return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


class FileLock:
    """A file that is locked as a whole."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def take(self, *, wait: bool) -> bool:
        """See ``Lock.take``."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def free(self) -> None:
        """See ``Lock.free``."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)


class Turnstile:
    """One per store in a process; used only while the writer's desk is held."""

    def __init__(self, door: Lock, gate: Lock) -> None:
        self._door = door
        self._gate = gate

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Wait for one's turn. The locks go with the process, however it ends."""
        self.enter(wait=True)
        try:
            yield
        finally:
            self.leave()

    def enter(self, *, wait: bool) -> bool:
        """Take one's turn; then the caller must ``leave``.

        Without ``wait`` return False if somebody else is there or waits, and where the locks fail.
        """
        try:
            if not self._door.take(wait=wait):
                return False
            try:
                return self._gate.take(wait=wait)
            finally:
                self._door.free()
        except OSError:
            if wait:
                raise
            return False

    def leave(self) -> None:
        """Let the next one in."""
        self._gate.free()


@contextmanager
def turnstile_of_files(folder: Path) -> Iterator[Turnstile]:
    """Give a turnstile of two files in a folder, for systems without locks on bytes."""
    door = open_alone(folder / "door", os.O_RDWR | os.O_CREAT)
    gate = open_alone(folder / "gate", os.O_RDWR | os.O_CREAT)
    try:
        yield Turnstile(FileLock(door), FileLock(gate))
    finally:
        close(door)
        close(gate)
