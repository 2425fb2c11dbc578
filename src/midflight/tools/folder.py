"""A folder that no path leads out of: every file is reached through handles, one name at a time.

Between a check of a path and its use somebody may put a link there, so no path is checked first:
each folder on the way is opened by its name inside the one before, and a link is never followed.
``..`` and absolute paths are refused as they are written. Two things cannot be seen here: a hard
link to a file elsewhere, and a folder that somebody moves out while it is open.

Files are read for a model a piece at a time, within bounds.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
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

# layer no-link-followed-on-way
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# layer file-link-not-read
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
    if ".." in names:  # layer no-path-leads
        refuse(path, "leads out of its folder with '..'; give a path within the workspace")
    if names and names[0].casefold() == KEEP:  # layer undo-needs-out-of-reach
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
        # layer tools-do-not-open-files
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


TEXT_MAX: Final = 200_000  # characters of one answer; a model reads on from a line
LISTED_MAX: Final = 1000
VISITED_MAX: Final = 20_000
SEARCHED_BYTES_MAX: Final = 200_000_000  # a thread cannot be ended, so it must end by itself
FOUND_MAX: Final = 200
LINE_MAX: Final = 300  # characters of a line that a search shows

MARKS: Final = {
    "folder": "/",
    "link": " (link)",
    "other": " (no file)",
    "unreadable": " (unreadable)",
}


class FileText(Struct, frozen=True):
    """Part of a file, and the version of the whole of it."""

    text: str
    version: str
    note: str = ""


class Listing(Struct, frozen=True):
    """Paths, folders with a slash at the end."""

    paths: list[str]
    note: str = ""


class Found(Struct, frozen=True):
    """Lines in which a text was found, as ``path:line: text``."""

    lines: list[str]
    note: str = ""


class Reading:
    """The part of a workspace that changes nothing; the docstrings are what a model is told."""

    _folder: Folder

    def _read_file(self, path: str, first_line: int = 1, lines: int = 2000) -> FileText:
        """Read a text file of the workspace, and its version, which changing it needs.

        Of a long file this gives ``lines`` lines from ``first_line`` on; the version is that of
        the whole file.
        """
        content = self._there(path)
        try:
            whole = content.data.decode()
        except UnicodeDecodeError as error:
            note = f"not UTF-8 text (at byte {error.start:,} of {len(content.data):,}); not shown"
            return FileText("", content.version, note)
        every = whole.splitlines(keepends=True)
        start = min(max(first_line, 1) - 1, len(every))
        text = "".join(every[start : start + max(lines, 1)])
        if len(text) > TEXT_MAX:
            text = text[: text.rfind("\n", 0, TEXT_MAX) + 1] or text[:TEXT_MAX]
        if len(text) == len(whole):
            return FileText(text, content.version)
        last = start + len(text.splitlines())
        cut = "" if text.endswith(every[last - 1]) or not text else "; the last one is cut"
        return FileText(text, content.version, f"lines {start + 1} to {last} of {len(every)}{cut}")

    def _list_files(self, folder: str = ".", pattern: str = "*") -> Listing:
        """List what is in a folder of the workspace and below it, folders with a slash at the end.

        ``pattern`` is for the whole path, as in ``src/*.py``; a star also takes slashes.
        """
        paths: list[str] = []
        for visited, entry in enumerate(self._walk(folder)):
            if len(paths) == LISTED_MAX or visited == VISITED_MAX:
                note = f"the first {len(paths)}; there may be more: list a folder of it"
                return Listing(paths, note)
            if fnmatchcase(entry.path, pattern):
                paths.append(_shown(entry.path) + MARKS.get(entry.kind, ""))
        return Listing(paths)

    def _search_files(self, text: str, folder: str = ".", pattern: str = "*") -> Found:
        """Search the files of the workspace for a text, and show the lines that hold it.

        The text is searched for as it stands, no expression, in files whose path fits ``pattern``.
        """
        if not text:
            refuse(text, "cannot be searched for: it is empty")
        lines: list[str] = []
        skipped = searched = 0
        for visited, entry in enumerate(self._walk(folder)):
            if visited == VISITED_MAX or searched > SEARCHED_BYTES_MAX:
                return Found(lines, f"not all: given up after {visited:,} files and folders")
            if entry.kind not in {"file", "unreadable"} or not fnmatchcase(entry.path, pattern):
                continue
            try:
                data = self._bytes_of(entry)
                searched += len(data)
                whole = data.decode()
            except (ToolRefused, UnicodeError):
                skipped += 1
                continue
            lines += islice(_lines_with(text, entry.path, whole), FOUND_MAX - len(lines))
            if len(lines) == FOUND_MAX:
                return Found(lines, f"the first {FOUND_MAX}; there may be more")
        note = f"not searched: {skipped} that are no text, too large or unreadable"
        return Found(lines, note if skipped else "")

    def _bytes_of(self, entry: Entry) -> bytes:
        if entry.kind == "unreadable":
            refuse(entry.path, "cannot be read")
        content = self._folder.content(entry.path)
        return content.data if content is not None else b""

    def _walk(self, folder: str) -> Iterator[Entry]:
        try:
            yield from self._folder.walk(folder)
        except FileNotFoundError:
            refuse(folder, "is not in the workspace")

    def _there(self, path: str) -> Content:
        content = self._folder.content(path)
        if content is None:
            refuse(path, "is not in the workspace")
        return content


def _lines_with(text: str, path: str, whole: str) -> Iterator[str]:
    for number, line in enumerate(whole.splitlines() if text in whole else (), 1):
        if text in line:
            yield f"{path}:{number}: {line.strip()[:LINE_MAX]}"


def _shown(path: str) -> str:
    return os.fsencode(path).decode(errors="replace")
