"""Files are put in place as a whole, and the content before is kept for an undo.

A new content is written beside, brought to the disk and then put under its name in one move: a
crash leaves the old file or the new one. Before that the old one is kept under the attempt's key in
a folder of the workspace, so an undo finds it in any later process.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from threading import Lock
from typing import Final

import msgspec
from msgspec import Struct

from midflight.tools.declaration import ToolRefused
from midflight.tools.folder import (
    KEEP,
    MODE,
    Content,
    Folder,
    parts,
    read,
    refusals,
    refuse,
)

LOCK_S: Final = 10.0
LOOK_S: Final = 0.01  # between two looks whether another process has let go
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Kept(Struct, frozen=True):
    """The state before an effect: a file, or that there was none; and folders made for it."""

    existed: bool
    mode: int = 0o600
    made: list[str] = []
    data: bytes = b""

    @property
    def content(self) -> Content:
        """The content as it was."""
        return Content(self.data, self.mode & MODE)


class Keep:
    """The stored states that undos need, by the key of each attempt."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def save(self, key: str, before: Content | None, made: list[str]) -> None:
        """Keep it on the disk before anything happens. Outside a step there is no key, no undo."""
        if not key:
            return
        kept = Kept(False, made=made)
        if before is not None:
            kept = Kept(True, mode=before.mode or 0, made=made, data=before.data)
        with suppress(FileExistsError):
            os.mkdir(KEEP, 0o700, dir_fd=self._folder.handle)
        with refusals(KEEP), self._open() as handle:
            if not _is_there(handle, ".gitignore"):
                _put(handle, ".gitignore", Content(b"*\n", 0o600))
            _put(handle, _file_of(key), Content(msgspec.msgpack.encode(kept), 0o600))

    def load(self, key: str) -> Kept | None:
        """Return what was kept; None if nothing was kept, or it cannot be read."""
        try:
            with self._open() as handle:
                stored = read(handle, _file_of(key), KEEP, 2 * self._folder.size_max).data
            return msgspec.msgpack.decode(stored, type=Kept)
        except (OSError, ToolRefused, msgspec.DecodeError):
            return None

    @contextmanager
    def _open(self) -> Iterator[int]:
        handle = os.open(
            KEEP, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._folder.handle
        )
        try:
            yield handle
        finally:
            os.close(handle)


class Replacer:
    """Changes files of a folder, one at a time, also among processes that do it in this way."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.keep = Keep(folder)
        self._lock = Lock()  # threads of this process share the handle, and so its lock

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock of the folder; all that change files in this way wait for it."""
        if not self._lock.acquire(timeout=LOCK_S):
            raise ToolRefused(
                f"the workspace was busy for {LOCK_S:g} s: try again. Nothing was changed."
            )
        try:
            for _ in range(int(LOCK_S / LOOK_S)):
                with suppress(BlockingIOError):
                    # layer one-at-time-among-threads
                    fcntl.flock(self.folder.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(LOOK_S)
            else:
                raise ToolRefused(
                    f"another process has held the workspace for {LOCK_S:g} s: try again. Nothing "
                    "was changed."
                )
            try:
                yield
            finally:
                fcntl.flock(self.folder.handle, fcntl.LOCK_UN)
        finally:
            self._lock.release()

    def put(self, path: str, new: Content, before: Content | None) -> None:
        """Put a file in place of ``before``, which must still be there; None: of nothing."""
        with self.folder.inside(path, make=True) as (handle, name):
            if before is None:
                _put_new(handle, name, path, new)
            else:
                _put(handle, name, new, path=path, before=before)

    def remove(self, path: str) -> None:
        """Take a file away."""
        with self.folder.inside(path) as (handle, name):
            with refusals(path):
                os.unlink(name, dir_fd=handle)
            os.fsync(handle)

    def move(self, path: str, to: str) -> None:
        """Give a file another name, and never in place of another file.

        There are two names for a moment. A crash there leaves both, and both are the same file.
        """
        with (
            self.folder.inside(path) as (source, name),
            self.folder.inside(to, make=True) as (target, new_name),
        ):
            if parts(path) == parts(to):
                refuse(to, "is the path that it already has")
            if not _is_half_moved(source, name, target, new_name):
                with refusals(to):
                    _link(source, name, target, new_name)
                os.fsync(target)
            os.unlink(name, dir_fd=source)
            os.fsync(source)

    def remove_folders(self, made: list[str]) -> None:
        """Take away folders that were made, innermost first, as far as nobody uses them."""
        for path in reversed(made):
            with (
                suppress(OSError, ToolRefused),
                self.folder.inside(path) as (handle, name),
            ):
                os.rmdir(name, dir_fd=handle)


def _is_half_moved(source: int, name: str, target: int, new_name: str) -> bool:
    """Return whether both names are links to one file, and not one name in other letter case."""
    try:
        one = os.stat(name, dir_fd=source, follow_symlinks=False)
        other = os.stat(new_name, dir_fd=target, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(one, other) and one.st_nlink > 1


def _put(
    handle: int, name: str, new: Content, *, path: str = KEEP, before: Content | None = None
) -> None:
    """Write beside, then rename over: at every moment there is the old file or the new one."""
    with _written_beside(handle, name, path, new) as beside:
        if before is not None and not _is_still(handle, name, before):
            refuse(path, "has changed at the last moment; read it again")
        with refusals(path):
            os.rename(beside, name, src_dir_fd=handle, dst_dir_fd=handle)
    os.fsync(handle)


def _is_still(handle: int, name: str, before: Content) -> bool:
    try:
        return read(handle, name, name, len(before.data)).data == before.data
    except (FileNotFoundError, ToolRefused):
        return False


def _put_new(handle: int, name: str, path: str, new: Content) -> None:
    """Write beside, then link: this fails if there is a file of that name already."""
    with _written_beside(handle, name, path, new) as beside, refusals(path):
        _link(handle, beside, handle, name)
    os.fsync(handle)


def _link(source: int, name: str, target: int, new_name: str) -> None:
    os.link(name, new_name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)


@contextmanager
def _written_beside(handle: int, name: str, path: str, new: Content) -> Iterator[str]:
    """A file with the content, on the disk; gone afterwards unless it was moved.

    Its name is the same at each try, so that what a crash has left is not left for ever.
    """
    beside = f".midflight-{blake2b(os.fsencode(name), digest_size=8).hexdigest()}.tmp"
    with suppress(FileNotFoundError), refusals(path):
        os.unlink(beside, dir_fd=handle)
    try:
        with refusals(path):
            mode = 0o666 if new.mode is None else 0o600
            file = os.open(beside, _NEW, mode, dir_fd=handle)
            with open(file, "wb") as opened:
                opened.write(new.data)
                opened.flush()
                if new.mode is not None:
                    os.fchmod(file, new.mode)
                os.fsync(file)
        yield beside
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=handle)


def _file_of(key: str) -> str:
    return blake2b(key.encode(), digest_size=16).hexdigest()


def _is_there(handle: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
