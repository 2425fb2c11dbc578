"""Decisions: valid only where the caller has folded everything, all of it or nothing, once."""

from __future__ import annotations

import anyio
import pytest

from midflight.errors import IllegalEvent, IllegalSignal, JournalConflict, JournalNotFound
from midflight.journal import events as e
from midflight.journal.phases import Effect, Outcome, Phase
from midflight.journal.record import Event, Limits
from midflight.journal.threads import thread as t
from midflight.stores.protocol import Store
from stores.backends import DURABLE, Open
from stores.runs import (
    ANN,
    RUN,
    ask,
    cancel,
    created,
    decision,
    drive,
    names,
    outcome,
    pause,
    positions,
    read_all,
    run_state,
    running,
    start,
    started,
)

pytestmark = pytest.mark.anyio


# ── positions ────────────────────────────────────────────────────────────────────────────────


async def test_a_decision_is_acknowledged_with_the_position_it_has(store: Store) -> None:
    driver = await running(store)

    done = await driver.decides(e.PlanSet(epoch=1, steps=("send",)), started("send"))

    assert positions(done.records) == [4, 5]
    assert done.position(RUN) == 5
    assert not done.repeated
    assert await read_all(store, after=3) == list(done.records)


async def test_what_is_read_back_is_what_was_acknowledged(store: Store) -> None:
    driver = await running(store, brief='Zählen: 🦊 \u2028 \\ " </script>', title="naïve\ttitle")
    attempt = await driver.begins(noun="Rechnung", undoable=True)
    await driver.settles(attempt, error="ça alors")

    first, *_, last = await read_all(store)

    assert first.event == created(brief='Zählen: 🦊 \u2028 \\ " </script>', title="naïve\ttitle")
    assert last.event == outcome(attempt, error="ça alors")


async def test_a_decision_on_an_older_state_conflicts_and_appends_nothing(store: Store) -> None:
    driver = await running(store)
    await pause(store)

    with pytest.raises(JournalConflict) as conflict:
        await driver.begins()

    assert (conflict.value.journal, conflict.value.expected, conflict.value.found) == (RUN, 3, 4)
    assert names(await read_all(store, after=3)) == ["pause.requested"]


async def test_a_conflict_means_read_again_and_not_a_lost_run(store: Store) -> None:
    driver = await running(store)
    await ask(store, e.LimitsRaised(who=ANN, limits=Limits(steps=9)))
    with pytest.raises(JournalConflict):
        await driver.begins()

    await driver.reads_again()

    assert await driver.begins() == 5


async def test_nobody_can_decide_on_what_is_not_written_yet(store: Store) -> None:
    await running(store)

    with pytest.raises(JournalConflict):
        await store.append(decision(RUN, 4, started("send")))

    assert len(await read_all(store)) == 3


async def test_a_decision_about_a_journal_that_does_not_exist_conflicts(store: Store) -> None:
    with pytest.raises(JournalConflict) as conflict:
        await store.append(decision("r-unknown", 3, started("send")))

    assert conflict.value.found == 0
    with pytest.raises(JournalNotFound):
        await store.read("r-unknown")


async def test_exactly_one_of_many_deciders_wins_each_position(store: Store) -> None:
    await running(store)
    won: list[tuple[int, str]] = []

    async def decide(name: str) -> None:
        for _ in range(5):
            state = await run_state(store)
            note = e.GuardSet(epoch=1, name=name, kind="file", fingerprint=str(state.head))
            try:
                done = await store.append(decision(RUN, state.head, note))
            except JournalConflict:
                continue
            won.append((done.position(RUN), name))

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(decide, f"g-{number}")

    written = await read_all(store, after=3)
    assert sorted(won) == [(record.position, record.event.name) for record in written]
    assert positions(written) == list(range(4, 4 + len(won)))


async def test_of_many_who_decide_at_once_on_the_same_state_one_wins(store: Store) -> None:
    driver = await running(store)
    wins, conflicts = [], []

    async def begin(step: str) -> None:
        try:
            wins.append(await store.append(decision(RUN, driver.state.head, started(step))))
        except JournalConflict as conflict:
            conflicts.append(conflict)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(begin, f"s-{number}")

    assert (len(wins), len(conflicts)) == (1, 19)
    assert await read_all(store, after=3) == list(wins[0].records)


