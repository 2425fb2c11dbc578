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
from functools import partial
from typing import Any, Final

from msgspec import Struct
from typing_extensions import override

from midflight.tools.declaration import (
    ChangedSince,
    Done,
    NotDone,
    Tool,
    ToolFailed,
    ToolRefused,
    Unclear,
    tool,
)
from midflight.tools.file_replacement import Kept, Replacer
from midflight.tools.folder import Content, Folder, Reading, refuse, version_of
from midflight.tools.options import EffectRecord

FILE_BYTES_MAX: Final = 10_000_000
WRITE_BYTES_MAX: Final = 500_000  # arguments are in the journal

LOST: Final = "the earlier content of {} is not kept any more. The file was not changed."
Takes = tuple[str, ...]
"""The names of a tool's parameters: arguments may have been given by position."""


class FileChanged(Struct, frozen=True):
    """A file after a change; its version is empty when it is gone."""

    path: str
    version: str


class Workspace(Reading):
    """Tools for the files of a folder, and for nothing outside it."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        name: str = "workspace",
        approval: bool | str = False,
        file_bytes_max: int = FILE_BYTES_MAX,
        untrusted: bool = False,
    ) -> None:
        """``untrusted`` says that strangers may have written what is in the files."""
        self.name = name
        self._untrusted = untrusted
        self._folder = Folder(folder, size_max=file_bytes_max)
        self._replacer = Replacer(self._folder)
        self._keep = self._replacer.keep
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

    @override
    def __eq__(self, other: object) -> bool:
        """The same folder under the same name is the same workspace, as after a reload."""
        if not isinstance(other, Workspace):
            return NotImplemented
        return (self.name, self._folder.path) == (other.name, other._folder.path)

    @override
    def __hash__(self) -> int:
        return hash((self.name, self._folder.path))

    def _reads(self, function: Any, name: str) -> Tool:
        declare = tool(effect="read", name=f"{self.name}.{name}", untrusted=self._untrusted)
        return declare(function)

    def _changes(self, function: Any, name: str, approval: bool | str) -> Tool:
        takes = tuple(inspect.signature(function).parameters)
        moves = "to" in takes
        return tool(  # layer crash-looked-into-before-person
            effect="once",
            name=f"{self.name}.{name}",
            label="file",
            describe="file {path} to {to}" if moves else "file {path}",
            approval=approval,
            check=partial(self._check_move if moves else self._check, takes),
            settles_within=0,  # nothing leaves this machine
            undo=partial(self._undo_move if moves else self._undo, takes),
            fingerprint=partial(self._leaves, takes),
        )(function)

    # ── changing ─────────────────────────────────────────────────────────────────────────────

    def _write_file(
        self, path: str, text: str, version: str = "", idempotency_key: str = ""
    ) -> FileChanged:
        """Write a text file of the workspace as a whole.

        ``version`` is what read_file gave for the content that is replaced; leave it empty for a
        new file, which must not exist yet. Folders on the way are made.
        """
        data = _encoded(path, text)
        with self._replacer.alone():
            before = self._expected(path, version)
            self._put(path, data, before, idempotency_key)
        return FileChanged(path, version_of(data))

    def _edit_file(
        self, path: str, old: str, new: str, version: str, idempotency_key: str = ""
    ) -> FileChanged:
        """Replace a text that occurs exactly once in a file of the workspace.

        ``version`` is what read_file, or the last change, gave for the file.
        """
        with self._replacer.alone():
            before = self._expected(path, version)
            if before is None:
                refuse(path, "needs the version that read_file gives")
            data = _edited(path, before.data, old, new)
            self._put(path, data, before, idempotency_key)
        return FileChanged(path, version_of(data))

    def _delete_file(self, path: str, version: str, idempotency_key: str = "") -> FileChanged:
        """Delete a file of the workspace; ``version`` is what read_file gave for it."""
        with self._replacer.alone():
            before = self._expected(path, version)
            if before is None:
                refuse(path, "is not in the workspace")
            self._keep.save(idempotency_key, before, [])
            self._replacer.remove(path)
        return FileChanged(path, "")

    def _move_file(
        self, path: str, to: str, version: str, idempotency_key: str = ""
    ) -> FileChanged:
        """Move or rename a file of the workspace, never over another one.

        ``version`` is what read_file gave for it.
        """
        with self._replacer.alone():
            if self._expected(path, version) is None:
                refuse(path, "is not in the workspace")
            made = self._folder.missing_folders(to)
            self._keep.save(idempotency_key, None, made)
            with self._unmaking(made):
                self._replacer.move(path, to)
        return FileChanged(to, version)

    def _expected(self, path: str, version: str) -> Content | None:
        """Return the file as it is, if the caller has seen this version of it."""
        now = self._folder.content(path)
        if now is None and version:
            refuse(path, "is not there any more; leave the version empty to write it anew")
        if now is not None and not version:
            refuse(path, "is there already; read it, and give its version to replace it")
        if now is not None and now.version != version:  # layer written-only-over-version-read
            refuse(path, f"is not at version {version[:40]} (any more); read it again")
        return now

    def _put(self, path: str, data: bytes, before: Content | None, key: str) -> None:
        if len(data) > self._folder.size_max:
            refuse(path, f"would have {len(data):,} bytes, more than {self._folder.size_max:,}")
        made = self._folder.missing_folders(path)
        self._keep.save(key, before, made)
        with self._unmaking(made):
            self._replacer.put(path, Content(data, before.mode if before else None), before)

    @contextmanager
    def _unmaking(self, made: list[str]) -> Iterator[None]:
        """Remove the folders that were made for a change, if the change is refused."""
        try:
            yield
        except ToolRefused:
            self._replacer.remove_folders(made)
            raise

    # ── was it done, and taking it back ──────────────────────────────────────────────────────

    def _look(self, path: str) -> str:
        content = self._folder.content(path)
        return content.version if content is not None else ""

    def _leaves(self, takes: Takes, performed: EffectRecord) -> list[str]:
        given = _given(takes, performed)
        return [self._look(given[name]) for name in ("path", "to") if name in given]

    def _check(self, takes: Takes, performed: EffectRecord) -> Any:
        """Tell from the present content of the file whether the change was made."""
        given = _given(takes, performed)
        path, before = given["path"], given.get("version", "")
        kept = self._keep.load(performed.key)
        try:
            after, now = self._after(given, kept), self._look(path)
        except ToolRefused as error:  # layer check-cannot-look-says-nothing
            return Unclear(str(error))
        if after is not None and now == after and (kept is not None or after):
            return Done(FileChanged(path, now))
        return NotDone() if now == before else Unclear(f"{path} was changed by others since")

    def _undo(self, takes: Takes, performed: EffectRecord) -> None:
        """Put back exactly what was there, unless others have changed it since."""
        given = _given(takes, performed)
        path, before = given["path"], given.get("version", "")
        with self._replacer.alone():
            kept = self._keep.load(performed.key)
            now = self._folder.content(path)
            version = now.version if now is not None else ""
            if version == before:
                return
            after = self._after(given, kept)
            if after is None:
                raise ToolFailed(LOST.format(path))
            if version != after:  # layer undo-leaves-alone-what-others-have
                raise ChangedSince(path)
            self._restore(path, before, now, kept)

    def _restore(self, path: str, before: str, now: Content | None, kept: Kept | None) -> None:
        if not before:
            self._replacer.remove(path)
            self._replacer.remove_folders(kept.made if kept else [])
        elif kept is None or kept.content.version != before:
            raise ToolFailed(LOST.format(path))
        else:
            self._replacer.put(path, kept.content, now)

    def _after(self, given: dict[str, Any], kept: Kept | None) -> str | None:
        """Return the version that the change leads to; None if that cannot be told."""
        if "text" in given:
            return version_of(_encoded(given["path"], given["text"]))
        if "old" not in given:
            return ""
        if kept is None or kept.content.version != given["version"]:  # layer what-put-back
            return None
        return version_of(_edited(given["path"], kept.data, given["old"], given["new"]))

    def _check_move(self, takes: Takes, performed: EffectRecord) -> Any:
        given = _given(takes, performed)
        path, to, version = given["path"], given["to"], given["version"]
        try:
            here, there = self._look(path), self._look(to)
        except ToolRefused as error:
            return Unclear(str(error))
        if not here and there == version:
            return Done(FileChanged(to, version))
        return NotDone() if here == version else Unclear(f"{path} was changed by others since")

    def _undo_move(self, takes: Takes, performed: EffectRecord) -> None:
        given = _given(takes, performed)
        path, to, version = given["path"], given["to"], given["version"]
        with self._replacer.alone():
            here, there = self._look(path), self._look(to)
            if here == version and not there:
                return
            if there != version or here not in {"", version}:
                raise ChangedSince(path if here else to)
            self._replacer.move(to, path)
            kept = self._keep.load(performed.key)
            self._replacer.remove_folders(kept.made if kept else [])


def _given(takes: Takes, performed: EffectRecord) -> dict[str, Any]:
    """The arguments by their names."""
    return dict(zip(takes, performed.args, strict=False)) | performed.kwargs


def _encoded(path: str, text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        refuse(path, "cannot hold this text: it is not valid Unicode")
    if len(data) > WRITE_BYTES_MAX:
        refuse(
            path,
            f"cannot be written with {len(data):,} bytes at once; at most {WRITE_BYTES_MAX:,} "
            "are allowed",
        )
    return data


def _edited(path: str, data: bytes, old: str, new: str) -> bytes:
    wanted, at = _encoded(path, old), data.find(_encoded(path, old))
    if not wanted or at < 0:
        refuse(path, "does not hold the text to be replaced, exactly as it was given")
    if data.rfind(wanted) != at:
        refuse(path, "holds the text more than once; give more of what is around it")
    return data[:at] + _encoded(path, new) + data[at + len(wanted) :]
