"""Stored folds: they come back whole or not at all, and nothing depends on them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from midflight.journal import events as e
from midflight.journal.fold import advance
from midflight.journal.state import RunState
from midflight.journal.stored_fold import FoldRows, StoredFold, rows_of
from midflight.runtime.replay.cursor import Cursor
from midflight.runtime.replay.stored_history import folded
from midflight.stores.protocol import PAGE, Store
from midflight.stores.sqlite import SqliteStore
from stores.runs import RUN, Driver, cancel, pause, read_all, running

pytestmark = pytest.mark.anyio

LONG = PAGE + 100


async def long_run(store: Store, events: int = LONG) -> Driver:
    """A run that is longer than a page."""
    driver = await running(store)
    await lengthen(driver, events)
    return driver


async def lengthen(driver: Driver, events: int) -> None:
    head = driver.state.head
    steps = (e.StepSettled(epoch=1, step=f"s#{n}", name="s") for n in range(head, events))
    await driver.decides(*steps)


class Folding:
    """Folds the run again and again, as its driver does."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.state = RunState(RUN)
        self.history = Cursor()
        self.known: StoredFold | None = None

    async def rows(self) -> FoldRows:
        """What is to be written for the run as it is."""
        for record in (await read_all(self.store))[self.state.head :]:
            advance(self.state, record)
            self.history.hear(record)
        before, self.known = self.known, folded(self.state, self.history, self.known)
        since = before.position if before is not None else 0
        return rows_of(self.known, since, len(self.known.parts) - 1)

    async def keep(self) -> bool:
        return await self.store.keep_fold(await self.rows())


async def test_a_fold_comes_back_as_it_was_kept(store: Store) -> None:
    await long_run(store)
    folding = Folding(store)

    assert await store.fold(RUN) is None
    assert await folding.keep()
    assert await store.fold(RUN) == folding.known


async def test_a_later_fold_adds_a_part_to_the_one_before(store: Store) -> None:
    driver = await long_run(store)
    folding = Folding(store)
    await folding.keep()
    await lengthen(driver, LONG + 50)
    later = await folding.rows()

    assert [row.number for row in later.rows] == [0, 2]
    assert await store.keep_fold(later)
    assert await store.fold(RUN) == folding.known


async def test_a_fold_that_does_not_follow_the_stored_one_changes_nothing(store: Store) -> None:
    driver = await long_run(store)
    folding, other = Folding(store), Folding(store)
    await folding.keep()
    first = await folding.store.fold(RUN)
    await other.rows()
    await lengthen(driver, LONG + 50)
    await folding.rows()  # which is lost
    await lengthen(driver, LONG + 100)

    assert not await folding.keep()
    assert await store.fold(RUN) == first


async def test_a_fold_written_anew_replaces_all_of_the_one_before(store: Store) -> None:
    driver = await long_run(store)
    folding, anew = Folding(store), Folding(store)
    await folding.keep()
    await lengthen(driver, LONG + 50)
    await folding.keep()
    await lengthen(driver, LONG + 100)

    assert await anew.keep()
    assert await store.fold(RUN) == anew.known


async def test_no_fold_is_kept_beyond_the_end_of_its_journal(store: Store) -> None:
    await long_run(store)
    rows = await Folding(store).rows()

    assert not await store.keep_fold(replace(rows, position=rows.position + 1))
    assert await store.fold(RUN) is None


async def test_a_fold_of_which_the_event_has_changed_is_ignored(tmp_path: Path) -> None:
    """As when a backup was put back, and the run went on in another way."""
    path = tmp_path / "journals.db"
    async with SqliteStore.open(path) as store:
        await long_run(store)
        await Folding(store).keep()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE events SET checksum = 1 WHERE position = ?", (LONG,))
    async with SqliteStore.open(path) as store:
        assert await store.fold(RUN) is None


async def test_a_purge_removes_a_fold_with_its_journal(store: Store) -> None:
    driver = await long_run(store)
    await Folding(store).keep()
    await driver.finishes("done")
    await store.purge(await store.now() + 60)

    assert await store.fold(RUN) is None


async def test_a_run_is_the_same_with_its_fold_and_without(store: Store) -> None:
    driver = await long_run(store)
    without = await store.load(RUN)
    await Folding(store).keep()

    assert await store.load(RUN) == without
    await lengthen(driver, 2 * LONG)
    await pause(store)
    await cancel(store)
    assert await store.load(RUN) == await from_the_journal(store)


async def from_the_journal(store: Store) -> RunState:
    state = RunState(RUN)
    for record in await read_all(store):
        advance(state, record)
    return state
