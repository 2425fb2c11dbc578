"""Measures the cost of a durable step and the growth of a long run, and describes the machine."""

from __future__ import annotations

import os
import platform
import resource
import sqlite3
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import anyio.to_thread
from msgspec import Struct

from midflight.kit.subject import Subject
from midflight.kit.witnesses import happened


def described() -> str:
    """Return the machine in a few words."""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    first = f", run before other programs (nice {nice})" if nice < 0 else ""
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {system}{first}"


class Load:
    """Measures the share of the machine that others use; without it the figures say little."""

    def __init__(self) -> None:
        self.before = self.now()

    @staticmethod
    def now() -> tuple[float, float, float]:
        """Return the seconds of all cores, of them busy, and of them busy for us."""
        line = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0]
        ticks = [int(word) for word in line.split()[1:9]]
        waiting = ticks[3] + ticks[4]
        ours = 0.0
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
            used = resource.getrusage(who)
            ours += used.ru_utime + used.ru_stime
        per_s = os.sysconf("SC_CLK_TCK")
        return sum(ticks) / per_s, (sum(ticks) - waiting) / per_s, ours

    def of_others_pct(self, also_ours_s: float = 0.0) -> float:
        """Return the share of all cores that was busy, but not for us or for ended children.

        ``also_ours_s`` is the time that children have used that still run.
        """
        all_of_it, busy, ours = (b - a for a, b in zip(self.before, self.now(), strict=True))
        return max(0.0, 100 * (busy - ours - also_ours_s) / all_of_it)


ROUNDS: Final = 3
STEPS_ALONE: Final = 200
STEPS_TOGETHER: Final = 20
TOGETHER: Final = 50
RAW: Final = 400
LOG_ROUND: Final = 1_500  # commits; SQLite begins its log anew at a thousand pages
RAW_NAME: Final = "raw SQLite"
GROWTH: Final = (200, 1_000, 5_000)
LONG_S: Final = 600.0
PAYLOAD: Final = "x" * 200
SHAPES: Final = {"on_langgraph": ("last", "list", "delta")}
"""An adapter -> the ways to keep the results of its steps, where its user has the choice."""

HEAVY: Final = {("list", 5_000)}
"""Left out: a list in the state is written anew at every step, gigabytes in all."""


class Figure(Struct, omit_defaults=True):
    """One measurement of a runtime that persists."""

    runtime: str
    shape: str
    what: str
    steps: int
    runs: int = 1
    per_s: float = 0.0
    against_raw: float = 0.0
    cpu_ms: float = 0.0
    """Processor time of a step, which a busy machine does not change."""
    loop_pct: float = 0.0
    """The share of it that the thread of the event loop has used."""
    raw_per_s: float = 0.0
    disk_bytes: int = 0
    resume_ms: float = 0.0
    load_of_others_pct: float = 0.0
    syncs: str = ""
    """The settings of the connections that the runtime writes by, as the database tells them."""
    sitting: int = 0


async def measure(subject: Subject, say: Callable[[str], None]) -> list[Figure]:
    """Return all figures of one runtime."""
    found = []
    syncs = await subject.ask("syncs")
    say(f"  {syncs}")
    for shape in SHAPES.get(subject.kind.adapter, ("",)):
        for runs, count in ((1, STEPS_ALONE), (TOGETHER, STEPS_TOGETHER)):
            figure = await _speed(subject, shape, runs, count)
            figure.syncs = syncs
            speed = f"{figure.per_s:.0f} steps/s, {figure.against_raw:.2f} of raw"
            say(f"  {shape} {runs} at once: {speed}, {figure.cpu_ms:.2f} ms of CPU a step")
            found.append(figure)
        for count in GROWTH:
            if (shape, count) not in HEAVY:
                figure = await _growth(subject, shape, count)
                say(f"  {shape} {count}: {figure.disk_bytes:,} B, {figure.resume_ms:.1f} ms")
                found.append(figure)
    return found + [await anyio.to_thread.run_sync(raw_growth, subject.folder, n) for n in GROWTH]


