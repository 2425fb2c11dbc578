"""Who drives: one epoch at a time, taken over only from those who left or are proven dead."""

from __future__ import annotations

import anyio
import pytest

from midflight.errors import IllegalEvent, InvalidRequest, JournalConflict
from midflight.journal import events as e
from midflight.journal.phases import Outcome
from midflight.journal.record import Usage
from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Store
from stores.backends import DURABLE, Open
from stores.runs import (
    RUN,
    claim,
    decision,
    drive,
    names,
    outcome,
    read_all,
    run_state,
    running,
    start,
    tell,
)

pytestmark = pytest.mark.anyio


# ── leases ───────────────────────────────────────────────────────────────────────────────────


async def test_a_lease_is_held_inside_its_block_and_gone_after_it(store: Store) -> None:
    async with store.lease("d-1") as lease:
        assert (lease.driver, lease.held) == ("d-1", True)
        assert lease.proven is not isinstance(store, PostgresStore)  # where leases run out by time
        assert not await store.lease_gone("d-1")

    assert not lease.held
    assert await store.lease_gone("d-1")


async def test_a_lease_is_gone_however_its_block_ends(store: Store) -> None:
    with pytest.raises(LookupError):
        async with store.lease("d-1"):
            raise LookupError
    with anyio.CancelScope() as scope:
        async with store.lease("d-2"):
            scope.cancel()
            await anyio.sleep_forever()

    assert await store.lease_gone("d-1")
    assert await store.lease_gone("d-2")


async def test_a_driver_never_heard_of_is_gone(store: Store) -> None:
    assert await store.lease_gone("d-unknown")


async def test_each_driver_has_a_lease_of_its_own(store: Store) -> None:
    async with store.lease("d-1"):
        async with store.lease("d-2"):
            assert not await store.lease_gone("d-1")
        assert await store.lease_gone("d-2")
        assert not await store.lease_gone("d-1")


async def test_a_lease_may_be_taken_again_after_it_was_given_back(store: Store) -> None:
    for _ in range(2):
        async with store.lease("d-1") as lease:
            assert lease.held
            assert not await store.lease_gone("d-1")


@DURABLE
async def test_a_lease_is_seen_by_everybody_who_has_the_store_open(open_store: Open) -> None:
    async with open_store() as here, open_store() as there:
        async with here.lease("d-1"):
            assert not await there.lease_gone("d-1")
        assert await there.lease_gone("d-1")


async def test_nobody_takes_the_name_of_a_driver_that_lives(store: Store) -> None:
    async with store.lease("d-1") as first:
        with pytest.raises(InvalidRequest, match="a driver with the name d-1 is at work"):
            async with store.lease("d-1"):
                pass
        assert first.held
        assert not await store.lease_gone("d-1")


@DURABLE
async def test_nobody_takes_the_name_of_a_driver_that_lives_elsewhere(open_store: Open) -> None:
    async with open_store() as here, open_store() as there, here.lease("d-1"):
        with pytest.raises(InvalidRequest, match="a driver with the name d-1 is at work"):
            async with there.lease("d-1"):
                pass
        assert not await there.lease_gone("d-1")


@pytest.mark.parametrize("name", ["", "host/1", "../../etc/x", ".hidden", "a b", "d\0", "d" * 200])
async def test_a_name_that_cannot_be_a_drivers_is_refused_before_it_is_in_a_journal(
    store: Store, name: str
) -> None:
    await start(store)

    with pytest.raises(InvalidRequest, match="cannot be the name of a driver: use up to"):
        async with store.lease(name):
            pass
    with pytest.raises(InvalidRequest, match="cannot be the name of a driver: use up to"):
        await claim(store, driver=name)

    assert names(await read_all(store)) == ["run.created"]


@pytest.mark.parametrize("name", ["host/1", "../../etc/x", ".hidden", "a b"])
async def test_a_run_that_was_claimed_under_such_a_name_can_be_taken_over(
    store: Store, name: str
) -> None:
    """By a program of its own, or before names were checked: nobody holds that lease."""
    await start(store)
    await store.append(decision(RUN, 1, e.DriverClaimed(epoch=1, driver=name)))

    assert await store.lease_gone(name)
    assert [row.journal for row in await store.due()] == [RUN]
    assert await claim(store, driver="d-2") == 2


# ── claims ───────────────────────────────────────────────────────────────────────────────────


async def test_a_run_without_a_driver_is_anybodys(store: Store) -> None:
    await start(store)

    async with store.lease("d-1"):
        assert await claim(store, driver="d-1") == 1

    row = await store.row(RUN)
    assert (row.driver, row.epoch) == ("d-1", 1)


async def test_a_living_driver_keeps_its_run(store: Store) -> None:
    async with store.lease("d-1"), store.lease("d-2"):
        await running(store, driver="d-1")

        assert await claim(store, driver="d-2") == 0

        assert (await store.row(RUN)).driver == "d-1"


