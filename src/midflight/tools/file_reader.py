"""Reading the files of a folder for a model: a piece at a time, within bounds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice
from typing import Final

from msgspec import Struct

from midflight.tools.declaration import ToolRefused
from midflight.tools.folder import Content, Entry, Folder, refuse

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
