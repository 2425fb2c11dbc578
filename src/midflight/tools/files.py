"""The files of one folder as tools: read, listed, searched; written, edited, moved, deleted.

What is read comes with its *version*, the hash of its bytes, and a file is changed only over the
version that was read: a model that has not seen a change by others cannot overwrite it. All that a
check or an undo needs is in the arguments and on the disk, so both work in any later process.

``Workspace("reports").tools`` are for a model. Give each workspace of a process its own ``name``:
after a restart a file is put back in the workspace of that name.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from midflight.tools.base import (
    ChangedSince,
    Done,
    NotDone,
    Performed,
    Tool,
    ToolFailed,
    ToolRefused,
    Unclear,
    tool,
)
from midflight.tools.folder import Content, Entry, Folder, refuse, version_of
from midflight.tools.replacing import Desk, Kept

FILE_BYTES_MAX: Final = 10_000_000
TEXT_MAX: Final = 200_000  # characters of one answer; a model reads on from a line
WRITE_BYTES_MAX: Final = 500_000  # arguments are in the journal
LISTED_MAX: Final = 1000
VISITED_MAX: Final = 20_000
SEARCHED_BYTES_MAX: Final = 200_000_000  # a thread cannot be ended, so it must end by itself
FOUND_MAX: Final = 200
LINE_MAX: Final = 300  # characters of a line that a search shows

LOST: Final = "what was in {} before is not kept any more. It was not touched."
MARKS: Final = {
    "folder": "/",
    "link": " (link)",
    "other": " (no file)",
    "unreadable": " (unreadable)",
}

Takes = tuple[str, ...]
"""The names of a tool's parameters: arguments may have been given by position."""


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


class FileChanged(Struct, frozen=True):
    """A file after a change; its version is empty when it is gone."""

    path: str
    version: str