async def test_a_run_whose_driver_left_may_be_claimed(store: Store) -> None:
    async with store.lease("d-1"), store.lease("d-2"):
        driver = await running(store, driver="d-1")
        await driver.leaves()
        assert (await store.row(RUN)).driver == ""

        assert await claim(store, driver="d-2") == 2


async def test_a_run_whose_driver_is_dead_may_be_claimed(store: Store) -> None:
    async with store.lease("d-1"):
        await running(store, driver="d-1")
    async with store.lease("d-2"):
        assert await claim(store, driver="d-2") == 2


@DURABLE
async def test_a_run_may_be_claimed_elsewhere_only_when_its_driver_is_gone(
    open_store: Open,
) -> None:
    async with open_store() as here, open_store() as there:
        async with here.lease("d-1"):
            await running(here, driver="d-1")
            assert await claim(there, driver="d-2") == 0
        assert await claim(there, driver="d-2") == 2


async def test_of_many_who_claim_at_once_one_does(store: Store) -> None:
    await start(store)
    epochs: dict[str, int] = {}

    async def compete(driver: str) -> None:
        async with store.lease(driver):
            epochs[driver] = await claim(store, driver=driver)
            await everybody_has_tried.wait()

    everybody_has_tried = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(compete, f"d-{number}")
        while len(epochs) < 6:
            await anyio.lowlevel.checkpoint()
        everybody_has_tried.set()

    (winner,) = (driver for driver, epoch in epochs.items() if epoch)
    assert epochs[winner] == 1
    assert (await store.row(RUN)).driver == winner
    assert names(await read_all(store)) == ["run.created", "driver.claimed"]


RUNS = [f"r-{number}" for number in range(10)]


async def claim_all(store: Store, driver: str, taken: list[tuple[str, str]]) -> None:
    for run in RUNS:
        if await claim(store, run, driver=driver):
            taken.append((run, driver))
        await anyio.lowlevel.checkpoint()


async def test_many_runs_claimed_at_once_by_two_have_one_driver_each(store: Store) -> None:
    for run in RUNS:
        await start(store, run)
    taken: list[tuple[str, str]] = []

    async with store.lease("d-1"), store.lease("d-2"), anyio.create_task_group() as tasks:
        tasks.start_soon(claim_all, store, "d-1", taken)
        tasks.start_soon(claim_all, store, "d-2", taken)

    assert sorted(run for run, _ in taken) == RUNS
    assert {(run, (await store.row(run)).driver) for run in RUNS} == set(taken)


@DURABLE
async def test_many_runs_claimed_here_and_there_have_one_driver_each(open_store: Open) -> None:
    taken: list[tuple[str, str]] = []
    async with open_store() as here, open_store() as there:
        for run in RUNS:
            await start(here, run)
        async with (
            here.lease("d-here"),
            there.lease("d-there"),
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(claim_all, here, "d-here", taken)
            tasks.start_soon(claim_all, there, "d-there", taken)

        assert sorted(run for run, _ in taken) == RUNS
        assert {(run, (await there.row(run)).driver) for run in RUNS} == set(taken)


# ── epochs ───────────────────────────────────────────────────────────────────────────────────


async def test_an_old_epoch_decides_nothing_even_where_it_has_read_everything(
    store: Store,
) -> None:
    old = await running(store)
    new = await drive(store, driver="d-2")
    with pytest.raises(JournalConflict):
        await old.begins("too late")
    await old.reads_again()

    with pytest.raises(IllegalEvent):
        await old.begins("still too late")
    with pytest.raises(IllegalEvent):
        await old.leaves()

    assert await new.begins() == 5


async def test_who_has_released_a_run_decides_nothing_more(store: Store) -> None:
    driver = await running(store)
    await driver.leaves()

    with pytest.raises(IllegalEvent):
        await driver.begins()
    with pytest.raises(IllegalEvent):
        await driver.leaves()


async def test_each_claim_begins_the_next_epoch_and_no_other(store: Store) -> None:
    await running(store)
    assert [(await drive(store, driver=f"d-{n}")).epoch for n in (2, 3)] == [2, 3]

    for epoch in (3, 5):
        with pytest.raises(IllegalEvent):
            await store.append(decision(RUN, 5, e.DriverClaimed(epoch=epoch, driver="d-4")))

    assert (await store.row(RUN)).epoch == 3


async def test_a_successor_sees_what_its_predecessor_had_in_flight(store: Store) -> None:
    old = await running(store)
    attempt = await old.begins(noun="invoice")

    new = await drive(store, driver="d-2")

    lost = new.state.effects[attempt]
    assert (lost.noun, lost.outcome, lost.why) == ("invoice", Outcome.UNKNOWN, "worker lost")
    await tell(store, outcome(attempt, epoch=1))
    assert (await run_state(store)).effects[attempt].outcome is Outcome.DONE


async def test_a_driver_leaves_only_where_nothing_was_added_since(store: Store) -> None:
    driver = await running(store)
    await tell(store, e.UsageSpent(epoch=1, usage=Usage(tokens=1)))

    with pytest.raises(JournalConflict):
        await driver.leaves()

    assert (await store.row(RUN)).driver == "d-1"