@DURABLE
async def test_two_who_have_the_store_open_win_each_position_once(open_store: Open) -> None:
    async with open_store() as here, open_store() as there:
        await running(here)
        won: list[int] = []

        async def decide(store: Store, name: str) -> None:
            while len(won) < 20:
                state = await run_state(store)
                note = e.GuardSet(epoch=1, name=name, kind="file", fingerprint="")
                try:
                    done = await store.append(decision(RUN, state.head, note))
                except JournalConflict:
                    continue
                won.append(done.position(RUN))

        async with anyio.create_task_group() as tasks:
            for store, name in ((here, "a"), (there, "b"), (here, "c"), (there, "d")):
                tasks.start_soon(decide, store, name)

        assert sorted(won) == positions(await read_all(there, after=3))
        assert sorted(won) == list(range(4, 4 + len(won)))
        assert await here.load(RUN) == await there.load(RUN)


async def test_one_who_conflicts_fails_alone(store: Store) -> None:
    drivers = [await running(store, f"r-{number}") for number in range(10)]
    await pause(store, "r-3")
    conflicts: list[str] = []

    async def begin(number: int) -> None:
        try:
            await drivers[number].begins()
        except JournalConflict as conflict:
            conflicts.append(conflict.journal)

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(begin, number)

    assert conflicts == ["r-3"]
    heads = [(await store.row(f"r-{number}")).head for number in range(10)]
    assert heads == [4] * 10


async def test_a_slip_of_one_decision_harms_none_that_is_written_beside_it(store: Store) -> None:
    drivers = [await running(store, f"r-{number}") for number in range(10)]
    refused: list[str] = []

    async def begin(number: int) -> None:
        event: Event = started("send")
        if number % 2:
            event = e.Paused(epoch=1, upto=3)  # nothing holds the run
        try:
            await drivers[number].decides(event)
        except IllegalEvent as illegal:
            refused.append(illegal.journal)

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(begin, number)

    assert sorted(refused) == [f"r-{number}" for number in range(1, 10, 2)]
    heads = [(await store.row(f"r-{number}")).head for number in range(10)]
    assert heads == [4, 3] * 5


# ── the kernel's table ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(started("read", effect=Effect.READ), id="a read records its result only"),
        pytest.param(outcome(99), id="nothing is in flight there"),
        pytest.param(e.UndoStarted(epoch=1, effect=1, idempotency_key="k"), id="nothing to undo"),
        pytest.param(e.Paused(epoch=1, upto=3), id="nothing holds it"),
        pytest.param(e.WaitBegan(epoch=1), id="nothing asks"),
        pytest.param(e.RunFinished(epoch=1, outcome="cancelled"), id="nobody cancelled it"),
        pytest.param(started("send", epoch=0), id="the epoch is over"),
        pytest.param(started("send", epoch=2), id="the epoch has not begun"),
        pytest.param(t.FrontChanged(run=RUN), id="a thread's event"),
        pytest.param(created(), id="it has begun already"),
    ],
)
async def test_what_the_table_forbids_never_reaches_the_journal(store: Store, event: Event) -> None:
    driver = await running(store)
    before = await store.load(RUN)

    with pytest.raises((IllegalEvent, IllegalSignal)):
        await driver.decides(event)

    assert await store.load(RUN) == before
    assert await driver.begins() == 4


async def test_nothing_of_a_decision_is_written_if_its_last_event_is_illegal(store: Store) -> None:
    driver = await running(store)
    before = await store.load(RUN)

    with pytest.raises(IllegalEvent):
        await driver.decides(started("send"), e.PlanSet(epoch=1, steps=("a",)), started("send"))

    assert await store.load(RUN) == before
    assert (await store.row(RUN)).head == 3
    assert await driver.begins() == 4


async def test_after_the_acknowledgement_of_a_pause_nothing_begins(store: Store) -> None:
    driver = await running(store)
    await pause(store)
    await driver.reads_again()

    with pytest.raises(IllegalEvent):
        await driver.begins()


async def test_after_the_acknowledgement_of_a_cancel_nothing_begins(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins("send")
    asked = await cancel(store)
    await driver.reads_again()

    with pytest.raises(IllegalEvent):
        await driver.begins("another")

    assert asked.records[0].event.in_flight == (attempt,)
    await driver.settles(attempt, Outcome.NOT_DONE)
    await driver.finishes("cancelled")
    assert (await store.row(RUN)).phase == Phase.CANCELLED


async def test_without_a_driver_nothing_is_decided(store: Store) -> None:
    await start(store)

    with pytest.raises(IllegalEvent):
        await store.append(decision(RUN, 1, e.RunEntered(epoch=0)))

    driver = await drive(store)
    assert (await driver.enters()).position(RUN) == 3