async def _speed(subject: Subject, shape: str, runs: int, count: int) -> Figure:
    await subject.ask("steps", runs, count, shape, within_s=LONG_S)  # fills its log
    rates, raws, load = [], [], Load()
    used, looped = subject.cpu_s(), subject.cpu_s(loop_only=True)
    for _ in range(ROUNDS):
        before = await anyio.to_thread.run_sync(raw_per_s, subject.folder)
        began = time.monotonic()
        await subject.ask("steps", runs, count, shape, within_s=LONG_S)
        rate = runs * count / (time.monotonic() - began)
        after = await anyio.to_thread.run_sync(raw_per_s, subject.folder)
        rates.append(rate)
        raws.append((before + after) / 2)
    used, looped = subject.cpu_s() - used, subject.cpu_s(loop_only=True) - looped
    ratios = [rate / raw for rate, raw in zip(rates, raws, strict=True)]
    return Figure(
        subject.kind.name,
        shape,
        "speed",
        count,
        runs,
        per_s=round(statistics.median(rates), 1),
        against_raw=round(statistics.median(ratios), 4),
        cpu_ms=round(used * 1000 / (ROUNDS * runs * count), 3),
        loop_pct=round(100 * looped / used, 1),
        raw_per_s=round(statistics.median(raws), 1),
        load_of_others_pct=round(load.of_others_pct(used), 1),
    )


async def _growth(subject: Subject, shape: str, count: int) -> Figure:
    """Measure the bytes that a run adds on disk, and the time to its next step after a crash."""
    run = f"grown{shape}{count}"
    await _begin_anew(subject)
    before = await _size(subject)
    await subject.ask("grow", run, count, shape, within_s=LONG_S)
    await _begin_anew(subject)
    size = await _size(subject) - before
    began = time.monotonic()
    await subject.ask("regrow", run, count, shape, within_s=LONG_S)
    await subject.ledger.until(run, happened("reached"), LONG_S)
    reached = next(one.at for one in subject.ledger.of(run) if one.what == "reached")
    took = (reached - began) * 1000
    name = subject.kind.name
    return Figure(name, shape, "growth", count, disk_bytes=size, resume_ms=round(took, 2))


async def _begin_anew(subject: Subject) -> None:
    """Kill its process, bring SQLite's logs into their files, start another process."""
    await subject.kill()
    for path in subject.folder.glob("*.db"):
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    await subject.restart()


async def _size(subject: Subject) -> int:
    size: int = await subject.ask("size", within_s=LONG_S)
    return size


def raw_per_s(folder: Path) -> float:
    """Return the commits a second of plain SQLite.

    Its log has gone round before they are counted: a growing file syncs slower.
    """
    path = folder / "raw.db"
    new = not path.exists()
    with closing(_raw(path)) as db:
        if new:
            _commits(db, LOG_ROUND)
        began = time.monotonic()
        _commits(db, RAW)
        return RAW / (time.monotonic() - began)


def raw_growth(folder: Path, count: int) -> Figure:
    """Measure the same for plain SQLite: the bytes of its rows, and the time to open and commit."""
    path = folder / f"raw{count}.db"
    with closing(_raw(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        empty = path.stat().st_size
        _commits(db, count)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size - empty
    began = time.monotonic()
    with closing(_raw(path)) as db:
        _commits(db, 1)
        took = (time.monotonic() - began) * 1000
    return Figure(RAW_NAME, "", "growth", count, disk_bytes=size, resume_ms=round(took, 2))


def _raw(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE IF NOT EXISTS steps (n INTEGER PRIMARY KEY, text TEXT)")
    return db


def _commits(db: sqlite3.Connection, count: int) -> None:
    for _ in range(count):
        db.execute("INSERT INTO steps (text) VALUES (?)", (PAYLOAD,))
