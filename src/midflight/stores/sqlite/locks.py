"""Locks on the files of stores, the descriptors that they belong to, and a fair queue of two locks.

A ``ByteLock`` is an *open file description* lock on a range of bytes of a file. It is held until it
is freed or until every descriptor of that one opening is closed. In contrast to the POSIX locks
that SQLite uses, it is not dropped when the process closes another descriptor of the file, but it
keeps POSIX locks of anybody out, also of the same process. Linux has such locks.

A ``FileLock`` locks a whole file that exists for nothing else. It is used where the system has no
open file description locks.

SQLite has no queue: a process that commits back to back starves another for seconds (16.8 s were
seen). A ``Turnstile`` makes one of two locks. A process that waits for the gate holds the door, so
a process that has just left the gate must get in line behind it.

Two rules are kept for descriptors. A descriptor of a database's file is closed only when the last
store on that database is closed in this process: closing one drops every POSIX lock that the
process has on the file, those of SQLite too. And a forked child closes all of them at once: a lock
belongs to the open file, so a child that kept the file open would keep the lock of a parent that is
dead.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from midflight.store_files import Ident, forget, ident, note

# ── descriptors ──────────────────────────────────────────────────────────────────────────────────

_shared: Final[dict[Ident, Descriptors]] = {}
_alone: Final[set[int]] = set()
_lock: Final = threading.RLock()
"""No thread opens one while another forks: the child would not know of it, and keep it open."""


class Descriptors:
    """The descriptors of a database's files, for all its stores in this process. See ``share``."""

    def __init__(self, database: Ident) -> None:
        self.inherited = False  # this is a forked child, and they belong to its parent
        self.users = 0
        self._database = database
        self._spare: dict[Ident, list[int]] = {}
        self._open: dict[int, Ident] = {}

    def take(self, path: str) -> int:
        """Return a descriptor of the file at this path that nobody else here uses."""
        with _lock:
            if spare := self._spare.get(ident(os.stat(path))):
                return spare.pop()
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            self._open[fd] = ident(os.fstat(fd))
            note(self._open[fd])
            return fd

    def give_back(self, fd: int) -> None:
        """Keep it for the next one. Its user has freed every lock that it had by it."""
        with _lock:
            if not self.inherited:
                self._spare.setdefault(self._open[fd], []).append(fd)

    def leave(self) -> None:
        """Close all of them if the caller was the last user."""
        with _lock:
            self.users -= 1
            if self.users == 0 and not self.inherited:
                del _shared[self._database]
                self._close()

    def _close(self) -> None:
        for fd, file in self._open.items():
            os.close(fd)
            forget(file)
        self._open.clear()
        self._spare.clear()

    def close_in_child(self) -> None:
        """Close them in a forked child, which has no use for them."""
        self.inherited = True
        self._close()


def share(database: Ident) -> Descriptors:
    """Return the descriptors of this database. Each user must ``leave`` them."""
    with _lock:
        found = _shared.setdefault(database, Descriptors(database))
        found.users += 1
        return found


def open_alone(path: str | os.PathLike[str], flags: int = os.O_RDWR) -> int:
    """Return a descriptor for a lock of its own, which a forked child closes."""
    with _lock:
        fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
        _alone.add(fd)
        return fd


def close(fd: int) -> None:
    """Close a descriptor that was opened by ``open_alone``."""
    with _lock:
        _alone.discard(fd)
        os.close(fd)


def _close_in_child() -> None:
    for descriptors in _shared.values():
        descriptors.close_in_child()
    _shared.clear()
    for fd in _alone:
        os.close(fd)
    _alone.clear()
    _lock.release()


os.register_at_fork(  # layer forked-child-keeps-no-lock
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_close_in_child
)


# ── locks ─────────────────────────────────────────────────────────────────────────────────────────

HAS_BYTE_LOCKS: Final = (
    sys.platform == "linux" and sys.maxsize > 1 << 32 and hasattr(fcntl, "F_OFD_SETLK")
)
_FLOCK: Final = struct.Struct("hhqqi4x")  # the system's ``struct flock``: type, whence, start, …


class Lock(Protocol):
    """A lock that at most one holder has."""

    def take(self, *, wait: bool) -> bool:
        """Take it; without ``wait`` return False if somebody else has it."""

    @property
    def free(self) -> Callable[[], object]:
        """Gives it back."""


class ByteLock:
    """A range of bytes of an open file; ``shared`` ones keep only the others out."""

    __slots__ = ("_fd", "_wanted", "free")

    free: Callable[[], object]
    """See ``Lock.free``; one call of the system and nothing else, as it is in every append."""

    def __init__(self, fd: int, start: int, length: int = 1, *, shared: bool = False) -> None:
        self._fd = fd
        kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
        self._wanted = _FLOCK.pack(kind, os.SEEK_SET, start, length, 0)
        freed = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, start, length, 0)
        self.free = partial(fcntl.fcntl, fd, fcntl.F_OFD_SETLK, freed)

    def take(self, *, wait: bool) -> bool:
        """See ``Lock.take``."""
        how = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
        try:
            fcntl.fcntl(self._fd, how, self._wanted)
        except (BlockingIOError, PermissionError):  # the system may answer with either
            return False
        return True

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
    """One per store in a process; used only while the writer's desk is held.

    ``leave`` lets the next one in.
    """

    def __init__(self, door: Lock, gate: Lock) -> None:
        self._door = door
        self._gate = gate
        self.leave = gate.free

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
            if not self._door.take(wait=wait):  # layer nobody-overtakes-another-waits
                return False
            try:
                return self._gate.take(wait=wait)  # layer one-at-time
            finally:
                self._door.free()
        except OSError:
            if wait:
                raise
            return False


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
