"""Facts: how something ended is recorded once, in any phase, from whoever knows."""

from __future__ import annotations

import anyio
import pytest

from midflight.journal import events as e
from midflight.journal.phases import Effect, Outcome, Phase
from midflight.journal.record import Usage
from midflight.journal.status import receipt
from midflight.stores.protocol import Store
from stores.backends import DURABLE, Open
from stores.runs import (
    OLGA,
    RUN,
    cancel,
    drive,
    names,
    outcome,
    pause,
    read_all,
    run_state,
    running,
    tell,
)

pytestmark = pytest.mark.anyio


async def test_a_fact_needs_no_position(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins()
    await pause(store)

    done = await tell(store, outcome(attempt))

    assert done.position(RUN) == 6
    assert (await run_state(store)).open == {}


async def test_an_outcome_is_recorded_once_even_when_two_tell_it_at_once(store: Store) -> None:
    driver = await running(store)
    attempts = [await driver.begins(f"step-{number}") for number in range(5)]

    async with anyio.create_task_group() as tasks:
        for attempt in attempts:
            for how in (Outcome.DONE, Outcome.NOT_DONE, Outcome.DONE):
                tasks.start_soon(tell, store, outcome(attempt, how))

    settled = [r.event.attempt for r in await read_all(store, after=attempts[-1])]
    assert sorted(settled) == attempts


@DURABLE
async def test_an_outcome_told_here_and_there_at_once_is_recorded_once(open_store: Open) -> None:
    async with open_store() as here, open_store() as there:
        driver = await running(here)
        attempts = [await driver.begins(f"step-{number}") for number in range(5)]

        async with anyio.create_task_group() as tasks:
            for attempt in attempts:
                tasks.start_soon(tell, here, outcome(attempt))
                tasks.start_soon(tell, there, outcome(attempt, Outcome.NOT_DONE))

        settled = [r.event.attempt for r in await read_all(here, after=attempts[-1])]
        assert sorted(settled) == attempts


async def test_an_outcome_told_again_appends_nothing(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins()
    await tell(store, outcome(attempt))

    assert (await tell(store, outcome(attempt))).records == ()
    assert (await tell(store, outcome(attempt, Outcome.UNKNOWN))).records == ()
    assert len(await read_all(store)) == 5


async def test_what_an_old_driver_still_learns_is_kept_as_late(store: Store) -> None:
    old = await running(store)
    attempt = await old.begins()
    await drive(store, driver="d-2")

    await tell(store, outcome(attempt, epoch=1, usage=Usage(tokens=7)))

    lost, late = await read_all(store, after=5)
    assert isinstance(lost.event, e.AttemptSettled)
    assert late.event == e.LateOutcome(
        epoch=1, attempt=attempt, outcome=Outcome.DONE, usage=Usage(tokens=7)
    )
    assert (await run_state(store)).effects[attempt].outcome is Outcome.DONE
    assert (await store.row(RUN)).tokens == 7


async def test_what_is_learnt_after_a_kill_is_kept_as_late_and_starts_nothing(
    store: Store,
) -> None:
    driver = await running(store)
    attempt = await driver.begins(noun="invoice")
    await store.kill("all", OLGA)
    (line,) = receipt(await run_state(store)).lines
    assert line.text == "invoice: unknown (in flight when the run was stopped)"

    await tell(store, outcome(attempt))

    state = await run_state(store)
    assert names(await read_all(store, after=4)) == ["run.killed", "outcome.late"]
    assert (state.phase, receipt(state).lines[0].word) == (Phase.KILLED, "kept")
    assert (await tell(store, outcome(attempt))).records == ()


async def test_what_was_unknown_may_become_known_once(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins()
    await driver.settles(attempt, Outcome.UNKNOWN, error="connection lost")

    checked = e.LateOutcome(epoch=1, attempt=attempt, outcome=Outcome.DONE, how="checked")
    await tell(store, checked)
    await tell(store, checked)

    assert names(await read_all(store, after=4)) == ["attempt.settled", "outcome.late"]
    assert (await run_state(store)).effects[attempt].outcome is Outcome.DONE


async def test_a_fact_is_taken_while_the_run_is_cancelling(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins()
    await cancel(store)

    await tell(store, outcome(attempt))

    assert names(await read_all(store, after=5)) == ["attempt.settled"]


async def test_an_old_drivers_read_is_dropped_and_read_again_by_its_successor(
    store: Store,
) -> None:
    await running(store)
    await drive(store, driver="d-2")

    result = e.StepSettled(epoch=1, step="s", name="list invoices")

    assert (await tell(store, result)).records == ()


async def test_an_undo_ends_once(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins(undoable=True)
    await driver.settles(attempt)
    await cancel(store)
    await driver.reads_again()
    undo = await driver.decides(
        e.UndoStarted(epoch=1, effect=attempt, idempotency_key="send#1:undo")
    )

    settled = e.UndoSettled(epoch=1, undo=undo.position(RUN), undone=True)
    await tell(store, settled)

    assert (await tell(store, settled)).records == ()
    assert receipt(await run_state(store)).lines[0].word == "undone"


async def test_a_model_call_that_ends_counts_what_it_spent(store: Store) -> None:
    driver = await running(store)
    call = await driver.begins("think", effect=Effect.MODEL)

    await driver.settles(call, usage=Usage(tokens=1200, usd=0.03))

    row = await store.row(RUN)
    assert (row.tokens, row.usd) == (1200, 0.03)
