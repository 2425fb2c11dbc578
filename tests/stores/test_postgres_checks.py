"""What the server judges by itself: heads, stamps and leases, whatever a client believes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

import anyio
import asyncpg
import pytest
from anyio.abc import TaskStatus
from msgspec import Raw

from midflight.errors import JournalConflict
from midflight.inputs import wall_clock
from midflight.journal import events as e
from midflight.journal.record import Event
from midflight.stores.codec import INLINE_MAX
from midflight.stores.postgres import PostgresStore
from midflight.stores.postgres.postgres_server import Server
from stores.halfway import by_hand, not_committed, stores_wait
from stores.runs import RUN, Driver, claim, positions, read_all, running

pytestmark = [pytest.mark.postgres, pytest.mark.anyio]

RUN_OUT = "UPDATE leases SET expires_at = clock() - 1"
HOLD_ONE = "SELECT FROM journals WHERE journal = 'r-a' FOR UPDATE"
LARGE = Raw(b'"' + INLINE_MAX * b"x" + b'"')
WAYS = pytest.mark.parametrize("way", ["a lone event", "two events", "steps", "a large value"])
"""An append goes to the server by one of several statements, each with checks of its own."""


@pytest.fixture
def schema() -> str:
    return f"test_{uuid4().hex}"


@pytest.fixture
async def store(postgres_address: str, schema: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore.open(postgres_address, schema=schema) as opened:
        yield opened


def plans(count: int) -> list[Event]:
    return [e.PlanSet(epoch=1, steps=(str(number),)) for number in range(count)]


def sent(way: str) -> list[Event]:
    match way:
        case "a lone event":
            return plans(1)
        case "two events":
            return plans(2)
        case "steps":
            return plans(3)
        case _:
            return [e.StepSettled(epoch=1, step="s#1", name="s", result=LARGE)]


# ── heads and stamps ─────────────────────────────────────────────────────────────────────────


@WAYS
async def test_where_a_backup_was_put_back_a_driver_that_is_ahead_leaves_no_hole(
    store: PostgresStore, postgres_address: str, schema: str, way: str
) -> None:
    driving = await running(store)
    async with by_hand(postgres_address, schema) as connection:
        await connection.execute("DELETE FROM events WHERE position > 2")
        await connection.execute("UPDATE journals SET head = 2")

    with pytest.raises(JournalConflict):
        await driving.decides(*sent(way))

    assert positions(await read_all(store)) == [1, 2]


@WAYS
@pytest.mark.parametrize("jump", [7.0, 3600.0, -3600.0])
async def test_after_a_clock_has_jumped_events_are_stamped_with_the_servers_time(
    postgres_address: str, schema: str, jump: float, way: str
) -> None:
    ahead = 0.0
    async with PostgresStore.open(
        postgres_address, schema=schema, clock=lambda: wall_clock() + ahead
    ) as store:
        driving = await running(store)
        ahead = jump
        done = await driving.decides(*sent(way))

        assert abs(done.records[-1].at - await store.now()) < 2


async def send_together(drivers: Sequence[Driver], wrong: list[Exception]) -> None:
    """The first goes alone, and those that come meanwhile go together."""

    async def decide(driver: Driver) -> None:
        try:
            await driver.decides(*plans(2))
        except JournalConflict as error:
            wrong.append(error)

    async with anyio.create_task_group() as tasks:
        for driver in drivers:
            tasks.start_soon(decide, driver)


async def test_steps_of_several_runs_are_compared_with_the_heads_that_were_locked(
    store: PostgresStore, postgres_address: str, schema: str
) -> None:
    """Whoever changes one of the runs is waited for; the steps of the others are written."""
    drivers = [await running(store, run, driver=f"d-{run}") for run in ("r-first", "r-a", "r-b")]
    quicker = "UPDATE journals SET head = head + 1 WHERE journal = 'r-a'"
    wrong: list[Exception] = []
    async with (
        anyio.create_task_group() as tasks,
        not_committed(postgres_address, schema, quicker, keep=True),
    ):
        tasks.start_soon(send_together, drivers, wrong)
        assert await stores_wait(postgres_address, 1)
    async with by_hand(postgres_address, schema) as connection:
        rows = await connection.fetch(
            "SELECT journal, max(position) AS last FROM events GROUP BY 1 ORDER BY 1"
        )

    assert len(wrong) == 1
    assert [(row["journal"], row["last"]) for row in rows] == [
        ("r-a", 3),
        ("r-b", 5),
        ("r-first", 5),
    ]


async def test_steps_of_several_runs_lock_heads_in_the_order_of_their_ids(
    store: PostgresStore, postgres_address: str, schema: str
) -> None:
    """Else two processes that have the same runs could wait for each other."""
    drivers = [await running(store, run, driver=f"d-{run}") for run in ("r-first", "r-b", "r-a")]
    lock = "SELECT FROM journals WHERE journal = 'r-b' FOR UPDATE NOWAIT"
    async with (
        anyio.create_task_group() as tasks,
        not_committed(postgres_address, schema, HOLD_ONE),
    ):
        tasks.start_soon(send_together, drivers, [])
        assert await stores_wait(postgres_address, 1)
        async with by_hand(postgres_address, schema) as connection:
            await connection.execute(lock)  # free: r-a comes first

    assert [(await store.row(run)).head for run in ("r-first", "r-a", "r-b")] == [5, 5, 5]


# ── leases ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wrong_by", [-3600.0, 3600.0])
async def test_a_process_whose_clock_is_wrong_judges_leases_like_the_others(
    store: PostgresStore, postgres_address: str, schema: str, wrong_by: float
) -> None:
    async with PostgresStore.open(
        postgres_address, schema=schema, clock=lambda: wall_clock() + wrong_by
    ) as wrong:
        for run, holder, other in (("r-a", store, wrong), ("r-b", wrong, store)):
            async with holder.lease(f"d-{run}") as lease:
                await running(holder, run, driver=f"d-{run}")
                assert lease.held
                assert not await other.lease_gone(f"d-{run}")
                assert run not in [row.journal for row in await other.due()]
                assert await claim(other, run, driver="d-thief") == 0
            assert await claim(other, run, driver="d-heir") == 2


async def test_a_lease_that_has_run_out_is_over_for_everybody(
    store: PostgresStore, postgres_address: str, schema: str
) -> None:
    async with store.lease("d-1"), by_hand(postgres_address, schema) as connection:
        await running(store, driver="d-1")
        assert await store.due() == []

        await connection.execute(RUN_OUT)

        assert await store.lease_gone("d-1")
        assert [row.journal for row in await store.due()] == [RUN]
        assert await claim(store, driver="d-2") == 2


async def test_who_has_lost_its_lease_to_a_namesake_does_not_take_it_away_again(
    store: PostgresStore, postgres_address: str, schema: str
) -> None:
    async with (
        PostgresStore.open(postgres_address, schema=schema) as other,
        anyio.create_task_group() as tasks,
    ):
        over = anyio.Event()

        async def be_the_namesake(*, task_status: TaskStatus[None]) -> None:
            async with other.lease("d-1"):
                task_status.started()
                await over.wait()

        async with store.lease("d-1"), by_hand(postgres_address, schema) as connection:
            await connection.execute(RUN_OUT)
            await tasks.start(be_the_namesake)
        assert not await store.lease_gone("d-1")
        over.set()


async def test_a_lease_is_held_from_when_its_renewal_was_sent_and_not_from_the_answer(
    store: PostgresStore, postgres_address: str, schema: str
) -> None:
    """A slow answer tells nothing new: the row expires when it would have anyway."""
    lock = "SELECT FROM leases FOR UPDATE"
    async with (
        PostgresStore.open(postgres_address, schema=schema, lease_s=4.0) as slow,
        slow.lease("d-1") as lease,
    ):
        with anyio.fail_after(40):
            renewed = lease._renewed
            while lease._renewed == renewed:  # what waits for too long is given up, and sent anew
                async with not_committed(postgres_address, schema, lock):
                    assert await stores_wait(postgres_address, 1)
                    await anyio.sleep(0.9)  # longer than the margin that a driver keeps
                await anyio.sleep(0.1)
        looks = [(await store.lease_gone("d-1"), lease.held)]
        async with not_committed(postgres_address, schema, lock):  # and the next ones get nowhere
            with anyio.fail_after(40):
                while not looks[-1][0]:
                    gone = await store.lease_gone("d-1")  # first: what is gone stays gone
                    looks.append((gone, lease.held))

        assert looks[0] == (False, True)
        assert (True, True) not in looks


# ── clients that are gone ────────────────────────────────────────────────────────────────────


async def test_a_process_that_died_while_it_waited_gives_its_locks_back_soon(
    store: PostgresStore, postgres_address: str, schema: str
) -> None:
    """Sooner than its statement would have given up: the server looks whether anybody is there."""
    await running(store, "r-a", driver="d-a")
    await running(store, "r-b", driver="d-b")
    lock = "SELECT FROM journals WHERE journal = $1 FOR UPDATE"
    dying = await Server(postgres_address, schema).connect()
    async with (
        not_committed(postgres_address, schema, lock, "r-b"),
        by_hand(postgres_address, schema) as next_one,
        anyio.create_task_group() as tasks,
    ):

        async def wait_for_ever() -> None:
            await dying.execute("BEGIN")
            await dying.execute(lock, "r-a")
            with pytest.raises(asyncpg.ConnectionDoesNotExistError):
                await dying.execute(lock, "r-b")

        await dying.execute("SET lock_timeout = '60s'")
        tasks.start_soon(wait_for_ever)
        assert await stores_wait(postgres_address, 1)
        dying.terminate()
        await next_one.execute("SET lock_timeout = '30s'")
        await next_one.execute(lock, "r-a")


# ── what a server may have as its defaults ───────────────────────────────────────────────────


async def test_whatever_the_servers_defaults_a_commit_is_on_disk_and_no_lock_is_for_ever(
    postgres_address: str, schema: str
) -> None:
    unsafe = {
        "synchronous_commit": "off",
        "default_transaction_isolation": "repeatable read",
        "lock_timeout": "0",
        "idle_in_transaction_session_timeout": "0",
    }
    role = f"hasty_{schema}"
    async with by_hand(postgres_address, "public") as connection:
        await connection.execute(f"CREATE ROLE {role} LOGIN")
        for setting, value in unsafe.items():
            await connection.execute(f"ALTER ROLE {role} SET {setting} = '{value}'")
    address = postgres_address.replace("//postgres:", f"//{role}:")
    plain = await asyncpg.connect(address)
    ours = await Server(address, schema).connect()
    try:
        assert {name: await plain.fetchval(f"SHOW {name}") for name in unsafe} == unsafe
        assert {name: await ours.fetchval(f"SHOW {name}") for name in unsafe} == {
            "synchronous_commit": "on",
            "default_transaction_isolation": "read committed",
            "lock_timeout": "2s",
            "idle_in_transaction_session_timeout": "5s",
        }
    finally:
        await plain.close()
        await ours.close()


@pytest.mark.slow
async def test_a_process_that_froze_with_locks_loses_them(
    store: PostgresStore, postgres_address: str, schema: str
) -> None:
    driving = await running(store)
    frozen = await Server(postgres_address, schema).connect()
    try:
        await frozen.execute("BEGIN")
        await frozen.execute("SELECT FROM journals FOR UPDATE")
        done = await driving.decides(*plans(1))
    finally:
        frozen.terminate()

    assert positions(done.records) == [4]


@pytest.mark.slow
async def test_a_lock_that_is_never_released_does_not_hold_up_other_runs(
    store: PostgresStore, postgres_address: str, schema: str
) -> None:
    """The first goes alone, the others together; the one that waits in vain is let go in time."""
    runs = ["r-first", "r-b", "r-a"]
    driven = [await running(store, run, driver=f"d-{run}") for run in runs]
    free = anyio.Event()

    async def decide(number: int) -> None:
        await driven[number].decides(*plans(1))
        if number == 1:
            free.set()

    async with (
        anyio.create_task_group() as tasks,
        not_committed(postgres_address, schema, HOLD_ONE),
    ):
        for number in range(3):
            tasks.start_soon(decide, number)
        with anyio.fail_after(8):  # whoever waits is patient for 10 s
            await free.wait()

    assert [(await store.row(run)).head for run in runs] == [4, 4, 4]
