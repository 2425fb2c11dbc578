"""The changes that the demo makes: tasks in its company's database, files in its folder.

A change is noted under the attempt's key in the same database, so that a check and an undo work in
any later process, also after a kill.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

from msgspec import Struct

from midflight.demo.memo import Books
from midflight.demo.wishes import counted
from midflight.tools.declaration import Done, NotDone
from midflight.tools.options import EffectRecord


class Tasks(Struct, frozen=True):
    """The follow-up tasks of a run after a change."""

    text: str
    open: int


class Written(Struct, frozen=True):
    """A file of the demo's folder."""

    text: str
    path: str


class TaskChanges:
    """Follow-up tasks in the database, changed once for each key."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def make(self, wanted: set[int], key: str) -> Tasks:
        """Open a task for each of these customers (ids), and withdraw the run's other tasks."""
        run = run_of(key)
        with self._books.open() as db:
            db.execute("BEGIN IMMEDIATE")
            done = "SELECT 1 FROM task_changes WHERE key = ?"
            if db.execute(done, [key]).fetchone() is None:
                open_now = "SELECT customer FROM tasks WHERE run = ? AND state = 'open'"
                there = {customer for (customer,) in db.execute(open_now, [run])}
                add = "INSERT INTO tasks (customer, title, run, made_by) "
                add += "SELECT id, 'Call ' || name, ?, ? FROM customers WHERE id = ?"
                new = [(run, key, c) for c in sorted(wanted - there)]
                added = db.executemany(add, new).rowcount if new else 0
                if added != len(new):
                    raise NotDone(f"{len(new) - added} of these customers do not exist")
                drop = "UPDATE tasks SET state = 'withdrawn', withdrawn_by = ? "
                drop += "WHERE run = ? AND state = 'open' AND customer = ?"
                db.executemany(drop, [(key, run, c) for c in there - wanted])
                note = "INSERT INTO task_changes VALUES (?, ?, ?, ?)"
                kept = len(there & wanted)
                db.execute(note, [key, added, len(there - wanted), kept])
        return self._known(key)

    def check(self, done: EffectRecord) -> Done:
        """Return the outcome of a change; raise ``NotDone`` if it was not made."""
        return Done(self._known(done.key))

    def undo(self, done: EffectRecord) -> None:
        """Take a change back: delete the tasks that it made, reopen those that it withdrew."""
        with self._books.open() as db:
            db.execute("DELETE FROM tasks WHERE made_by = ?", [done.key])
            back = "UPDATE tasks SET state = 'open', withdrawn_by = '' WHERE withdrawn_by = ?"
            db.execute(back, [done.key])
            db.execute("DELETE FROM task_changes WHERE key = ?", [done.key])

    def leaves(self, done: EffectRecord) -> Any:
        """Return the tasks that a change touched, as they are now."""
        rows = "SELECT id, customer, title, state FROM tasks WHERE ? IN (made_by, withdrawn_by)"
        with self._books.open() as db:
            return [list(row) for row in db.execute(f"{rows} ORDER BY id", [done.key])]

    def _known(self, key: str) -> Tasks:
        with self._books.open() as db:
            found = db.execute("SELECT * FROM task_changes WHERE key = ?", [key]).fetchone()
        if found is None:
            raise NotDone
        _, added, withdrawn, kept = found
        parts = (
            f"{counted(added, 'task')} created" if added or not (withdrawn or kept) else "",
            f"{withdrawn} withdrawn" if withdrawn else "",
            f"{kept} kept" if kept else "",
        )
        return Tasks(", ".join(filter(None, parts)), added + kept)


class FileChanges:
    """Files that are put in place, with their earlier content for an undo."""

    def __init__(self, folder: Path, books: Books) -> None:
        self._folder = folder
        self._books = books

    def put(self, key: str, path: str, data: bytes) -> None:
        """Put a file in place; its earlier content is kept for an undo, under this key."""
        place = self._folder / path
        before = place.read_bytes() if place.exists() else None
        with self._books.open() as db:
            keep = "INSERT INTO files VALUES (?, ?, ?, ?) "
            keep += "ON CONFLICT (key) DO UPDATE SET digest = excluded.digest"
            db.execute(keep, [key, path, digest(data), before])
        replace(place, data)

    def check(self, done: EffectRecord) -> Done:
        """Return the file if it is there as it was written; else raise ``NotDone``."""
        path, expected, _ = self._noted(done.key)
        if self._look(path) != expected:
            raise NotDone
        return Done(Written(path, path))

    def undo(self, done: EffectRecord) -> None:
        """Put the earlier content back, or remove the file if there was none."""
        path, _, before = self._noted(done.key)
        if before is None:
            (self._folder / path).unlink(missing_ok=True)
        else:
            replace(self._folder / path, before)

    def leaves(self, done: EffectRecord) -> str:
        """Return a digest of the file as it is now, or ``gone``."""
        return self._look(self._noted(done.key)[0])

    def _noted(self, key: str) -> tuple[str, str, bytes | None]:
        with self._books.open() as db:
            asked = "SELECT path, digest, before FROM files WHERE key = ?"
            found: tuple[str, str, bytes | None] | None = db.execute(asked, [key]).fetchone()
        if found is None:
            raise NotDone
        return found

    def _look(self, path: str) -> str:
        place = self._folder / path
        return digest(place.read_bytes()) if place.exists() else "gone"


def run_of(key: str) -> str:
    """Return the run that an attempt's key belongs to: the key begins with the run's id."""
    return key.partition(":")[0]


def digest(data: bytes) -> str:
    """Return a short hash of some content."""
    return blake2b(data, digest_size=8).hexdigest()


def replace(place: Path, data: bytes) -> None:
    """Write a file to the disk first, and then give it its name."""
    place.parent.mkdir(mode=0o700, exist_ok=True)
    fresh = place.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(place)
