"""The descriptors that this process has of the files of stores.

Two rules are kept here. A descriptor of a database's file is closed only when the last store on
that database is closed in this process: closing one drops every POSIX lock that the process has on
the file, those of SQLite too. And a forked child closes all of them at once: a lock belongs to the
open file, so a child that kept the file open would keep the lock of a parent that is dead.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from midflight.store_files import Ident, forget, ident, note

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


os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_close_in_child
)
