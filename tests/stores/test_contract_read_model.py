"""The read model: always the summary of the journal, and found by whoever looks for work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from midflight.errors import IllegalEvent, JournalNotFound
from midflight.journal import events as e
from midflight.journal.phases import Cause, Effect, Outcome, Phase
from midflight.journal.record import Limits, Usage
from midflight.journal.threads import thread as t
from midflight.stores.commit import summary
from midflight.stores.protocol import Query, Row, Store
from stores.runs import (
    ANN,
    OLGA,
    RUN,
    THREAD,
    ask,
    cancel,
    created,
    decision,
    drive,
    ended,
    open_thread,
    outcome,
    pause,
    resume,
    running,
    say,
    start,
    tell,
)

pytestmark = pytest.mark.anyio


# ── a row is the summary of its journal ──────────────────────────────────────────────────────


async def spent_and_in_flight(store: Store) -> None:
    driver = await running(store, title="Invoices", parent="r-0", limits=Limits(usd=2.5))
    call = await driver.begins("think", effect=Effect.MODEL, reserved=Usage(tokens=500))
    await driver.settles(call, usage=Usage(tokens=321, usd=0.1 + 0.2))
    await driver.begins("send", noun="invoice")


async def waiting_with_a_deadline(store: Store) -> None:
    driver = await running(store)
    await driver.asks("Send it?", expires_at=1_900_000_000.25)
    await driver.asks("To whom?")
    await driver.waits()


async def answered(store: Store) -> None:
    await waiting_with_a_deadline(store)
    await ask(store, e.QuestionAnswered(who=ANN, question=4))


async def paused_and_redirected(store: Store) -> None:
    driver = await running(store)
    await pause(store)
    await driver.pauses()
    await ask(store, e.RedirectRequested(who=ANN, text="Only the drafts"))


async def held_for_the_cap(store: Store) -> None:
    driver = await running(store)
    await driver.decides(e.HoldPlaced(cause=Cause.CAP))
    await driver.decides(e.TimerSet(epoch=1, name="back-off", until=1_900_000_000.5))


async def cancelled(store: Store) -> None:
    driver = await running(store)
    await cancel(store)
    await driver.finishes("cancelled")


async def failed(store: Store) -> None:
    driver = await running(store)
    await driver.finishes("failed", error="no such customer")


async def killed_and_told_late(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins()
    await store.kill("all", OLGA)
    await tell(store, outcome(attempt, usage=Usage(tokens=5)))


async def killed_and_recovered(store: Store) -> None:
    await running(store)
    await store.kill("all", OLGA)
    await ask(store, e.Recovered(who=OLGA))


async def asked_to_undo(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins(undoable=True)
    await driver.settles(attempt)
    await driver.finishes()
    await driver.leaves()
    await ask(store, e.UndoRequested(who=ANN, effects=(attempt,)))


async def long_brief(store: Store) -> None:
    await start(store, brief="Schreibe: äöü 🦊 " * 40)


async def strange_text(store: Store) -> None:
    await start(store, title="a\x00b", brief="line\nbreak")


SITUATIONS = [
    start,
    running,
    spent_and_in_flight,
    waiting_with_a_deadline,
    answered,
    paused_and_redirected,
    held_for_the_cap,
    ended,
    cancelled,
    failed,
    killed_and_told_late,
    killed_and_recovered,
    asked_to_undo,
    long_brief,
    strange_text,
]


@pytest.mark.parametrize("happens", SITUATIONS, ids=lambda happens: happens.__name__)
async def test_a_row_is_the_summary_of_its_journal(
    store: Store, happens: Callable[[Store], Awaitable[object]]
) -> None:
    await happens(store)

    row = await store.row(RUN)

    assert row == summary(await store.load(RUN))
    assert await store.rows(Query()) == [row]


async def test_a_row_follows_every_event(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins(undoable=True)
    story: list[Callable[[], Awaitable[object]]] = [
        lambda: pause(store),
        lambda: driver.settles(attempt),
        driver.pauses,
        lambda: resume(store),
        lambda: cancel(store),
        lambda: driver.finishes("cancelled"),
        driver.leaves,
    ]
    for happens in story:
        await happens()
        assert await store.row(RUN) == summary(await store.load(RUN))


async def test_a_threads_row_is_the_summary_of_its_journal(store: Store) -> None:
    await open_thread(store, title="Rechnungen")
    await say(store, "hello")
    todo = t.TodoAdded(kind="deferred", text="call Bob")
    await store.append(decision(THREAD, 2, todo, todo))

    row = await store.row(THREAD)

    assert row == summary(await store.load(THREAD))
    assert (row.kind, row.title, row.head, row.open_questions) == ("thread", "Rechnungen", 4, 2)
    assert await store.rows(Query(kind="thread")) == [row]


async def test_what_was_refused_leaves_the_read_model_as_it_was(store: Store) -> None:
    driver = await running(store)
    row = await store.row(RUN)

    with pytest.raises(IllegalEvent):
        await driver.decides(e.PlanSet(epoch=1, steps=()), e.Paused(epoch=1, upto=1))

    assert await store.rows(Query()) == [row]
    assert await store.due() == [row]


async def test_an_unknown_journal_has_no_row(store: Store) -> None:
    with pytest.raises(JournalNotFound):
        await store.row("r-unknown")
    assert await store.rows(Query(thread="t-unknown")) == []


# ── looking rows up ──────────────────────────────────────────────────────────────────────────


async def found(store: Store, query: Query) -> list[str]:
    return [row.journal for row in await store.rows(query)]


async def some_runs(store: Store) -> None:
    await open_thread(store)
    await start(store, "r-1", agent="clerk", thread="t-1")
    await running(store, "r-2", agent="clerk", thread="t-2", parent="r-1")
    await running(store, "r-3", agent="painter", thread="t-1", parent="r-1")
    await ended(store, "r-4", agent="painter", thread="t-2")


@pytest.mark.parametrize(
    ("query", "runs"),
    [
        (Query(), ["r-4", "r-3", "r-2", "r-1"]),
        (Query(kind="thread"), ["t-1"]),
        (Query(agent="clerk"), ["r-2", "r-1"]),
        (Query(thread="t-1"), ["r-3", "r-1"]),
        (Query(parent="r-1"), ["r-3", "r-2"]),
        (Query(phases=(Phase.RUNNING,)), ["r-3", "r-2"]),
        (Query(phases=(Phase.QUEUED, Phase.DONE)), ["r-4", "r-1"]),
        (Query(phases=(Phase.KILLED,)), []),
        (Query(agent="painter", phases=(Phase.RUNNING,), thread="t-1"), ["r-3"]),
        (Query(agent="clerk", thread="t-1", parent="r-1"), []),
        (Query(before="r-3"), ["r-2", "r-1"]),
        (Query(limit=2), ["r-4", "r-3"]),
        (Query(before="r-4", limit=1, thread="t-1"), ["r-3"]),
    ],
    ids=str,
)
async def test_rows_are_found_by_all_conditions(
    store: Store, query: Query, runs: list[str]
) -> None:
    await some_runs(store)

    assert await found(store, query) == runs


async def test_rows_come_page_by_page_newest_first(store: Store) -> None:
    runs = [f"r-{number:02}" for number in range(25)]
    for run in runs:
        await start(store, run)

    pages: list[list[str]] = [await found(store, Query(limit=10))]
    while pages[-1]:
        pages.append(await found(store, Query(limit=10, before=pages[-1][-1])))

    assert [len(page) for page in pages] == [10, 10, 5, 0]
    assert [run for page in pages for run in page] == runs[::-1]


async def test_ids_are_ordered_by_their_letters_and_by_no_language(store: Store) -> None:
    runs = ["r-Zed", "r-alpha", "r-10", "r-9", "r-_", "r-a b", "r-A", "r-é", "r-z"]
    for run in runs:
        await start(store, run)

    assert await found(store, Query()) == sorted(runs, reverse=True)
    assert await found(store, Query(before="r-alpha")) == [
        "r-a b",
        "r-_",
        "r-Zed",
        "r-A",
        "r-9",
        "r-10",
    ]


# ── who needs attention ──────────────────────────────────────────────────────────────────────


async def due(store: Store) -> set[str]:
    return {row.journal for row in await store.due()}


async def test_a_run_that_wants_a_driver_and_has_none_alive_is_due(store: Store) -> None:
    await start(store, "r-queued")
    await running(store, "r-orphan", driver="d-dead")
    async with store.lease("d-alive"):
        await running(store, "r-driven", driver="d-alive")

        assert await due(store) == {"r-queued", "r-orphan"}

    assert await due(store) == {"r-queued", "r-orphan", "r-driven"}


async def test_a_run_whose_driver_left_is_due_only_if_it_wants_to_move(store: Store) -> None:
    drivers = {run: await running(store, run) for run in ("r-moving", "r-paused", "r-waiting")}
    await pause(store, "r-paused")
    await drivers["r-paused"].pauses()
    question = await drivers["r-waiting"].asks()
    await drivers["r-waiting"].waits()
    for driver in drivers.values():
        await driver.leaves()
    await ended(store, "r-done")
    assert await due(store) == {"r-moving"}

    await resume(store, "r-paused")
    await ask(store, e.QuestionAnswered(who=ANN, question=question), "r-waiting")

    assert await due(store) == {"r-moving", "r-paused", "r-waiting"}


async def test_a_run_whose_time_has_come_by_the_stores_clock_is_due(store: Store) -> None:
    now = await store.now()
    async with store.lease("d-1"):
        for run, until in (("r-past", now - 60), ("r-future", now + 3600)):
            driver = await running(store, run)
            await driver.decides(e.TimerSet(epoch=1, name="back-off", until=until))

        assert await due(store) == {"r-past"}


async def test_an_evicted_question_that_expires_is_due(store: Store) -> None:
    now = await store.now()
    for run, expires_at in (("r-past", now - 60), ("r-future", now + 3600), ("r-never", None)):
        driver = await running(store, run)
        await driver.asks(expires_at=expires_at)
        await driver.waits()
        await driver.leaves()

    (row,) = await store.due()

    assert (row.journal, row.due_at) == ("r-past", now - 60)
    assert row == await store.row("r-past")


async def test_a_run_that_is_due_for_both_reasons_is_due_once(store: Store) -> None:
    driver = await running(store)
    await driver.decides(e.TimerSet(epoch=1, name="back-off", until=1.0))

    assert [row.journal for row in await store.due()] == [RUN]


async def test_an_ended_run_is_due_only_for_an_undo_that_was_asked_for(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins(undoable=True)
    await driver.settles(attempt, Outcome.DONE)
    await driver.finishes()
    await driver.leaves()
    assert await due(store) == set()

    await ask(store, e.UndoRequested(who=ANN, effects=(attempt,)))

    assert await due(store) == {RUN}


async def test_no_more_are_due_than_were_asked_for(store: Store) -> None:
    for number in range(7):
        await start(store, f"r-{number}")

    assert len(await store.due(limit=3)) == 3
    assert len(await store.due()) == 7


async def test_a_thread_is_never_due(store: Store) -> None:
    await open_thread(store)

    assert await store.due() == []


async def test_a_claimed_run_with_a_living_driver_is_not_due(store: Store) -> None:
    await start(store)
    async with store.lease("d-1"):
        await drive(store)
        assert await store.due() == []
    rows: list[Row] = await store.due()
    assert [row.driver for row in rows] == ["d-1"]


async def test_a_journal_begun_by_a_decision_has_its_row_at_once(store: Store) -> None:
    await store.append(decision("r-new", 0, created(title="New")))

    assert (await store.row("r-new")).title == "New"


async def test_a_store_that_takes_what_is_written_says_nothing_against_it(store: Store) -> None:
    await store.ready()
    await start(store)
