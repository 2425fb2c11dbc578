"""The company that the demo works on, in SQLite, and the demo's folder, which one process uses."""

from __future__ import annotations

import fcntl
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from midflight.errors import InvalidRequest
from midflight.inputs import Clock, wall_clock

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
