"""Holds a store's file, so that the process cannot lose it without noticing.

SQLite trusts in POSIX locks. A process loses those on a file when it closes any descriptor of it:
``shutil.copy`` of the store is enough. The next process that opens and closes the store then takes
itself for the last one and deletes the write-ahead log, with all that was acknowledged meanwhile.
Hence three measures:

* Two of SQLite's own ranges are locked for reading by descriptors of ours, with locks that are not
  lost in this way: the one that must be free to delete the log, and the one that must be free to
  empty the index of the log. So nobody can do either while we live.
* Every append looks whether the path still leads to the files that we hold, and whether the log is
  still the one that its index describes. It does so before it writes, as far as that can be known
  by then, and again before anybody is told that it was written.
* A process that opens the store is refused if it is in use under another name: then the path leads
  to another log. A file with two names, or one mounted as a single file, is refused in any case.

Every lock of ours is on the file itself, behind where data can be: all paths lead to the same.
Where the system has no such locks only the second measure is taken.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

from midflight.errors import StoreBusy, StoreError, StoreReplaced, StoreUnavailable
from midflight.store_files import Ident, ident
from midflight.stores.sqlite.locks import HAS_BYTE_LOCKS, ByteLock, Turnstile, share
from midflight.stores.sqlite.sqlite_file import UNKNOWN, explain, is_disk_error, shown_mark

SHARED: Final = (0x4000_0002, 510)  # SQLite: locked by connections that have the database open
DEAD_MAN: Final = (128, 1)  # SQLite: of the log's index, locked by those that have it open
OPENING, DOOR, GATE = (1 << 61, (1 << 61) + 1, (1 << 61) + 2)
AGAIN_S: Final = 0.005
DYING_S: Final = 0.5  # seconds that a dying process may take to give back all its locks

INDEX_HEAD: Final = 48  # bytes; the log's index begins with it twice
INDEX_FIELDS: Final = struct.Struct("=12x B x H I 12x 8s 8x")  # ready, page, frames, salt
LOG_HEAD: Final = 32  # bytes; its salt is in 16 to 24
FRAME_HEAD: Final = 24
FILE_HEAD: Final = 100
MAGIC: Final = b"SQLite format 3\0"
JUST_NOW_S: Final = 0.02  # longer than a sync: a look costs a tenth of an append
LOOKS_MAX: Final = 1000  # at an index that another process is writing: some milliseconds
GROWN_BY: Final = bytes(256 * 1024)  # behind the end of the log, when it is nearly full
NEARLY_FULL: Final = 32 * 1024  # bytes that are left; most commits take less
GROWN_MAX: Final = 17 << 20  # bytes; at 16 MiB the log is copied back and begun anew

WHAT_NOW: Final = (
    "Nothing is acknowledged and nothing is begun here any more. Stop every process on this store, "
    "put the right file in its place, and start again"
)
STOPPED: Final = (
    "another program has stopped while it was writing the index of the store's log (-shm): end "
    "that program, and try again"
)


class Hold:
    """The files of one store: database, log and index of the log. Used by one store."""

    def __init__(self, path: Path) -> None:
        """Take hold of the file at a path that is resolved."""
        self._path = path
        self._at, self._log_at, self._index_at = (f"{path}{end}" for end in ("", "-wal", "-shm"))
        _refuse_other_names(path)
        self._file = ident(os.stat(self._at))
        self._files = share(self._file)
        self._mine: list[int] = []
        self._guards: list[ByteLock] = []
        self._lock_files: dict[str, Ident] = {}
        self._lost = ""
        self.mark = b"?"  # in the head of the file, by which it is told from other stores
        self._marked = False
        self._log = self._index = self._file
        self._log_fd = self._index_fd = -1
        try:
            self._fd = self.descriptor()
        except BaseException:
            self.close()
            raise
        self._looked_at = float("-inf")
        self._seen = (-1, -1)  # when the file had changed, and its size
        self.log_is_full = False  # nearly: to be asked under the write lock
        self._may_grow = True
        self._counter = 0

    # ── locks ────────────────────────────────────────────────────────────────────────────────

    def descriptor(self) -> int:
        """Return a descriptor of the store's file that nobody else uses, for locks of its own."""
        try:
            fd = self._files.take(self._at)
        except (FileNotFoundError, NotADirectoryError):
            self._lose(f"there is no {self._at} any more")
        self._mine.append(fd)
        if ident(os.fstat(fd)) != self._file:
            self._lose(f"{self._at} is another file than the one that was opened")
        return fd

    def give_back(self, fd: int, lock: ByteLock) -> None:
        """Give a descriptor back and free its lock. In a forked child there is nothing to free."""
        if not self._files.inherited:
            lock.free()
            self._mine.remove(fd)
            self._files.give_back(fd)

    def keep_lock_file(self, path: str, fd: int) -> None:
        """Notice from now on if a path does not lead to this file any more, which is locked.

        Where locks are files, others take its driver for dead then.
        """
        self._lock_files[path] = ident(os.fstat(fd))

    def free_lock_file(self, path: str) -> None:
        """Notice no more."""
        del self._lock_files[path]

    def turnstile(self) -> Turnstile:
        """Return the turnstile of the store's writers."""
        fd = self.descriptor()
        return Turnstile(ByteLock(fd, DOOR), ByteLock(fd, GATE))

    @contextmanager
    def opening(self, wait_s: float) -> Iterator[None]:
        """Let nobody else open the store meanwhile. Refuse it if it is in use with another log."""
        if not HAS_BYTE_LOCKS:
            yield
            return
        lock = ByteLock(self._fd, OPENING)
        if not _in_time(lambda: lock.take(wait=False), wait_s):
            raise StoreBusy(
                f"another process has been opening {self._path} for more than {wait_s:g} s: end "
                "that process, or try again. Nothing was changed."
            )
        try:
            if not _in_time(self._has_one_log, DYING_S):  # layer newcomer-takes-up-no-log-belongs
                raise StoreReplaced(
                    f"another process has {self._path} open under another name, or has had it open "
                    "since before it was moved or replaced. The two processes would write to "
                    "different logs. Use the same path everywhere, or end that process first. "
                    "Nothing was changed."
                )
            yield
        finally:
            lock.free()

    def _has_one_log(self) -> bool:
        """Return whether who has the database open has the log beside this path open, too."""
        used = ByteLock(self._fd, *SHARED).is_taken()
        try:
            fd = self._files.take(self._index_at)
        except FileNotFoundError:
            return not used
        try:
            return ByteLock(fd, *DEAD_MAN).is_taken() == used
        finally:
            self._files.give_back(fd)

    def keep_database(self, wait_s: float) -> None:
        """Lock the database so that nobody can delete the log from now on."""
        self._guard(self._fd, SHARED, wait_s)  # layer nobody-deletes-log-of-process-lost

    def keep_log(self, wait_s: float) -> None:
        """Lock the log's index so that nobody can empty it; SQLite must have opened both before."""
        for path in (self._log_at, self._index_at):
            self._mine.append(self._files.take(path))
        self._log_fd, self._index_fd = self._mine[-2:]
        self._log, self._index = ident(os.fstat(self._log_fd)), ident(os.fstat(self._index_fd))
        self._guard(self._index_fd, DEAD_MAN, wait_s)
        if not self._look_at_log():
            raise StoreBusy(f"{self._path}: {STOPPED}. Nothing was changed.")

    def _guard(self, fd: int, what: tuple[int, int], wait_s: float) -> None:
        if not HAS_BYTE_LOCKS:  # layer nobody-deletes-log-or-empties
            return
        guard = ByteLock(fd, *what, shared=True)
        if not _in_time(lambda: guard.take(wait=False), wait_s):
            raise StoreBusy(
                f"{self._path}: another program has locked it for more than {wait_s:g} s: end "
                "that program, or try again. Nothing was changed."
            )
        self._guards.append(guard)

    def let_go(self) -> None:
        """Let SQLite close the files as their last user. To be called before it does."""
        while self._guards:
            guard = self._guards.pop()
            if not self._files.inherited:
                guard.free()

    def close(self) -> None:
        """Give the descriptors back. To be called after SQLite has closed the files."""
        self.let_go()
        for fd in self._mine:
            self._files.give_back(fd)
        self._mine.clear()
        self._files.leave()

    # ── is it still ours? ────────────────────────────────────────────────────────────────────

    def look_before(self) -> None:
        """Raise ``StoreReplaced`` if the path does not lead to our files any more.

        Not if that was looked at a moment ago: ``look_after`` comes in any case.
        """
        if self._lost or self._files.inherited or time.monotonic() - self._looked_at > JUST_NOW_S:
            try:
                self._look_at_path()
            except OSError as error:
                raise StoreUnavailable(
                    f"{self._path} cannot be looked at ({error.strerror}): check its folder and "
                    "the disk, and try again. Nothing was appended."
                ) from error

    def look_after(self) -> None:
        """Raise if what was just written is not in the store, or if that cannot be seen.

        Every error leaves open whether it was written: it may be in a file that was moved away.
        """
        try:
            if self._look_at_log():
                return
        except StoreError as error:
            error.leaving_it_open()
            raise
        except OSError as error:
            raise StoreUnavailable(  # layer written-and-cannot-looked
                f"{self._path} cannot be looked at ({error.strerror}): check its folder and the "
                f"disk. {UNKNOWN}"
            ).leaving_it_open() from error
        raise StoreBusy(f"{self._path}: {STOPPED}. {UNKNOWN}").leaving_it_open()

    def look_at_failure(self, error: sqlite3.Error) -> None:
        """Raise if the disk failed in a commit: the log may hold the commit nevertheless.

        SQLite writes the whole commit into the log and syncs then. If the sync fails, the next
        commit overwrites this one; but if the process dies before that, the store has it.
        """
        if is_disk_error(error):
            raise explain(self._path, error, UNKNOWN).leaving_it_open() from error

    def grow_log(self) -> None:
        """Lengthen the log by zero bytes where it is nearly full. The caller has the write lock.

        A commit is synced sooner where it does not lengthen the file. SQLite reads the log up to
        the first frame that does not fit the ones before, and zero bytes never do.
        """
        try:
            ready, page, frames, _ = INDEX_FIELDS.unpack(os.pread(self._index_fd, INDEX_HEAD, 0))
            size = os.fstat(self._log_fd).st_size
            end = _log_bytes(page, frames)
            if ready and frames and end <= size < end + NEARLY_FULL:  # not lengthened by others yet
                os.pwrite(self._log_fd, GROWN_BY, size)
        except OSError:
            self._may_grow = False  # the disk is full, say: a commit lengthens the log itself
        self.log_is_full = False

    def _look_at_log(self) -> bool:
        """Raise ``StoreReplaced`` if the log is not the one that its index describes.

        Return False if that cannot be seen: another program has begun to write the index, and has
        not ended it in a while. If it is dead SQLite mends the index at the next append.
        """
        size = self._look_at_path()
        for _ in range(LOOKS_MAX):
            index = os.pread(self._index_fd, 2 * INDEX_HEAD, 0)
            head = index[:INDEX_HEAD]
            if len(index) == 2 * INDEX_HEAD and head == index[INDEX_HEAD:]:
                if self._is_described_by(head, size):
                    return True
                if os.pread(self._index_fd, len(index), 0) == index:
                    self._lose("its write-ahead log was emptied or overwritten")
            time.sleep(0)  # another process is writing it
        return False

    def _look_at_path(self) -> int:
        """Return the size of the log, if path and log are still those that we hold.

        The reader, the writer and the loop call it, at any time and without a lock.
        """
        if self._files.inherited:
            raise StoreUnavailable(
                f"{self._path} was opened by the process that this one was forked from; open it "
                "again here. Nothing was appended."
            )
        if self._lost:  # layer process-notices-file-taken
            self._refuse()
        try:
            file, log, index = map(os.stat, (self._at, self._log_at, self._index_at))
        except (FileNotFoundError, NotADirectoryError) as error:
            self._lose(f"there is no {error.filename} any more")
        if (file.st_dev, file.st_ino) != self._file:
            self._lose(f"{self._at} is another file than the one that was opened")
        if (log.st_dev, log.st_ino) != self._log:
            self._lose(f"{self._log_at} is another file than the one that was opened")
        if (index.st_dev, index.st_ino) != self._index:  # others would lock another one than we do
            self._lose(f"{self._index_at} is another file than the one that was opened")
        for path in tuple(self._lock_files):
            self._look_at_lock_file(path)
        if (file.st_mtime_ns, file.st_size) != self._seen:
            self._look_into_file(file)
        self._looked_at = time.monotonic()
        return log.st_size

    def _look_at_lock_file(self, path: str) -> None:
        try:
            found = ident(os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            found = None
        if self._lock_files.get(path, found) != found:  # or it was freed meanwhile
            self._lose(f"the lock of a driver, {path}, was deleted or replaced")

    def _is_described_by(self, head: bytes, size: int) -> bool:
        """Return whether a log of this size is the one that the head of its index describes."""
        ready, page, frames, salt = INDEX_FIELDS.unpack(head)
        if not (ready and frames):
            return True  # all of the log is in the database
        needed = _log_bytes(page, frames)
        if size < needed and os.fstat(self._log_fd).st_size < needed:  # it may have grown since
            return False
        self.log_is_full = self._may_grow and needed <= size < min(needed + NEARLY_FULL, GROWN_MAX)
        return bool(os.pread(self._log_fd, LOG_HEAD, 0)[16:24] == salt)

    def _look_into_file(self, about: os.stat_result) -> None:
        """Look at the head of the database, which has changed: SQLite only counts up there.

        And the store's mark stays.

        Another thread may have read something newer since we began.
        """
        known = self._counter
        head = os.pread(self._fd, FILE_HEAD, 0)
        counter = int.from_bytes(head[24:28], "big")
        is_ours = shown_mark(head) == self.mark
        # layer look-late-does-not-call-checkpoint
        if not head.startswith(MAGIC) or counter < known or (self._marked and not is_ours):
            self._lose("another content was written into the file")
        self._marked |= is_ours  # of a new store the log alone may have it for a while
        self._seen, self._counter = (about.st_mtime_ns, about.st_size), max(self._counter, counter)

    def _lose(self, what: str) -> NoReturn:
        self._lost = what
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StoreReplaced(
            f"{self._path} is not the store any more that this process had opened: {self._lost}. "
            f"{WHAT_NOW}."
        )


def _log_bytes(page: int, frames: int) -> int:
    """Return how long a log of so many frames is; its index writes a page of 64 kB as 1."""
    return LOG_HEAD + frames * (FRAME_HEAD + (page if page > 1 else 1 << 16))


def _in_time(done: Callable[[], bool], wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(AGAIN_S)
    return True


def _refuse_other_names(path: Path) -> None:
    """Refuse a file whose log could lie under another name, in use or left by a crash."""
    names = os.stat(path).st_nlink
    if names > 1:  # layer file-with-two-names-refused
        raise StoreUnavailable(
            f"the file {path} has {names} names (hard links), and the store would have another log "
            "under each. First end every process that uses the store; then remove all names but "
            "one, and keep the one whose -wal file is not empty. Nothing was changed."
        )
    if str(path) in _mounted():
        raise StoreUnavailable(
            f"{path} is mounted as a single file, and the store keeps its log and its locks beside "
            "that file: mount the folder that it is in instead. Nothing was changed."
        )


def _mounted() -> set[str]:
    """Return the places where something is mounted, as far as the system tells."""
    with suppress(OSError), open("/proc/self/mountinfo", "rb") as lines:
        return {os.fsdecode(_unescaped(line.split()[4])) for line in lines}
    return set()


def _unescaped(place: bytes) -> bytes:
    for code in (b"\\040", b"\\011", b"\\012", b"\\134"):
        place = place.replace(code, bytes([int(code[1:], 8)]))
    return place
