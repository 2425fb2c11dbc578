"""Stored folds: they come back whole or not at all, and nothing depends on them."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from msgspec.structs import replace

from midflight.journal import events as e
from midflight.journal.fold import advance
from midflight.journal.state import RunState
from midflight.journal.stored_fold import FoldRows, StoredFold, rows_of
from midflight.runtime.replay.cursor import Cursor
from midflight.runtime.replay.stored_history import folded
from midflight.stores.postgres import PostgresStore, links, postgres_server
from midflight.stores.postgres.locked_requests import write_fold
from midflight.stores.protocol import PAGE, Store
from midflight.stores.sqlite import SqliteStore
from stores.halfway import by_hand, not_committed, stores_wait
from stores.runs import ANN, RUN, Driver, ask, cancel, pause, read_all, running

pytestmark = pytest.mark.anyio

LONG = PAGE + 100
SOON_S = 10.0  # what waits for nobody is done by then, also on a busy machine


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
        return rows_of(self.known, since, len(self.known.parts) - 1, self.state.at)

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


async def test_of_two_that_write_at_once_one_is_told_that_nothing_was_stored(store: Store) -> None:
    driver = await long_run(store)
    first, second = Folding(store), Folding(store)
    assert await first.keep()
    await second.rows()
    await lengthen(driver, LONG + 50)
    shorter = await first.rows()
    await lengthen(driver, LONG + 100)
    longer = await second.rows()
    answers: dict[int, bool] = {}

    async def keep(rows: FoldRows) -> None:
        answers[rows.position] = await store.keep_fold(rows)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep, shorter)
        tasks.start_soon(keep, longer)

    assert sorted(answers.values()) == [False, True]
    kept = first if answers[LONG + 50] else second
    assert await store.fold(RUN) == kept.known


async def test_a_fold_whose_past_is_of_another_journal_is_not_kept(store: Store) -> None:
    """As when a backup was put back, while a driver went on from what had come after it."""
    driver = await long_run(store, LONG + 50)
    of_another = await Folding(store).rows()
    await driver.finishes("done")
    await store.purge(await store.now() + 60)
    driver = await long_run(store)
    folding = Folding(store)
    assert await folding.keep()
    await lengthen(driver, LONG + 100)

    assert not await store.keep_fold(of_another)
    assert await store.fold(RUN) == folding.known


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


# ── beside others, on Postgres ───────────────────────────────────────────────────────────────


@pytest.fixture
def schema() -> str:
    return f"test_{uuid4().hex}"


@pytest.fixture
async def server(
    postgres_address: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresStore]:
    """Who waits here waits until it is let go, however long this machine takes for that."""
    monkeypatch.setitem(postgres_server.SETTINGS, "lock_timeout", "1min")
    monkeypatch.setattr(links, "MIND_S", 1000.0)
    monkeypatch.setattr(links, "PATIENCE_S", 1000.0)
    async with PostgresStore.open(postgres_address, schema=schema) as opened:
        yield opened


@asynccontextmanager
async def written(address: str, schema: str, rows: FoldRows) -> AsyncIterator[None]:
    """Another process has written this fold, and commits it when the block ends."""
    async with by_hand(address, schema) as connection, connection.transaction():
        assert await write_fold(connection, rows)
        yield


@pytest.mark.postgres
async def test_appends_and_a_cancel_go_on_while_a_fold_is_written(
    server: PostgresStore, postgres_address: str, schema: str
) -> None:
    beside = [await running(server, f"r-{n}", driver=f"d-{n}") for n in range(2, 8)]
    driver = await long_run(server)
    folding = Folding(server)
    rows = await folding.rows()

    async with written(postgres_address, schema, rows):
        with anyio.fail_after(SOON_S):
            await driver.decides(e.StepSettled(epoch=1, step="alone", name="s"))
            async with anyio.create_task_group() as tasks:
                for each in (*beside, driver):  # those that come last go to the server together
                    tasks.start_soon(each.decides, e.StepSettled(epoch=1, step="s", name="s"))
            await pause(server)
            await ask(server, e.CancelRequested(who=ANN), within=("all",))
        assert await server.fold(RUN) is None

    assert await server.fold(RUN) == folding.known
    assert (await server.row(RUN)).head == LONG + 4


@pytest.mark.postgres
async def test_a_fold_that_had_to_wait_is_compared_with_the_one_it_waited_for(
    server: PostgresStore, postgres_address: str, schema: str
) -> None:
    driver = await long_run(server)
    first, second = Folding(server), Folding(server)
    assert await first.keep()
    await second.rows()
    await lengthen(driver, LONG + 50)
    shorter = await first.rows()
    await lengthen(driver, LONG + 100)
    longer = await second.rows()
    answers: list[bool] = []

    async def keep() -> None:
        answers.append(await server.keep_fold(longer))

    async with anyio.create_task_group() as tasks, written(postgres_address, schema, shorter):
        tasks.start_soon(keep)
        assert await stores_wait(postgres_address, 1)

    assert answers == [False]
    assert await server.fold(RUN) == first.known


@pytest.mark.postgres
async def test_a_fold_whose_journal_is_being_purged_is_not_kept(
    server: PostgresStore, postgres_address: str, schema: str
) -> None:
    await long_run(server)
    rows = await Folding(server).rows()
    answers: list[bool] = []

    async def keep() -> None:
        answers.append(await server.keep_fold(rows))

    purge = "DELETE FROM journals WHERE journal = $1"
    async with (
        anyio.create_task_group() as tasks,
        not_committed(postgres_address, schema, purge, RUN, keep=True),
    ):
        tasks.start_soon(keep)
        assert await stores_wait(postgres_address, 1)

    assert answers == [False]
