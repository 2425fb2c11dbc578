"""The company that the demo works on: its database, the changes to it, and the demo's folder.

A change to tasks or files is noted under the attempt's key in the same database, so that a check
and an undo work in any later process, also after a kill. One process at a time uses the folder.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from midflight.demo.memo import Books
from midflight.demo.wishes import counted
from midflight.errors import InvalidRequest
from midflight.inputs import Clock, wall_clock
from midflight.tools.declaration import Done, NotDone
from midflight.tools.options import EffectRecord

SEED: Final = 8321
CUSTOMERS: Final = 400
MONTHS: Final = 18
REGIONS: Final = {"EU": 40, "US": 38, "APAC": 22}  # and how many of a hundred are there
PLANS: Final = {"starter": (50, 90), "team": (35, 420), "enterprise": (15, 2600)}  # and its price
TRIALS: Final = 12  # of a hundred
LEAVERS: Final = 19
UNHAPPY: Final = 14

FIRST: Final = (
    "Alder", "Basalt", "Cobalt", "Dune", "Ember", "Fathom", "Granite", "Harbour", "Iris", "Juniper",
    "Kestrel", "Larch", "Meridian", "Nimbus", "Ochre", "Pinnacle", "Quarry", "Rowan", "Saffron",
    "Tundra",
)  # fmt: skip
SECOND: Final = (
    "Analytics", "Bakery", "Clinics", "Dental", "Energy", "Freight", "Gardens", "Hotels", "Imports",
    "Joinery", "Kitchens", "Logistics", "Motors", "Optics", "Printing", "Robotics", "Studios",
    "Textiles", "Ventures", "Works",
)  # fmt: skip

SCHEMA: Final = """
CREATE TABLE customers (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, region TEXT NOT NULL, plan TEXT NOT NULL,
    trial INTEGER NOT NULL, status TEXT NOT NULL, churned_on TEXT NOT NULL DEFAULT '',
    logins INTEGER NOT NULL, tickets INTEGER NOT NULL
);
CREATE TABLE revenue (
    customer INTEGER NOT NULL REFERENCES customers, month TEXT NOT NULL, usd INTEGER NOT NULL,
    PRIMARY KEY (customer, month)
) WITHOUT ROWID;
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customers, title TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open', run TEXT NOT NULL, made_by TEXT NOT NULL,
    withdrawn_by TEXT NOT NULL DEFAULT ''
);
CREATE TABLE task_changes (key TEXT PRIMARY KEY, added INTEGER, withdrawn INTEGER, kept INTEGER);
CREATE TABLE files (key TEXT PRIMARY KEY, path TEXT NOT NULL, digest TEXT NOT NULL, before BLOB);
"""


def months_before(now: float) -> list[str]:
    """Return the last whole months, oldest first, each as ``2026-03``."""
    today = datetime.fromtimestamp(now, UTC)
    last = today.year * 12 + today.month - 2  # months since year 0, counted from 0
    return [f"{n // 12}-{n % 12 + 1:02d}" for n in range(last - MONTHS + 1, last + 1)]


def make_company(path: Path, *, seed: int = SEED, clock: Clock = wall_clock) -> None:
    """Make the database, whole or not at all."""
    chance, months = random.Random(seed), months_before(clock())
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with closing(sqlite3.connect(fresh)) as db, db:
        db.executescript(SCHEMA)
        names = [f"{first} {second}" for first in FIRST for second in SECOND]
        chance.shuffle(names)
        for number, name in enumerate(names[:CUSTOMERS], 1):
            _add_customer(db, chance, months, number, name)
    fresh.rename(path)


def _add_customer(
    db: sqlite3.Connection, chance: random.Random, months: list[str], number: int, name: str
) -> None:
    (region,) = chance.choices(list(REGIONS), list(REGIONS.values()))
    (plan,) = chance.choices(list(PLANS), [share for share, _ in PLANS.values()])
    kind = chance.randrange(100)
    trial, left = kind < TRIALS, TRIALS <= kind < TRIALS + LEAVERS
    unhappy = left or chance.randrange(100) < UNHAPPY
    joined = chance.randrange(0, MONTHS - 6) if chance.randrange(3) == 0 else 0
    gone = chance.randrange(max(joined + 2, 3), MONTHS) if left else MONTHS
    status = "trial" if trial else "churned" if left else "active"
    logins = chance.randrange(0, 7) if unhappy else chance.randrange(5, 60)
    tickets = chance.randrange(2, 8) if unhappy else chance.randrange(0, 4)
    churned_on = months[gone] if left else ""
    row = (number, name, region, plan, trial, status, churned_on, logins, tickets)
    db.execute("INSERT INTO customers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    if not trial:
        paid = _payments(chance, PLANS[plan][1], joined, gone, unhappy=unhappy)
        rows = [(number, months[month], usd) for month, usd in paid]
        db.executemany("INSERT INTO revenue VALUES (?, ?, ?)", rows)


def _payments(
    chance: random.Random, price: int, joined: int, gone: int, *, unhappy: bool
) -> Iterator[tuple[int, int]]:
    """Yield a customer's payments: most grow slowly, unhappy ones fall in the last four months."""
    usd = price * chance.uniform(0.7, 2.2)
    for month in range(joined, gone):
        fading = unhappy and month >= gone - 4
        usd *= chance.uniform(0.72, 0.95) if fading else chance.uniform(0.99, 1.03)
        yield month, max(10, round(usd))


# ── changes ──────────────────────────────────────────────────────────────────────────────────


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


# ── the folder ───────────────────────────────────────────────────────────────────────────────

MARK: Final = "demo.lock"  # its presence marks a folder as a demo's, its lock marks it as in use
COMPANY: Final = "company.db"
RUNS: Final = "runs.db"
OURS: Final = ("company.*", "runs.db*", "memos", "slides", "outbox", "work", "keys.*", "demo.log")
"""All that a demo ever writes; a fresh start removes this and nothing else."""


@contextmanager
def taken(folder: Path, *, fresh: bool = False, clock: Clock = wall_clock) -> Iterator[Path]:
    """Hold the folder, with a company in it; ``fresh`` begins with a new one."""
    made = _made(folder)
    with (made / MARK).open("a") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidRequest(
                f"a demo is running in {folder} already. Open the URL that it has printed, end it "
                "with Ctrl-C there, or name another folder with --folder. Nothing was changed."
            ) from None
        if fresh:
            _clear(made)
        if not (made / COMPANY).exists():
            make_company(made / COMPANY, clock=clock)
        yield made


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / MARK).exists():
            raise InvalidRequest(
                f"{folder} holds things that are not a demo's. Name another folder with --folder. "
                "Nothing was changed."
            )
        folder.chmod(0o700)
    except OSError as error:
        raise InvalidRequest(
            f"cannot use {folder}: {error.strerror}. Name another folder with --folder. "
            "Nothing was started."
        ) from None
    return folder.resolve()


def _clear(folder: Path) -> None:
    for pattern in OURS:
        for path in folder.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