class Workspace:
    """Tools for the files of a folder, and for nothing outside it."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        name: str = "workspace",
        approval: bool | str = False,
        file_bytes_max: int = FILE_BYTES_MAX,
    ) -> None:
        self.name = name
        self._folder = Folder(folder, size_max=file_bytes_max)
        self._desk = Desk(self._folder)
        self._keep = self._desk.keep
        self.read_file = self._reads(self._read_file, "read_file")
        self.list_files = self._reads(self._list_files, "list_files")
        self.search_files = self._reads(self._search_files, "search_files")
        self.write_file = self._changes(self._write_file, "write_file", approval)
        self.edit_file = self._changes(self._edit_file, "edit_file", approval)
        self.delete_file = self._changes(self._delete_file, "delete_file", approval)
        self.move_file = self._changes(self._move_file, "move_file", approval)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All of them, for a model."""
        return (
            self.read_file,
            self.list_files,
            self.search_files,
            self.write_file,
            self.edit_file,
            self.delete_file,
            self.move_file,
        )

    def __eq__(self, other: object) -> bool:  # type: ignore[explicit-override]
        """The same folder under the same name is the same workspace, as after a reload."""
        if not isinstance(other, Workspace):
            return NotImplemented
        return (self.name, self._folder.path) == (other.name, other._folder.path)

    def __hash__(self) -> int:  # type: ignore[explicit-override]
        return hash((self.name, self._folder.path))

    def _reads(self, function: Any, name: str) -> Tool:
        return tool(effect="read", name=f"{self.name}.{name}")(function)

    def _changes(self, function: Any, name: str, approval: bool | str) -> Tool:
        takes = tuple(inspect.signature(function).parameters)
        moves = "to" in takes
        return tool(
            effect="once",
            name=f"{self.name}.{name}",
            noun="file",
            approval=approval,
            check=partial(self._check_move if moves else self._check, takes),
            undo=partial(self._undo_move if moves else self._undo, takes),
            leaves=partial(self._leaves, takes),
        )(function)

    # ── reading ──────────────────────────────────────────────────────────────────────────────

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
                whole = self._text_of(entry)
            except (ToolRefused, UnicodeError):
                skipped += 1
                continue
            searched += len(whole)
            lines += islice(_lines_with(text, entry.path, whole), FOUND_MAX - len(lines))
            if len(lines) == FOUND_MAX:
                return Found(lines, f"the first {FOUND_MAX}; there may be more")
        note = f"not searched: {skipped} that are no text, too large or unreadable"
        return Found(lines, note if skipped else "")

    def _text_of(self, entry: Entry) -> str:
        if entry.kind == "unreadable":
            refuse(entry.path, "cannot be read")
        content = self._folder.content(entry.path)
        return content.data.decode() if content is not None else ""

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

    # ── changing ─────────────────────────────────────────────────────────────────────────────

    def _write_file(
        self, path: str, text: str, version: str = "", idempotency_key: str = ""
    ) -> FileChanged:
        """Write a text file of the workspace as a whole.

        ``version`` is what read_file gave for the content that is replaced; leave it empty for a
        new file, which must not exist yet. Folders on the way are made.
        """
        data = _encoded(path, text)
        with self._desk.alone():
            before = self._expected(path, version)
            self._put(path, data, before, idempotency_key)
        return FileChanged(path, version_of(data))

    def _edit_file(
        self, path: str, old: str, new: str, version: str, idempotency_key: str = ""
    ) -> FileChanged:
        """Replace a text that occurs exactly once in a file of the workspace.

        ``version`` is what read_file, or the last change, gave for the file.
        """
        with self._desk.alone():
            before = self._expected(path, version)
            if before is None:
                refuse(path, "needs the version that read_file gives")
            data = _edited(path, before.data, old, new)
            self._put(path, data, before, idempotency_key)
        return FileChanged(path, version_of(data))

    def _delete_file(self, path: str, version: str, idempotency_key: str = "") -> FileChanged:
        """Delete a file of the workspace; ``version`` is what read_file gave for it."""
        with self._desk.alone():
            before = self._expected(path, version)
            if before is None:
                refuse(path, "is not in the workspace")
            self._keep.save(idempotency_key, before, [])
            self._desk.remove(path)
        return FileChanged(path, "")

    def _move_file(
        self, path: str, to: str, version: str, idempotency_key: str = ""
    ) -> FileChanged:
        """Move or rename a file of the workspace, never over another one.

        ``version`` is what read_file gave for it.
        """
        with self._desk.alone():
            if self._expected(path, version) is None:
                refuse(path, "is not in the workspace")
            made = self._folder.missing_folders(to)
            self._keep.save(idempotency_key, None, made)
            with self._unmaking(made):
                self._desk.move(path, to)
        return FileChanged(to, version)

    def _expected(self, path: str, version: str) -> Content | None:
        """The file as it is, if that is what the caller has seen."""
        now = self._folder.content(path)
        if now is None and version:
            refuse(path, "is not there any more; leave the version empty to write it anew")
        if now is not None and not version:
            refuse(path, "is there already; read it, and give its version to replace it")
        if now is not None and now.version != version:
            refuse(path, f"is not at version {version[:40]} (any more); read it again")
        return now

    def _put(self, path: str, data: bytes, before: Content | None, key: str) -> None:
        if len(data) > self._folder.size_max:
            refuse(path, f"would have {len(data):,} bytes, more than {self._folder.size_max:,}")
        made = self._folder.missing_folders(path)
        self._keep.save(key, before, made)
        with self._unmaking(made):
            self._desk.put(path, Content(data, before.mode if before else None), before)

    @contextmanager
    def _unmaking(self, made: list[str]) -> Iterator[None]:
        """Folders that were made for what is then refused do not stay."""
        try:
            yield
        except ToolRefused:
            self._desk.remove_folders(made)
            raise

    # ── was it done, and taking it back ──────────────────────────────────────────────────────

    def _look(self, path: str) -> str:
        content = self._folder.content(path)
        return content.version if content is not None else ""

    def _leaves(self, takes: Takes, performed: Performed) -> list[str]:
        given = _given(takes, performed)
        return [self._look(given[name]) for name in ("path", "to") if name in given]

    def _check(self, takes: Takes, performed: Performed) -> Any:
        """Done or not, by what the file holds now."""
        given = _given(takes, performed)
        path, before = given["path"], given.get("version", "")
        kept = self._keep.load(performed.key)
        try:
            after, now = self._after(given, kept), self._look(path)
        except ToolRefused as error:
            return Unclear(str(error))
        if after is not None and now == after and (kept is not None or after):
            return Done(FileChanged(path, now))
        return NotDone() if now == before else Unclear(f"{path} was changed by others since")

    def _undo(self, takes: Takes, performed: Performed) -> None:
        """Put back exactly what was there, unless others have changed it since."""
        given = _given(takes, performed)
        path, before = given["path"], given.get("version", "")
        with self._desk.alone():
            kept = self._keep.load(performed.key)
            now = self._folder.content(path)
            version = now.version if now is not None else ""
            if version == before:
                return
            after = self._after(given, kept)
            if after is None:
                raise ToolFailed(LOST.format(path))
            if version != after:
                raise ChangedSince(path)
            self._restore(path, before, now, kept)

    def _restore(self, path: str, before: str, now: Content | None, kept: Kept | None) -> None:
        if not before:
            self._desk.remove(path)
            self._desk.remove_folders(kept.made if kept else [])
        elif kept is None or kept.content.version != before:
            raise ToolFailed(LOST.format(path))
        else:
            self._desk.put(path, kept.content, now)

    def _after(self, given: dict[str, Any], kept: Kept | None) -> str | None:
        """The version that the change leads to; None if that cannot be told."""
        if "text" in given:
            return version_of(_encoded(given["path"], given["text"]))
        if "old" not in given:
            return ""
        if kept is None or kept.content.version != given["version"]:
            return None
        return version_of(_edited(given["path"], kept.data, given["old"], given["new"]))

    def _check_move(self, takes: Takes, performed: Performed) -> Any:
        given = _given(takes, performed)
        path, to, version = given["path"], given["to"], given["version"]
        try:
            here, there = self._look(path), self._look(to)
        except ToolRefused as error:
            return Unclear(str(error))
        if not here and there == version:
            return Done(FileChanged(to, version))
        return NotDone() if here == version else Unclear(f"{path} was changed by others since")

    def _undo_move(self, takes: Takes, performed: Performed) -> None:
        given = _given(takes, performed)
        path, to, version = given["path"], given["to"], given["version"]
        with self._desk.alone():
            here, there = self._look(path), self._look(to)
            if here == version and not there:
                return
            if there != version or here not in {"", version}:
                raise ChangedSince(path if here else to)
            self._desk.move(to, path)
            kept = self._keep.load(performed.key)
            self._desk.remove_folders(kept.made if kept else [])


def _given(takes: Takes, performed: Performed) -> dict[str, Any]:
    """The arguments by their names."""
    return dict(zip(takes, performed.args, strict=False)) | performed.kwargs


def _lines_with(text: str, path: str, whole: str) -> Iterator[str]:
    for number, line in enumerate(whole.splitlines() if text in whole else (), 1):
        if text in line:
            yield f"{path}:{number}: {line.strip()[:LINE_MAX]}"


def _encoded(path: str, text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        refuse(path, "cannot hold this text: it is not valid Unicode")
    if len(data) > WRITE_BYTES_MAX:
        refuse(path, f"would be written {len(data):,} bytes at once; {WRITE_BYTES_MAX:,} may be")
    return data


def _edited(path: str, data: bytes, old: str, new: str) -> bytes:
    wanted, at = _encoded(path, old), data.find(_encoded(path, old))
    if not wanted or at < 0:
        refuse(path, "does not hold the text to be replaced, exactly as it was given")
    if data.rfind(wanted) != at:
        refuse(path, "holds the text more than once; give more of what is around it")
    return data[:at] + _encoded(path, new) + data[at + len(wanted) :]


def _shown(path: str) -> str:
    return os.fsencode(path).decode(errors="replace")
