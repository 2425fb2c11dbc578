"""Who writes: the loop where a small append comes alone and the disk is quick, else the thread."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import Raw

from midflight.errors import StoreUnavailable
from midflight.journal.events import ChildSpawned, PlanSet, StepSettled
from midflight.journal.record import Event
from midflight.journal.transition_table import State
from midflight.stores.codec import INLINE_MAX
from midflight.stores.protocol import Append, Draft, Submit
from midflight.stores.sqlite import SqliteStore, sqlite_writer
from midflight.stores.sqlite.sqlite_hold import DOOR, GATE
from midflight.stores.sqlite.transaction import Transaction
from stores.runs import RUN, Driver, decision, positions, read_all, running
from stores.turns import locked_by_another

pytestmark = pytest.mark.anyio

HERE = threading.get_ident()


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    monkeypatch.setattr(sqlite_writer, "SLOW_S", 10.0)  # no disk of any machine is slow today
    async with SqliteStore.open(tmp_path / "journals.db") as opened:
        yield opened


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who committed each append, told by the thread it happened in."""
    seen: list[str] = []
    append = Transaction.append

    def noted(transaction: Transaction, wanted: Append, folded: dict[str, State] | None) -> object:
        seen.append("loop" if threading.get_ident() == HERE else "thread")
        return append(transaction, wanted, folded)

    monkeypatch.setattr(Transaction, "append", noted)
    return seen


def plan(number: int) -> Event:
    return PlanSet(epoch=1, steps=(str(number),))


async def warm(store: SqliteStore) -> Driver:
    """A driver whose writer is idle, so that the next append comes alone."""
    driving = await running(store)
    await has_left_the_desk(store)
    return driving


async def has_left_the_desk(store: SqliteStore) -> None:
    """The thread hands back what it has written before it leaves."""
    with anyio.fail_after(20):
        while store._writer._desk.locked():  # noqa: ASYNC110 - nobody is told of it
            await anyio.sleep(0.001)


async def test_a_lone_append_is_written_on_the_loop(store: SqliteStore, writers: list[str]) -> None:
    driving = await warm(store)
    writers.clear()

    for number in range(20):
        await driving.decides(plan(number))

    assert writers == ["loop"] * 20
    assert positions(await read_all(store)) == list(range(1, 24))


async def test_appends_that_come_together_are_the_threads(
    store: SqliteStore, writers: list[str]
) -> None:
    drivers = [await running(store, f"r-{n}", driver=f"d-{n}") for n in range(5)]
    await has_left_the_desk(store)
    writers.clear()

    async with anyio.create_task_group() as tasks:
        for driving in drivers:
            tasks.start_soon(driving.decides, plan(1))

    assert writers == ["thread"] * 5


async def test_a_large_result_is_the_threads(store: SqliteStore, writers: list[str]) -> None:
    driving = await warm(store)
    writers.clear()
    large = Raw(b'"' + b"x" * INLINE_MAX + b'"')

    await driving.decides(StepSettled(epoch=1, step="s", name="s", result=large))

    assert writers == ["thread"]


async def test_a_journal_that_must_be_read_first_is_the_threads(
    tmp_path: Path, writers: list[str]
) -> None:
    async with SqliteStore.open(tmp_path / "journals.db") as store:
        driving = await running(store)
    async with SqliteStore.open(tmp_path / "journals.db") as store:
        driving.store = store
        writers.clear()
        await driving.decides(plan(1))

    assert writers == ["thread"]


def asking(title: str) -> Submit:
    """Decide about one run, as a request does."""
    return Submit(f"request-{title}", (RUN,), lambda _: Draft({RUN: (plan(len(title)),)}))


