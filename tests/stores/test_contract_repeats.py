"""Repeats: an append whose answer was lost is sent again under its id, and happens once."""

from __future__ import annotations

import anyio
import pytest

from midflight.errors import JournalConflict
from midflight.inputs import new_id
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Limits
from midflight.journal.state import RunState
from midflight.journal.threads import thread as t
from midflight.stores.protocol import Append, Draft, Entry, Store, Submit, View, Widen
from stores.backends import DURABLE, Open
from stores.runs import (
    ANN,
    RUN,
    THREAD,
    answering,
    decision,
    open_thread,
    outcome,
    pause,
    positions,
    read_all,
    resume,
    running,
    say,
    started,
    tell,
)

pytestmark = pytest.mark.anyio


# ── decisions ────────────────────────────────────────────────────────────────────────────────


async def test_a_repeated_append_returns_its_records_and_changes_nothing(store: Store) -> None:
    driver = await running(store)
    append = decision(RUN, driver.state.head, started("send"), e.PlanSet(epoch=1, steps=("a",)))
    first = await store.append(append)
    await tell(store, outcome(first.records[0].position))

    again = await store.append(append)

    assert (again.records, again.repeated) == (first.records, True)
    assert len(await read_all(store)) == 6


async def test_an_append_repeated_at_once_is_still_only_one(store: Store) -> None:
    driver = await running(store)
    append = decision(RUN, driver.state.head, started("send"))
    answers = []

    async def send() -> None:
        answers.append(await store.append(append))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(send)

    assert sorted(answer.repeated for answer in answers) == [False, True, True, True, True]
    assert all(answer.records == answers[0].records for answer in answers)
    assert len(await read_all(store)) == 4


async def test_a_repeated_append_over_two_journals_returns_both(store: Store) -> None:
    await open_thread(store)
    driver = await running(store)
    append = Append(
        new_id(),
        (
            Entry(RUN, driver.state.head, (e.RunFinished(epoch=1, outcome="done"),)),
            Entry(THREAD, 1, (t.FrontChanged(run=""), t.Said(run=RUN, text="Done."))),
        ),
    )
    first = await store.append(append)
    await say(store, "thanks")

    again = await store.append(append)

    assert again.repeated
    assert [r for r in again.records if r.journal == RUN] == list(first.records[:1])
    assert [r for r in again.records if r.journal == THREAD] == list(first.records[1:])


async def test_another_append_under_another_id_is_not_taken_for_a_repeat(store: Store) -> None:
    driver = await running(store)
    await driver.decides(started("send"))

    with pytest.raises(JournalConflict):
        await store.append(decision(RUN, 3, started("send")))


async def test_an_append_that_was_refused_may_be_tried_again_under_its_id(store: Store) -> None:
    driver = await running(store)
    await pause(store)
    with pytest.raises(JournalConflict):
        await driver.decides(e.Paused(epoch=1, upto=4), id="a-1")
    await driver.reads_again()

    done = await driver.decides(e.Paused(epoch=1, upto=4), id="a-1")

    assert (done.position(RUN), done.repeated) == (5, False)


@DURABLE
async def test_an_append_is_known_to_whoever_opens_the_store_next(open_store: Open) -> None:
    async with open_store() as store:
        await running(store)
        append = decision(RUN, 3, started("send"))
        first = await store.append(append)

    async with open_store() as store:
        again = await store.append(append)

        assert (again.records, again.repeated) == (first.records, True)
        assert len(await read_all(store)) == 4


@DURABLE
async def test_an_append_sent_through_two_doors_at_once_happens_once(open_store: Open) -> None:
    async with open_store() as here, open_store() as there:
        driver = await running(here)
        append = decision(RUN, driver.state.head, started("send"))
        answers = []

        async def send(store: Store) -> None:
            answers.append(await store.append(append))

        async with anyio.create_task_group() as tasks:
            for store in (here, there, here, there):
                tasks.start_soon(send, store)

        assert sorted(answer.repeated for answer in answers) == [False, True, True, True]
        assert all(answer.records == answers[0].records for answer in answers)
        assert len(await read_all(there)) == 4


# ── requests ─────────────────────────────────────────────────────────────────────────────────


async def test_a_repeated_submit_is_not_decided_again(store: Store) -> None:
    await running(store)
    calls: list[int] = []

    def decide(view: View) -> Draft:
        calls.append(view.states[RUN].head)
        return Draft({RUN: (e.PauseRequested(who=ANN),)})

    request = Submit(new_id(), (RUN,), decide)
    first = await store.submit(request)
    await resume(store)
    again = await store.submit(request)

    assert calls == [3]
    assert (again.records, again.repeated) == (first.records, True)
    assert len(await read_all(store)) == 5


