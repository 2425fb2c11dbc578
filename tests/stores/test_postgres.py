"""What only Postgres can get wrong: addresses, layouts, clocks, batches, leases by time."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import anyio
import asyncpg
import pytest

from midflight.errors import (
    CorruptEntry,
    InvalidRequest,
    JournalConflict,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
    StoreVersion,
)
from midflight.inputs import wall_clock
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.stores.postgres import PostgresStore
from midflight.stores.postgres.kept_states import States
from midflight.stores.postgres.postgres_server import SQL
from midflight.stores.protocol import Query, empty_state
from stores.halfway import stores_wait
from stores.passing import is_renewed
from stores.runs import (
    OLGA,
    RUN,
    Driver,
    created,
    decision,
    pause,
    read_all,
    resume,
    running,
    start,
    started,
)

pytestmark = [pytest.mark.postgres, pytest.mark.anyio]


@pytest.fixture
def schema() -> str:
    return f"test_{uuid4().hex}"


@asynccontextmanager
async def superuser(address: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(address)
    try:
        yield connection
    finally:
        await connection.close()


# ── opening ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "address",
    [
        "mysql://ann:s3cret@db/midflight",
        "postgresql://ann:s3/cret@db/midflight",
        "postgresql://ann:s3#cret@db/midflight",
        "postgresql://ann:35#cret@db/midflight",
        "postgresql://ann:s3?cret@db/midflight",
        "postgresql://ann:s3?c=cret@db/midflight",
        "postgresql://ann:s3[cret@db/midflight",
        "postgresql://ann:s3@cret@db/midflight",
        "postgresql://ann@db:cret/midflight",
        "postgresql:///midflight?port=cret",
        "host=db password=s3cret",
        "",
    ],
)
async def test_an_address_that_cannot_be_one_is_explained_without_repeating_it(
    address: str,
) -> None:
    with pytest.raises(StoreUnavailable, match="must look like postgresql://") as refusal:
        async with PostgresStore.open(address):
            pass

    said = str(refusal.value).replace("password", "").replace(":5432", "")
    assert not {"cret", "s3", "35"} & set(re.findall(r"\w+", said))


async def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(StoreUnavailable) as refusal:
        async with PostgresStore.open("postgresql://ann:s3cret@127.0.0.1:1/books"):
            pass

    assert "database books on 127.0.0.1:1 cannot be reached" in str(refusal.value)
    assert "s3cret" not in str(refusal.value)


async def test_a_database_that_does_not_exist_is_named(postgres_address: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"database books on .* does not exist: create it"):
        async with PostgresStore.open(postgres_address.replace("/postgres?", "/books?")):
            pass


async def test_a_user_who_is_not_let_in_is_named(postgres_address: str) -> None:
    with pytest.raises(StoreUnavailable, match="does not let user nobody in: check user, passw"):
        async with PostgresStore.open(postgres_address.replace("//postgres:", "//nobody:s3cret")):
            pass


async def test_a_user_who_may_not_write_is_told_which_right_is_missing(
    postgres_address: str, schema: str
) -> None:
    async with superuser(postgres_address) as connection:
        await connection.execute(
            "DO $$ BEGIN CREATE ROLE guest LOGIN; EXCEPTION WHEN duplicate_object THEN END $$"
        )

    with pytest.raises(StoreReadOnly, match=f"does not let user guest write to schema {schema}"):
        async with PostgresStore.open(
            postgres_address.replace("//postgres:", "//guest:"), schema=schema
        ):
            pass


async def test_a_newer_layout_is_refused_and_left_alone(postgres_address: str, schema: str) -> None:
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        await start(store)
    async with superuser(postgres_address) as connection:
        await connection.execute(f"UPDATE {schema}.midflight_layout SET version = 99")

    with pytest.raises(StoreVersion, match=f"schema {schema}, has layout 99 .* upgrade"):
        async with PostgresStore.open(postgres_address, schema=schema):
            pass


async def test_a_schema_with_a_strange_name_is_refused(postgres_address: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be the store's schema"):
        async with PostgresStore.open(postgres_address, schema="x; DROP TABLE events"):
            pass


async def test_many_may_open_a_store_that_does_not_exist_yet(
    postgres_address: str, schema: str
) -> None:
    async def enter(number: int) -> None:
        async with PostgresStore.open(postgres_address, schema=schema) as store:
            await start(store, f"r-{number}")

    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(enter, number)

    async with PostgresStore.open(postgres_address, schema=schema) as store:
        assert len(await store.rows(Query())) == 6


async def test_whoever_opens_a_new_store_waits_for_another_who_is_creating_it(
    postgres_address: str, schema: str
) -> None:
    async def enter() -> None:
        async with PostgresStore.open(postgres_address, schema=schema):
            pass

    async with (
        superuser(postgres_address) as connection,
        anyio.create_task_group() as tasks,
    ):
        await connection.execute(SQL["lock_layout"], f"midflight_{schema}")
        tasks.start_soon(enter)
        assert await stores_wait(postgres_address, 1)
        assert not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", schema)
        await connection.execute("SELECT pg_advisory_unlock_all()")


def test_without_asyncpg_the_error_names_what_to_install() -> None:
    program = "import sys; sys.modules['asyncpg'] = None; import midflight.stores.postgres"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert "pip install './midflight[postgres]'" in done.stderr


async def test_a_closed_store_says_so(postgres_address: str, schema: str) -> None:
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        await running(store)

    for late in (store.append(decision(RUN, 3, started("send"))), pause(store), store.row(RUN)):
        with pytest.raises(
            StoreUnavailable, match=r"the store is closed: open it again\. Nothing was changed"
        ):
            await late


async def test_what_a_block_raises_comes_out_as_it_is(postgres_address: str, schema: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with (
            PostgresStore.open(postgres_address, schema=schema) as store,
            store.lease("d-1"),
        ):
            raise ZeroDivisionError


# ── the clock ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wrong_by", [-3600.0, 0.0, 3600.0])
async def test_times_are_the_servers_whatever_our_clock_says(
    postgres_address: str, schema: str, wrong_by: float
) -> None:
    async with PostgresStore.open(
        postgres_address, schema=schema, clock=lambda: wall_clock() + wrong_by
    ) as store:
        await running(store)
        times = [record.at for record in await read_all(store)]

        assert abs(times[-1] - await store.now()) < 2
        assert times == sorted(times)


async def test_a_clock_that_jumps_stamps_nothing_wrong(postgres_address: str, schema: str) -> None:
    ahead = [0.0]
    async with PostgresStore.open(
        postgres_address, schema=schema, clock=lambda: wall_clock() + ahead[0]
    ) as store:
        driver = await running(store)
        for jump in (7200.0, -7200.0, 0.0):
            ahead[0] = jump
            await driver.begins(f"step-{jump}")
            await pause(store)
            await resume(store)
            await driver.reads_again()

        now = await store.now()
        assert all(abs(record.at - now) < 10 for record in await read_all(store))


# ── batches and turns ────────────────────────────────────────────────────────────────────────


async def test_what_the_server_refuses_fails_alone_in_its_batch(
    postgres_address: str, schema: str
) -> None:
    refused: list[int] = []
    async with PostgresStore.open(postgres_address, schema=schema) as store:

        async def begin(number: int) -> None:
            agent = "bad\0name" if number == 7 else "clerk"
            try:
                await store.append(decision(f"r-{number}", 0, created(agent=agent)))
            except StoreError:
                refused.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(begin, number)

        assert refused == [7]
        assert len(await store.rows(Query())) == 19


async def test_two_processes_share_runs_and_lose_nothing(
    postgres_address: str, schema: str
) -> None:
    """Fifty runs, each driven from both sides at once: every position is won once."""
    won: dict[str, list[int]] = {f"r-{number}": [] for number in range(50)}
    async with (
        PostgresStore.open(postgres_address, schema=schema) as here,
        PostgresStore.open(postgres_address, schema=schema) as there,
    ):
        for run in won:
            await running(here, run)

        async def drive(store: PostgresStore, run: str) -> None:
            head = 3
            while len(won[run]) < 8:
                guard = e.GuardSet(epoch=1, name="file", kind="file", fingerprint="")
                try:
                    head = (await store.append(decision(run, head, guard))).position(run)
                    won[run].append(head)
                except JournalConflict as conflict:
                    head = conflict.found

        async with anyio.create_task_group() as tasks:
            for run in won:
                tasks.start_soon(drive, here, run)
                tasks.start_soon(drive, there, run)

        for run, positions in won.items():
            assert sorted(positions) == [r.position for r in await read_all(there, run, 3)]


async def test_turns_come_in_the_order_in_which_they_were_asked_for() -> None:
    states, order = States(), list[str]()
    first = await states.take(["r-a", "r-b"])

    async def wait(name: str, *journals: str) -> None:
        turn = await states.take(journals)
        order.append(name)
        states.leave(turn)

    async with anyio.create_task_group() as tasks:
        for name, journals in (("b", ["r-b"]), ("bc", ["r-b", "r-c"]), ("c", ["r-c"])):
            tasks.start_soon(wait, name, *journals)
            await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0):
            await states.take(["r-a"])  # one who gives up keeps nobody waiting
        assert order == []
        states.leave(first)

    assert order == ["b", "bc", "c"]
    states.leave(await states.take(["r-a", "r-b", "r-c"]))


async def test_states_that_fell_out_are_folded_again() -> None:
    states = States(kept=2)
    for journal in ("r-a", "r-b", "r-c"):
        turn = await states.take([journal])
        states.put(empty_state(journal))
        states.leave(turn)

    assert states.get("r-a") is None
    assert states.get("r-c") is not None


async def test_the_server_compares_heads_whatever_a_client_believes(
    postgres_address: str, schema: str
) -> None:
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        driving = await running(store)
        connection = await asyncpg.connect(
            postgres_address, server_settings={"search_path": schema}
        )
        await connection.execute(
            "UPDATE journals SET head = head + 1"
        )  # as if somebody was quicker
        with pytest.raises(StoreError):
            await driving.decides(e.PlanSet(epoch=1, steps=("a",)))

        assert await connection.fetchval("SELECT count(*) FROM events") == driving.state.head
        await connection.close()


async def test_a_place_and_a_request_can_be_taken_once_whoever_tries(
    postgres_address: str, schema: str
) -> None:
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        await running(store)
    connection = await asyncpg.connect(postgres_address, server_settings={"search_path": schema})
    await connection.execute("CREATE TEMP TABLE copied AS SELECT * FROM events WHERE position = 1")

    with pytest.raises(asyncpg.UniqueViolationError, match="events_pkey"):
        await connection.execute("INSERT INTO events SELECT * FROM copied")
    await connection.execute("UPDATE copied SET position = 99")
    with pytest.raises(asyncpg.UniqueViolationError, match="request"):
        await connection.execute("INSERT INTO events SELECT * FROM copied")
    await connection.close()


async def test_a_kill_reaches_a_run_whose_journal_is_damaged(
    postgres_address: str, schema: str
) -> None:
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        driving = await running(store)
        await running(store, "r-2", driver="d-2")
    connection = await asyncpg.connect(postgres_address, server_settings={"search_path": schema})
    await connection.execute("UPDATE events SET body = 'x' WHERE journal = 'r-1' AND position = 2")
    await connection.close()

    async with PostgresStore.open(postgres_address, schema=schema) as store:
        killing = await store.kill("all", OLGA)

        assert set(killing.killed) == {"r-1", "r-2"}
        assert (await store.row("r-1")).phase == Phase.KILLED
        driving.store = store
        with pytest.raises(CorruptEntry, match="position 2"):
            await driving.decides(e.PlanSet(epoch=1, steps=("a",)))


async def test_those_whom_a_commit_has_answered_share_the_next_one_too(
    postgres_address: str, schema: str
) -> None:
    """They come again after some turns of the loop, as a step does, and find others waiting."""
    writers, steps, turns = 20, 10, 4
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        drivers = [await running(store, f"r-{number}") for number in range(writers)]

        async def work(driver: Driver) -> None:
            for step in range(steps):
                await driver.decides(e.StepSettled(epoch=1, step=f"s#{step}", name="s"))
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as together:
            for driver in drivers:
                together.start_soon(work, driver)
    async with superuser(postgres_address) as connection:
        commits = await connection.fetchval(
            f"SELECT count(DISTINCT xmin::text) FROM {schema}.events WHERE body LIKE '%s#%'"
        )

    assert commits <= 1.5 * steps  # with half of them at a time it would be twice as many


# ── leases ───────────────────────────────────────────────────────────────────────────────────


async def test_a_lease_is_renewed_for_as_long_as_it_is_held(
    postgres_address: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expiry = f"SELECT expires_at FROM {schema}.leases"
    async with (
        PostgresStore.open(postgres_address, schema=schema) as store,
        superuser(postgres_address) as connection,
    ):
        async with store.lease("d-1") as lease:
            before = await connection.fetchval(expiry)
            assert await is_renewed(lease, monkeypatch)
            assert await connection.fetchval(expiry) > before
            assert not await store.lease_gone("d-1")
        assert not lease.held
        assert await store.lease_gone("d-1")
