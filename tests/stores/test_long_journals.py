"""A verb on a run with a long journal: it is folded once, before anything is locked, not inside."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest

from midflight.control import Control
from midflight.errors import JournalConflict
from midflight.journal import events as e
from midflight.journal.requests import Known, decide
from midflight.journal.state import RunState
from midflight.stores.postgres import PostgresStore
from midflight.stores.postgres.locked_requests import SOON_FOLDED as SOON_ON_POSTGRES
from midflight.stores.postgres.postgres_server import SQL
from midflight.stores.protocol import Draft, Store, Submit, View, Widen
from midflight.stores.sqlite import SqliteStore
from midflight.stores.sqlite.transaction import SOON_FOLDED, Unfolded
from stores.runs import ANN, Driver, cancel, decision, pause, read_all, resume, running

pytestmark = pytest.mark.anyio
SHORT, LONG = 1_000, 8_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journals.db"


async def drive(store: Store, run: str, events: int) -> Driver:
    """A run that has so many events, driven by whoever this store belongs to."""
    driver = await running(store, run)
    await lengthen(driver, events)
    return driver


async def lengthen(driver: Driver, events: int) -> None:
    while (left := events - driver.state.head) > 0:
        steps = [
            e.StepSettled(epoch=1, step=f"step#{driver.state.head + n}", name="step")
            for n in range(min(left, 1000))
        ]
        await driver.decides(*steps)


class Work:
    """Counts what SQLite does on a connection: the one that holds the write lock, or the other."""

    def __init__(self) -> None:
        self.done = 0

    @contextmanager
    def counted(self, connection: sqlite3.Connection) -> Iterator[None]:
        connection.set_progress_handler(self._count, 10)
        yield
        connection.set_progress_handler(None, 0)

    def _count(self) -> None:
        self.done += 1


async def pauses(store: Store, run: str) -> None:
    await pause(store, run)


async def appends(store: Store, run: str) -> None:
    head = (await store.row(run)).head
    await store.append(decision(run, head, e.PlanSet(epoch=1, steps=("more",))))


async def cancels_from_above(store: Store, run: str) -> None:
    """As a cancel of a run that has begun another: the request finds out what else it needs."""

    def answer(view: View) -> Draft:
        if run not in view.states:
            raise Widen(run)
        verdict = decide(view.states[run], e.CancelRequested(who=ANN))
        assert not isinstance(verdict, Known)
        return Draft({run: verdict})

    await store.submit(Submit(f"cancel-{run}", ("r-above",), answer, new=("r-above",)))


@pytest.mark.parametrize("verb", [pauses, appends, cancels_from_above])
async def test_what_is_done_under_the_lock_does_not_grow_with_the_journal(
    path: Path, verb: object
) -> None:
    runs = {"r-short": SHORT, "r-long": LONG}
    async with SqliteStore.open(path) as store:
        for run, events in runs.items():
            await drive(store, run, events)
    work = []
    for run, events in runs.items():
        async with SqliteStore.open(path) as store:  # a process that knows nothing of it yet
            counting = Work()
            with counting.counted(store._files.writing):
                await verb(store, run)  # type: ignore[operator]
            assert (await store.row(run)).head == events + 1
            work.append(counting.done)
    few, many = work
    assert many <= 1.5 * few


async def loads(store: Store, run: str) -> None:
    await store.load(run)


async def cancels(store: Store, run: str) -> None:
    await Control(store).cancel(run)


@pytest.mark.parametrize("verb", [pauses, appends, cancels_from_above, cancels])
async def test_a_verb_reads_a_long_journal_once(path: Path, verb: object) -> None:
    async with SqliteStore.open(path) as store:
        await drive(store, "r-long", LONG)
    work = []
    for asked in (loads, verb):
        async with SqliteStore.open(path) as store:
            counting = Work()
            with counting.counted(store._files.reading.connection):
                await asked(store, "r-long")  # type: ignore[operator]
            work.append(counting.done)
    once, done = work
    assert once > LONG, "or nothing was counted"
    assert done <= 1.1 * once


async def test_a_verb_on_a_run_that_grows_meanwhile_is_decided_on_its_last_event(
    path: Path,
) -> None:
    async with SqliteStore.open(path) as driving, SqliteStore.open(path) as other:
        driver = await drive(driving, "r-1", 4 * SHORT)
        over = anyio.Event()

        async def grow() -> None:
            while not over.is_set():
                with suppress(JournalConflict):  # it was paused: nothing was appended
                    await lengthen(driver, driver.state.head + 2 * SOON_FOLDED)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(grow)
            with anyio.fail_after(20):
                paused = await pause(other, "r-1")
            over.set()
        events = [record.event for record in await read_all(driving, "r-1")]
        assert events[paused.position("r-1") - 1] == e.PauseRequested(who=ANN)
        state = await driving.load("r-1")
        assert isinstance(state, RunState)
        assert state.deliveries[paused.position("r-1")].status == "accepted"


async def test_a_state_that_was_folded_outside_is_used_once_whatever_becomes_of_the_transaction(
    path: Path,
) -> None:
    async with SqliteStore.open(path) as store:
        await drive(store, "r-1", SHORT)
    async with SqliteStore.open(path) as store:
        transaction = store._writer._transaction
        request = Submit("p-1", ("r-1",), lambda _: Draft({"r-1": (e.PauseRequested(who=ANN),)}))
        folded = {"r-1": await store.load("r-1")}
        transaction.begin()
        transaction.submit(request, folded, lambda driver: True)
        transaction.rollback()
        assert folded == {}

        transaction.begin()
        with pytest.raises(Unfolded) as found:
            transaction.submit(request, folded, lambda driver: True)
        transaction.rollback()
        assert found.value.states["r-1"].head == 0
        assert (await pause(store, "r-1")).position("r-1") == SHORT + 1


async def test_a_run_that_was_purged_while_it_was_known_here_is_gone(path: Path) -> None:
    async with SqliteStore.open(path) as here, SqliteStore.open(path) as there:
        driver = await drive(here, "r-1", SHORT)
        await pause(there, "r-1")
        await driver.reads_again()
        await cancel(here, "r-1")
        await driver.reads_again()
        await driver.finishes("cancelled")
        await here.purge(await here.now() + 60)
        await running(here, "r-1")

        assert (await pause(there, "r-1")).position("r-1") == 4


@pytest.mark.postgres
async def test_on_postgres_a_run_that_others_have_driven_on_is_folded_before_it_is_locked(
    postgres_address: str,
) -> None:
    schema = f"test_{uuid4().hex}"
    async with (
        PostgresStore.open(postgres_address, schema=schema) as here,
        PostgresStore.open(postgres_address, schema=schema) as there,
    ):
        driver = await drive(here, "r-1", 10)
        await pauses_and_rests(there, driver)
        await resume(there, "r-1")  # decided under lock: it looks at the switches
        await driver.reads_again()
        await lengthen(driver, 10 + 4 * SOON_ON_POSTGRES)
        await pauses_and_rests(here, driver)
        kept = there._appender.states.get("r-1")
        assert kept is not None
        assert kept.head < 20, "what is kept there is from before"

        read_under_lock = under_lock(there, SQL["read_tails"])
        done = await resume(there, "r-1")

        assert done.position("r-1") == driver.state.head + 1
        assert read_under_lock
        assert not any(read_under_lock)


async def pauses_and_rests(store: Store, driver: Driver) -> None:
    await pause(store, driver.run)
    await driver.reads_again()
    await driver.pauses()


def under_lock(store: PostgresStore, statement: str) -> list[bool]:
    """Whether a transaction was open, each time that this statement was made."""
    seen: list[bool] = []
    for link in store._pool.links:
        connection = link._connection
        if connection is not None:

            def note(made: Any, of: Any = connection) -> None:
                if made.query == statement:
                    seen.append(of.is_in_transaction())

            connection.add_query_logger(note)
    return seen