@pytest.fixture
def deciders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who decided each request."""
    seen: list[str] = []
    submit = Transaction.submit

    def noted(transaction: Transaction, *given: Any, **named: Any) -> object:
        seen.append("loop" if threading.get_ident() == HERE else "thread")
        return submit(transaction, *given, **named)

    monkeypatch.setattr(Transaction, "submit", noted)
    return seen


async def test_a_lone_request_is_written_on_the_loop(
    store: SqliteStore, deciders: list[str]
) -> None:
    await warm(store)
    deciders.clear()

    for number in range(5):
        await store.submit(asking("x" * number))

    assert deciders == ["loop"] * 5


async def test_a_request_of_a_journal_that_must_be_read_first_is_the_threads(
    tmp_path: Path, deciders: list[str]
) -> None:
    async with SqliteStore.open(tmp_path / "journals.db") as store:
        await running(store)
    async with SqliteStore.open(tmp_path / "journals.db") as store:
        deciders.clear()
        await store.submit(asking("x"))

    assert deciders == ["thread"]


async def test_a_request_of_a_run_with_children_is_the_threads(
    store: SqliteStore, deciders: list[str]
) -> None:
    """It may have to be made of every one of them."""
    driving = await warm(store)
    await driving.decides(ChildSpawned(epoch=1, child="r-2", agent="a", brief="help"))
    deciders.clear()

    await store.submit(asking("x"))

    assert deciders == ["thread"]


async def test_of_a_batch_the_callers_of_requests_are_woken_first(store: SqliteStore) -> None:
    """Beside fifty busy runs a person would wait for a turn of each of them."""
    drivers = [await running(store, f"r-{n}", driver=f"d-{n}") for n in range(2, 7)]
    await running(store)
    await has_left_the_desk(store)
    woken: list[str] = []

    async def appends(driving: Driver) -> None:
        await driving.decides(plan(1))
        woken.append("step")

    async def asks() -> None:
        await store.submit(asking("x"))
        woken.append("request")

    async with anyio.create_task_group() as tasks:
        for driving in drivers:
            tasks.start_soon(appends, driving)
        tasks.start_soon(asks)

    assert woken == ["request", *["step"] * 5]


async def test_after_a_slow_commit_the_thread_has_the_next_ones(
    store: SqliteStore, writers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    driving = await warm(store)
    monkeypatch.setattr(sqlite_writer, "SLOW_S", 0.0)  # every commit counts as slow
    monkeypatch.setattr(sqlite_writer, "SHARE", 1e-6)
    writers.clear()

    for number in range(5):
        await driving.decides(plan(number))

    assert writers == ["loop", "thread", "thread", "thread", "thread"]


@pytest.mark.parametrize("lock", [GATE, DOOR], ids=["has its turn", "waits for its turn"])
async def test_while_another_process_is_before_us_the_thread_waits_for_our_turn(
    store: SqliteStore, writers: list[str], tmp_path: Path, lock: int
) -> None:
    driving = await warm(store)
    writers.clear()

    async with anyio.create_task_group() as tasks:
        with locked_by_another(tmp_path / "journals.db", lock):
            tasks.start_soon(driving.decides, plan(1))
            await anyio.sleep(0.05)
            assert writers == []

    assert writers == ["thread"]


async def test_a_lone_append_does_not_overtake_one_that_is_under_way(store: SqliteStore) -> None:
    driving = await warm(store)
    head = driving.state.head

    async def append(number: int) -> None:
        await store.append(decision(driving.run, head + number, plan(number)))

    async with store.watch({driving.run: head}) as watch, anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(append, number)
            await anyio.lowlevel.checkpoint()
        seen = []
        async for record in watch:
            seen.append(record.position)
            if len(seen) == 10:
                break

    assert seen == list(range(head + 1, head + 11))


async def test_a_job_of_a_batch_that_fails_half_way_harms_no_row(store: SqliteStore) -> None:
    driving = await warm(store)
    head = driving.state.head
    illegal = StepSettled(epoch=7, step="s", name="s")
    failures: list[Exception] = []

    async def attempt(wanted: Append) -> None:
        try:
            await store.append(wanted)
        except Exception as error:  # noqa: BLE001 - looked at below
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(attempt, decision(driving.run, head, plan(1)))
        tasks.start_soon(attempt, decision(driving.run, head + 1, plan(2), illegal))

    assert len(failures) == 1
    assert (await store.row(driving.run)).head == head + 1


async def test_what_is_asked_of_a_closed_store_is_answered(tmp_path: Path) -> None:
    async with SqliteStore.open(tmp_path / "journals.db") as store:
        driving = await running(store)

    with pytest.raises(StoreUnavailable, match=r"closed: open it .* Nothing was appended"):
        await driving.decides(plan(1))