async def test_a_submit_repeated_at_once_is_still_only_one(store: Store) -> None:
    await running(store)
    draft = Draft({RUN: (e.PauseRequested(who=ANN),)})
    request = answering(draft)
    answers = []

    async def send() -> None:
        answers.append(await store.submit(request))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(send)

    assert sorted(answer.repeated for answer in answers) == [False, True, True, True, True]
    assert all(answer.records == answers[0].records for answer in answers)
    assert len(await read_all(store)) == 4


@DURABLE
async def test_a_submit_is_known_to_whoever_opens_the_store_next(open_store: Open) -> None:
    request = answering(Draft({RUN: (e.PauseRequested(who=ANN),)}))
    async with open_store() as store:
        await running(store)
        first = await store.submit(request)
    async with open_store() as store:
        again = await store.submit(request)

        assert (again.records, again.repeated) == (first.records, True)
        assert len(await read_all(store)) == 4


@DURABLE
async def test_a_submit_sent_through_two_doors_at_once_happens_once(open_store: Open) -> None:
    async with open_store() as here, open_store() as there:
        await running(here)
        request = answering(Draft({RUN: (e.LimitsRaised(who=ANN, limits=Limits(steps=9)),)}))
        answers = []

        async def send(store: Store) -> None:
            answers.append(await store.submit(request))

        async with anyio.create_task_group() as tasks:
            for store in (here, there, here, there):
                tasks.start_soon(send, store)

        assert sorted(answer.repeated for answer in answers) == [False, True, True, True]
        assert all(answer.records == answers[0].records for answer in answers)
        assert len(await read_all(there)) == 4


def pausing_what_runs(view: View) -> Draft:
    """Pause r-a, or r-b where r-a does not run: what it answers depends on when it is asked."""
    state = view.states["r-a"]
    assert isinstance(state, RunState)
    if state.phase is Phase.RUNNING:
        return Draft({"r-a": (e.PauseRequested(who=ANN),)})
    if "r-b" not in view.states:
        raise Widen("r-b")
    return Draft({"r-b": (e.PauseRequested(who=ANN),)})


@DURABLE
@pytest.mark.parametrize("journals", [("r-a",), ("r-a", "r-b")], ids=["one run", "both runs"])
async def test_a_repeated_submit_that_would_now_be_answered_elsewhere_stays_where_it_was(
    open_store: Open, journals: tuple[str, ...]
) -> None:
    """No place is wanted twice here, and no index over one journal knows the id."""
    request = Submit(new_id(), journals, pausing_what_runs)
    async with open_store() as store:
        await running(store, "r-a", driver="d-a")
        await running(store, "r-b", driver="d-b")
        first = await store.submit(request)
    async with open_store() as store:
        again = await store.submit(request)

        assert (again.records, again.repeated) == (first.records, True)
        assert [(await store.row(run)).head for run in ("r-a", "r-b")] == [4, 3]


@DURABLE
async def test_a_repeated_submit_that_now_needs_fewer_journals_stays_where_it_was(
    open_store: Open,
) -> None:
    request = Submit(new_id(), ("r-a",), pausing_what_runs)
    async with open_store() as store:
        await running(store, "r-a", driver="d-a")
        await running(store, "r-b", driver="d-b")
        await pause(store, "r-a")
        first = await store.submit(request)
        await resume(store, "r-a")
    async with open_store() as store:
        again = await store.submit(request)

        assert (again.records, again.repeated) == (first.records, True)
        assert [(await store.row(run)).head for run in ("r-a", "r-b")] == [5, 4]


# ── callers who give up ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("patience_ms", [0, 0.2, 0.5, 1, 2, 4])
async def test_a_caller_who_gave_up_may_ask_again_and_it_happens_once(
    store: Store, patience_ms: float
) -> None:
    driver = await running(store)
    append = decision(RUN, driver.state.head, started("send"))
    request = answering(Draft({RUN: (e.LimitsRaised(who=ANN, limits=Limits()),)}))

    with anyio.move_on_after(patience_ms / 1000):
        await store.append(append)
    first = await store.append(append)
    with anyio.move_on_after(patience_ms / 1000):
        await store.submit(request)
    second = await store.submit(request)

    assert (first.position(RUN), second.position(RUN)) == (4, 5)
    assert positions(await read_all(store)) == [1, 2, 3, 4, 5]


async def test_callers_who_give_up_harm_nobody_else(store: Store) -> None:
    drivers = [await running(store, f"r-{number:02}") for number in range(20)]
    begun: list[str] = []

    async def begin(number: int) -> None:
        with anyio.move_on_after(number % 4 / 1000 if number % 2 else 20):
            await drivers[number].begins()
            begun.append(drivers[number].run)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(begin, number)

    assert {driver.run for driver in drivers[::2]} <= set(begun)
    for driver in drivers:
        await driver.reads_again()
        assert (await driver.begins("again")) == (await store.row(driver.run)).head
