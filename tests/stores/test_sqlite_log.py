"""The write-ahead log of a store is lengthened before it is full, and holds what it held before."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import Raw

from midflight.journal.events import StepSettled
from midflight.stores.sqlite import SqliteStore
from midflight.stores.sqlite.sqlite_hold import GROWN_BY, NEARLY_FULL
from stores.programs import next_line, started
from stores.runs import Driver, positions, read_all, running

pytestmark = pytest.mark.anyio

STEP = StepSettled(epoch=1, step="s#1", name="s", result=Raw(b'"' + b"x" * 4000 + b'"'))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journals.db"


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


async def steps(driving: Driver, count: int) -> None:
    for _ in range(count):
        await driving.decides(STEP)


async def test_few_commits_lengthen_the_log(path: Path) -> None:
    sizes = []
    async with SqliteStore.open(path) as store:
        driving = await running(store)
        for _ in range(120):
            await driving.decides(STEP)
            sizes.append(log_of(path).stat().st_size)

    assert sizes[-1] > 3 * len(GROWN_BY), "the commits need more than three pieces"
    assert len(set(sizes)) <= sizes[-1] / len(GROWN_BY) + 2


async def test_two_processes_that_take_turns_lose_nothing_while_the_log_is_lengthened(
    path: Path,
) -> None:
    async with SqliteStore.open(path) as ours:
        driving = await running(ours)
        with started("appender.py", str(path), "r-2") as other:
            while (theirs := int(next_line(other))) < 300:
                await driving.decides(STEP)
        assert positions(await read_all(ours)) == list(range(1, driving.state.head + 1))
        assert positions(await read_all(ours, "r-2"))[:theirs] == list(range(1, theirs + 1))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_what_a_killed_process_has_acknowledged_is_in_the_lengthened_log(
    path: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.db"
    with started("appender.py", str(path), "r-1") as writer:
        while (told := int(next_line(writer))) < 200:
            pass
        writer.kill()
        writer.wait(10)
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{kept}{end}")

    assert log_of(kept).read_bytes().endswith(bytes(NEARLY_FULL)), "it has zeros at its end"
    async with SqliteStore.open(kept) as store:
        assert positions(await read_all(store))[:told] == list(range(1, told + 1))


async def test_a_log_that_was_begun_anew_is_not_lengthened_any_more(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        driving = await running(store)
        await steps(driving, 100)
        before = log_of(path).stat().st_size
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(RESTART)")
        await steps(driving, 80)

        assert log_of(path).stat().st_size == before
        assert positions(await read_all(store)) == list(range(1, driving.state.head + 1))


async def test_where_the_log_cannot_be_lengthened_commits_do_it_as_they_need_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    async with SqliteStore.open(path) as store:
        driving = await running(store)
        monkeypatch.setattr("os.pwrite", full)
        await steps(driving, 40)

        assert positions(await read_all(store)) == list(range(1, driving.state.head + 1))
