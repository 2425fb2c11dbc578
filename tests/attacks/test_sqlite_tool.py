"""Hostile statements for the SQLite tool: it is bounded in time, memory and disk, and ends."""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from midflight.tools.declaration import ToolFailed
from midflight.tools.sql import SqlReader

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

LIMIT_S = 0.3
GRACE_S = 4.0  # to end what has run over, on a busy machine
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
SORTED = "SELECT i, randomblob(100000) b FROM n ORDER BY b LIMIT 9999999"
TWO_DISKS = f"{ENDLESS} SELECT count(*) FROM ({SORTED})"

HOSTILE = {
    "a count without end": f"{ENDLESS} SELECT count(*) FROM n",
    "a sort without end": TWO_DISKS,
    "a pattern that tries everything": (
        "SELECT zeros LIKE '%' || hex(zeroblob(24000)) || '1' FROM hostile"
    ),
    "a glob that tries everything": (
        "SELECT zeros GLOB '*' || hex(zeroblob(24000)) || '1' FROM hostile"
    ),
    "one long step after the other": (
        "SELECT " + " + ".join(["length(replace(zeros, '0', '01'))"] * 90) + " FROM hostile, n"
    ),
    "text that grows": (
        "WITH RECURSIVE n(t) AS (SELECT 'x' UNION ALL SELECT t || t || 'x' FROM n) "
        "SELECT count(*) FROM n"
    ),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "shop.db"
    with closing(sqlite3.connect(found)) as connection:
        connection.executescript("CREATE TABLE hostile (zeros TEXT); CREATE TABLE n (i)")
        connection.execute("INSERT INTO hostile VALUES (?)", ["0" * 1_000_000])
        connection.executemany("INSERT INTO n VALUES (?)", [[i] for i in range(1_000)])
        connection.commit()
    return found


@pytest.fixture
def quick(path: Path, request: pytest.FixtureRequest) -> SqlReader:
    return SqlReader(str(path), name=f"sql-{request.node.name}", timeout_s=LIMIT_S)


def at_work() -> set[int]:
    """The processes that this one has started, and theirs."""
    return set(children(os.getpid()))


def children(pid: int) -> Iterator[int]:
    try:
        tasks = [*Path(f"/proc/{pid}/task").iterdir()]
        found = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return
    for child in found:
        yield child
        yield from children(child)


@pytest.mark.parametrize("sql", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_statement_that_goes_on_is_ended_in_time_and_leaves_nothing_at_work(
    quick: SqlReader, sql: str
) -> None:
    before, used = at_work(), cpu_s()
    with anyio.fail_after(LIMIT_S + GRACE_S), pytest.raises(ToolFailed):
        await quick.query(sql)

    assert at_work() <= before
    busy = cpu_s()
    await anyio.sleep(0.15)
    assert cpu_s() - busy < 0.1, f"it goes on; {busy - used:.1f} s so far"


def cpu_s() -> float:
    mine = resource.getrusage(resource.RUSAGE_SELF)
    return mine.ru_utime + mine.ru_stime


async def test_a_cancel_ends_a_statement_that_never_looks_at_the_time(path: Path) -> None:
    patient = SqlReader(str(path), name="sql-patient-attack", timeout_s=600.0)
    before = at_work()
    with anyio.fail_after(GRACE_S):
        with anyio.move_on_after(0.4) as limit:
            await patient.query(HOSTILE["a pattern that tries everything"])
    assert limit.cancelled_caught
    assert at_work() <= before
    busy = cpu_s()
    await anyio.sleep(0.15)
    assert cpu_s() - busy < 0.1


async def test_a_huge_sort_writes_no_temporary_file_and_takes_bounded_memory(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("SQLITE_TMPDIR", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    reader = SqlReader(str(path), name="sql-sorts", timeout_s=20.0, memory_bytes_max=20_000_000)
    free = os.statvfs(tmp_path).f_bavail
    least = [free]

    async def watch() -> None:
        while True:
            least[0] = min(least[0], os.statvfs(tmp_path).f_bavail)
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        with pytest.raises(ToolFailed, match="memory"):
            await reader.query(TWO_DISKS)
        tasks.cancel_scope.cancel()

    assert [*temporary.iterdir()] == []
    used = (free - least[0]) * os.statvfs(tmp_path).f_frsize
    assert used < 200_000_000, "others write to this disk too, but not so much"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT randomblob(1000000000)",
        "SELECT zeroblob(1000000000)",
        "SELECT printf('%.*c', 1000000000, 'x')",
        "SELECT " + ", ".join(["randomblob(9000000)"] * 100),
        "SELECT group_concat(zeros) FROM hostile, n",
    ],
)
async def test_a_huge_value_is_refused_before_it_is_made(quick: SqlReader, sql: str) -> None:
    with anyio.fail_after(LIMIT_S + GRACE_S), pytest.raises(ToolFailed):
        await quick.query(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH '/etc/passwd' AS other",
        "SELECT load_extension('x')",
        "PRAGMA temp_store = 1",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA temp_store_directory = '/tmp'",
        "PRAGMA writable_schema = ON",
        "CREATE TEMP TABLE x AS SELECT 1",
        "SELECT * FROM pragma_temp_store",
    ],
)
async def test_no_statement_lifts_a_bound(quick: SqlReader, sql: str) -> None:
    with pytest.raises(ToolFailed):
        await quick.query(sql)


async def test_a_database_with_a_write_ahead_log_is_read_too(path: Path) -> None:
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("INSERT INTO n VALUES (5000)")
        writer.commit()
        reader = SqlReader(str(path), name="sql-wal")
        assert (await reader.query("SELECT max(i) FROM n")).rows == [[5000]]
    assert (await reader.query("SELECT max(i) FROM n")).rows == [[5000]]


async def test_many_queries_at_once_take_turns(path: Path) -> None:
    reader = SqlReader(str(path), name="sql-crowd", timeout_s=10.0)
    before = len(at_work())
    most = [0]

    async def watch() -> None:
        while True:
            most[0] = max(most[0], len(at_work()) - before)
            await anyio.sleep(0.005)

    async with anyio.create_task_group() as watching:
        watching.start_soon(watch)
        async with anyio.create_task_group() as crowd:
            for _ in range(12):
                crowd.start_soon(reader.query, "SELECT count(*) FROM n")
        watching.cancel_scope.cancel()

    assert most[0] <= 8, "four at a time, each with its supervisor"
