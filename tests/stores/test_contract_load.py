"""Reading: pages without a gap, whole journals folded, and a time that never runs back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from midflight.errors import JournalNotFound
from midflight.inputs import Clock
from midflight.journal import events as e
from midflight.journal.fold import fold
from midflight.journal.phases import Cause
from midflight.journal.record import Limits
from midflight.journal.state import RunState
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import PAGE, Store, empty_state
from midflight.stores.sqlite import SqliteStore
from stores.backends import DURABLE, Open
from stores.runs import (
    ANN,
    OLGA,
    RUN,
    THREAD,
    Driver,
    ask,
    open_thread,
    outcome,
    pause,
    positions,
    read_all,
    resume,
    run_state,
    running,
    say,
    start,
    tell,
    thread_state,
)

pytestmark = pytest.mark.anyio

LONG = 2 * PAGE + 7


async def long_run(store: Store) -> Driver:
    """A run with more events than two pages hold."""
    driver = await running(store)
    steps = [e.StepSettled(epoch=1, step=f"s#{n}", name=f"s{n}") for n in range(LONG - 3)]
    for first in range(0, len(steps), 400):
        await driver.decides(*steps[first : first + 400])
    return driver


async def test_a_page_is_full_unless_it_is_the_last(store: Store) -> None:
    await long_run(store)

    pages = [await store.read(RUN, after) for after in (0, PAGE, 2 * PAGE, LONG)]

    assert [len(page) for page in pages] == [PAGE, PAGE, 7, 0]
    assert [r.position for page in pages for r in page] == list(range(1, LONG + 1))


async def test_a_reader_may_ask_for_less(store: Store) -> None:
    await running(store)

    assert positions(await store.read(RUN, after=1, limit=1)) == [2]
    assert positions(await store.read(RUN, limit=2)) == [1, 2]
    assert await store.read(RUN, after=3) == []
    assert await store.read(RUN, after=99) == []


async def test_an_unknown_journal_is_not_an_empty_one(store: Store) -> None:
    for after in (0, 5):
        with pytest.raises(JournalNotFound):
            await store.read("r-unknown", after)
    with pytest.raises(JournalNotFound):
        await store.load("t-unknown")


async def test_load_is_the_fold_of_everything(store: Store) -> None:
    await long_run(store)
    await pause(store)

    state = await store.load(RUN)

    assert state == fold(empty_state(RUN), await read_all(store))
    assert isinstance(state, RunState)
    assert (state.head, state.spent.steps) == (LONG + 1, LONG - 3)


async def test_a_thread_is_loaded_as_one(store: Store) -> None:
    await open_thread(store, title="Invoices")
    await say(store, "hello")

    state = await thread_state(store)

    assert (state.title, [m.text for m in state.unread.values()]) == ("Invoices", ["hello"])


async def test_a_loaded_state_belongs_to_its_caller(store: Store) -> None:
    await running(store)
    mine = await run_state(store)
    mine.brief = "something else"
    mine.holds.update(Cause)
    mine.head = 99

    assert (await run_state(store)).brief == "Send the invoices"
    assert (await pause(store)).position(RUN) == 4
    assert (await store.row(RUN)).phase == "pausing"


async def test_journals_do_not_see_each_other(store: Store) -> None:
    await running(store, "r-1")
    await running(store, "r-10")
    await running(store, "r-1%")
    await pause(store, "r-10")

    assert [(await store.row(run)).head for run in ("r-1", "r-10", "r-1%")] == [3, 4, 3]


@DURABLE
async def test_everything_is_there_for_whoever_opens_the_store_next(open_store: Open) -> None:
    async with open_store() as store:
        await long_run(store)
        await open_thread(store)
        before = [await store.load(journal) for journal in (RUN, THREAD)]
        rows = [await store.row(journal) for journal in (RUN, THREAD)]
        await store.kill("agent:painter", OLGA)

    async with open_store() as store:
        assert [await store.load(journal) for journal in (RUN, THREAD)] == before
        assert [await store.row(journal) for journal in (RUN, THREAD)] == rows
        assert [switch.scope for switch in await store.switches()] == ["agent:painter"]
        assert (await pause(store)).position(RUN) == LONG + 1


@DURABLE
async def test_what_others_have_written_is_read_at_once(open_store: Open) -> None:
    async with open_store() as here, open_store() as there:
        await running(here)
        for _ in range(3):
            done = await ask(there, e.LimitsRaised(who=ANN, limits=Limits(steps=9)))
            assert (await read_all(here))[-1] == done.records[0]
            assert (await here.row(RUN)).head == done.position(RUN)


async def test_an_error_of_the_caller_comes_out_of_the_store_as_it_is(open_store: Open) -> None:
    with pytest.raises(LookupError):
        async with open_store() as store:
            await start(store)
            raise LookupError


# ── time ─────────────────────────────────────────────────────────────────────────────────────


async def test_events_carry_the_stores_time(store: Store) -> None:
    before = await store.now()
    done = await running(store)
    after = await store.now()

    for record in await read_all(store):
        assert before - 1 <= record.at <= after + 1  # a store may keep its server's time by guess
    assert (await store.row(RUN)).updated_at == done.state.at


async def test_time_never_runs_back_within_a_journal(store: Store) -> None:
    driver = await running(store)
    attempts = [await driver.begins(f"s{number}") for number in range(30)]

    async with anyio.create_task_group() as tasks:
        for attempt in attempts:
            tasks.start_soon(tell, store, outcome(attempt))

    times = [record.at for record in await read_all(store)]
    assert times == sorted(times)


class SetClock:
    """A clock that somebody sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def open_with(clock: Clock, kind: str, folder: Path) -> AsyncIterator[Store]:
    if kind == "memory":
        yield MemoryStore(clock)
    else:
        async with SqliteStore.open(folder / "journals.db", clock=clock) as store:
            yield store


@pytest.mark.parametrize("kind", ["memory", "sqlite"])  # Postgres takes its server's time
async def test_a_clock_that_is_set_back_does_not_take_a_journal_with_it(
    kind: str, tmp_path: Path
) -> None:
    clock = SetClock()
    async with open_with(clock, kind, tmp_path) as store:
        await start(store)
        clock.now = 900.0
        await pause(store)
        clock.now = 1100.0
        await resume(store)

        assert [record.at for record in await read_all(store)] == [1000.0, 1000.0, 1100.0]
        assert (await store.row(RUN)).updated_at == 1100.0
