"""A folder that no path leads out of: every file is reached through handles, one name at a time.

Between a check of a path and its use somebody may put a link there, so no path is checked first:
each folder on the way is opened by its name inside the one before, and a link is never followed.
``..`` and absolute paths are refused as they are written. Two things cannot be seen here: a hard
link to a file elsewhere, and a folder that somebody moves out while it is open.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Final, NoReturn
from weakref import finalize

from msgspec import Struct

from midflight import store_files
from midflight.tools.declaration import ToolRefused

KEEP: Final = ".midflight"
"""The folder for what undo needs. No tool reaches into it, and git leaves it alone."""

PATH_BYTES_MAX: Final = 4096
DEPTH_MAX: Final = 64  # folders within each other; also bounds what a walk opens
ENTRIES_MAX: Final = 100_000  # of one folder; a walk is given up long before
MODE: Final = 0o777  # what is kept of a file's mode: no setuid for what a model has written

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Not blocking: a pipe in the folder must not keep us waiting for its writer."""


class Content(Struct, frozen=True):
    """A file's bytes and mode as they were at one moment; without a mode it is a new file's."""

    data: bytes
    mode: int | None = None

    @property
    def version(self) -> str:
        """A name for these bytes: equal when they are."""
        return version_of(self.data)


class Entry(Struct, frozen=True):
    """A thing that a walk has found: a file, a folder, a link, something other or unreadable."""

    path: str
    kind: str


def version_of(data: bytes) -> str:
    """A name for bytes: equal when they are."""
    return blake2b(data, digest_size=16).hexdigest()


class Folder:
    """A folder by its handle, so that it stays the same whatever is put in its place."""

    def __init__(self, path: str | os.PathLike[str], *, size_max: int) -> None:
        self.path = Path(path).resolve()
        self.size_max = size_max
        self.handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finalize(self, os.close, self.handle)

    @contextmanager
    def inside(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The handle of the folder that a file is in, and the file's name there."""
        *way, name = parts(path) or [""]
        if not name:
            refuse(path, "is the workspace itself and not a file in it")
        with self._down(path, way, make=make) as handle:
            yield handle, name

    @contextmanager
    def open(self, path: str) -> Iterator[int]:
        """The handle of a folder within; ``.`` is this one."""
        with self._down(path, parts(path)) as handle:
            yield handle

    @contextmanager
    def _down(self, path: str, way: list[str], *, make: bool = False) -> Iterator[int]:
        handle = os.dup(self.handle)
        try:
            for name in way:
                with refusals(path):
                    if make:
                        with suppress(FileExistsError):
                            os.mkdir(name, dir_fd=handle)
                    below = os.open(name, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)

    def missing_folders(self, path: str) -> list[str]:
        """The folders on the way to a file that are not there, outermost first."""
        way = parts(path)[:-1]
        for number in range(1, len(way) + 1):
            try:
                with self.open("/".join(way[:number])):
                    pass
            except FileNotFoundError:
                return ["/".join(way[:end]) for end in range(number, len(way) + 1)]
        return []

    def content(self, path: str) -> Content | None:
        """Return the content of a file; None if there is no such file."""
        try:
            with self.inside(path) as (handle, name):
                return read(handle, name, path, self.size_max)
        except FileNotFoundError:
            return None

    def walk(self, path: str) -> Iterator[Entry]:
        """All that is in a folder and below it, each folder in the order of names.

        Links are shown and not followed. Each folder is reached anew from the top, so the number
        of handles does not grow with the depth.
        """
        top = "/".join(parts(path))
        waiting = [top]
        while waiting:
            below = waiting.pop()
            try:
                entries = self._entries(below)
            except (FileNotFoundError, ToolRefused):
                if below == top:
                    raise
                yield Entry(below, "unreadable")  # or gone since its name was read
                continue
            yield from entries
            folders = [entry.path for entry in entries if entry.kind == "folder"]
            waiting += reversed([path for path in folders if path.count("/") < DEPTH_MAX - 1])

    def _entries(self, folder: str) -> list[Entry]:
        with self.open(folder) as handle, os.scandir(handle) as found:
            entries = [
                Entry(f"{folder}/{entry.name}" if folder else entry.name, _kind(entry))
                for entry in islice(found, ENTRIES_MAX)
                if folder or entry.name != KEEP
            ]
        return sorted(entries, key=lambda entry: entry.path)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def parts(path: str) -> list[str]:
    """The names that a path leads through, or a refusal of a path that would lead elsewhere."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        refuse(path, "holds half of a character, so it cannot be the name of a file")
    if "\0" in path or size > PATH_BYTES_MAX:
        refuse(path, f"holds a zero byte, or is longer than {PATH_BYTES_MAX:,} bytes")
    if path.startswith("/"):
        refuse(path, "is absolute; give a path relative to the workspace")
    names = [name for name in path.split("/") if name not in {"", "."}]
    if ".." in names:
        refuse(path, "leads out of its folder with '..'; give a path within the workspace")
    if names and names[0].casefold() == KEEP:
        refuse(path, "is reserved: the workspace keeps there what undo needs")
    if len(names) > DEPTH_MAX:
        refuse(path, f"leads through more than {DEPTH_MAX} folders")
    return names


def read(handle: int, name: str, path: str, size_max: int) -> Content:
    """A file's content. Raises FileNotFoundError, and refuses what is no ordinary file.

    A file of a store that this process has open is not even opened: closing it again would take
    the store's locks away.
    """
    with refusals(path):
        if store_files.is_open(os.stat(name, dir_fd=handle, follow_symlinks=False)):
            refuse(path, store_files.WHY)
        file = os.open(name, _FILE, dir_fd=handle)
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            refuse(path, "is not an ordinary file")
        if about.st_size > size_max:
            refuse(path, f"has {about.st_size:,} bytes, and this tool takes {size_max:,}")
        with open(file, "rb", closefd=False) as opened:
            data = opened.read(size_max + 1)
    finally:
        os.close(file)
    if len(data) > size_max:
        refuse(path, f"has grown to more than the {size_max:,} bytes that this tool takes")
    return Content(data, stat.S_IMODE(about.st_mode) & MODE)


def refuse(path: str, why: str) -> NoReturn:
    """Say that it cannot be, and that nothing has been done."""
    shown = path.encode(errors="replace").decode()[:200]
    raise ToolRefused(f"{shown!r} {why}. Nothing was changed.")


@contextmanager
def refusals(path: str) -> Iterator[None]:
    """Turn what the system says to a path into words; that it is not there stays as it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EMLINK}:
            refuse(path, "leads through a symbolic link, which is not followed")
        if error.errno == errno.ENOTDIR:
            refuse(path, "leads through something that is no folder, perhaps a symbolic link")
        if error.errno == errno.EEXIST:
            refuse(path, "is there already")
        if error.errno == errno.ENXIO:
            refuse(path, "is not an ordinary file")
        refuse(path, f"cannot be used: {os.strerror(error.errno or 0)}")
