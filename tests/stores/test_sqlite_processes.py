"""Several processes on one SQLite file: each hears of the others, none starves."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from midflight.journal.events import CancelRequested, PlanSet
from midflight.journal.phases import Phase
from midflight.journal.record import Recorded
from midflight.stores.protocol import Store
from midflight.stores.sqlite import SqliteStore, sqlite_news
from stores.programs import next_line, started
from stores.runs import cancel, pause, read_all, resume, running

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journals.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    async with SqliteStore.open(path) as opened:
        yield opened


async def cancelled_by_another_process(store: Store, path: Path) -> Recorded:
    """What a watcher here hears when a command in another process cancels the run."""
    driving = await running(store)
    async with store.watch({driving.run: driving.state.head}) as heard:
        with anyio.fail_after(40):
            await anyio.wait_all_tasks_blocked()
            with started("canceller.py", str(path), driving.run):
                async for record in heard:
                    return record
    raise AssertionError("the watch ended")


async def test_a_cancel_from_another_process_is_heard_here(store: Store, path: Path) -> None:
    heard = await cancelled_by_another_process(store, path)

    assert isinstance(heard.event, CancelRequested)


async def test_it_is_heard_by_the_nudge_alone(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_news, "POLL_S", 1000.0)

    heard = await cancelled_by_another_process(store, path)

    assert isinstance(heard.event, CancelRequested)


async def test_it_is_heard_by_polling_alone(store: Store, path: Path) -> None:
    driving = await running(store)
    async with store.watch({driving.run: driving.state.head}) as heard:
        with anyio.fail_after(40):
            boxes = path.with_name("journals.db.d") / "watchers"
            while not (found := list(boxes.iterdir())):  # noqa: ASYNC110 - it is a file we wait for
                await anyio.sleep(0.01)
            found[0].unlink()  # nobody can nudge us any more
            with started("canceller.py", str(path), driving.run):
                async for record in heard:
                    assert isinstance(record.event, CancelRequested)
                    return


async def test_the_box_of_a_dead_process_is_cleared_away(store: Store, path: Path) -> None:
    boxes = path.with_name("journals.db.d") / "watchers"
    (boxes / "dead").touch()

    await running(store)

    assert not (boxes / "dead").exists()


async def test_what_is_folded_here_is_not_trusted_after_another_connection_has_written(
    store: Store, path: Path
) -> None:
    await running(store)
    async with SqliteStore.open(path) as other:
        for _ in range(5):
            await pause(store)
            await resume(other)
        done = await cancel(store)

    records = await read_all(store)
    assert [r.position for r in records] == list(range(1, done.position("r-1") + 1))
    assert (await store.row("r-1")).phase == Phase.CANCELLING


async def test_a_place_in_a_journal_can_be_taken_once_whoever_tries(
    store: Store, path: Path
) -> None:
    await running(store)

    with closing(sqlite3.connect(path)) as db, pytest.raises(sqlite3.IntegrityError):
        db.execute(
            "INSERT INTO events SELECT journal, position, at, version, must_understand, checksum,"
            " NULL, 0, body FROM events WHERE position = 2"
        )


async def test_a_request_can_be_taken_once_in_a_journal_whoever_tries(
    store: Store, path: Path
) -> None:
    await running(store)

    with closing(sqlite3.connect(path)) as db, pytest.raises(sqlite3.IntegrityError):
        db.execute(
            "INSERT INTO events SELECT journal, 99, at, version, must_understand, checksum,"
            " append_id, requested, body FROM events WHERE position = 1"
        )


@pytest.mark.timeout(120)
async def test_a_saturated_process_does_not_starve_another(store: Store, path: Path) -> None:
    """Told by the order on disk, not by a clock.

    Between two appends of ours that follow each other at once, the busy process gets a turn or
    two. A busy machine may let us sleep between them, which is no fault of the turnstile, so nine
    of ten count. What each lock of the turnstile is for is told in ``test_sqlite_writer``.
    """
    ours, busy_runs = 60, 20
    driving = await running(store, "r-ours")
    with started("saturator.py", str(path), str(busy_runs)) as busy:
        assert await anyio.to_thread.run_sync(next_line, busy) == "busy"
        for number in range(ours):
            await driving.decides(PlanSet(epoch=1, steps=(str(number),)))

    with closing(sqlite3.connect(path)) as db:
        places = db.execute(
            "SELECT rowid FROM events WHERE journal = 'r-ours' ORDER BY rowid DESC LIMIT ?", (ours,)
        ).fetchall()
    between = [later - earlier - 1 for (later,), (earlier,) in pairwise(places)]
    assert sorted(between)[len(between) * 9 // 10] <= 5 * busy_runs, between
    assert max(between) > 0, "the other process was not busy at all"
