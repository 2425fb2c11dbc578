"""From one layout to the next: in order, all of it or nothing, and no journal is lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import anyio
import asyncpg
import pytest

from midflight.audit import Deed
from midflight.errors import StoreUnavailable
from midflight.stores.postgres import PostgresStore, postgres_server
from midflight.stores.protocol import Store
from midflight.stores.sqlite import SqliteStore, sqlite_file
from stores.halfway import by_hand
from stores.programs import next_line, started
from stores.runs import cancel, names, pause, read_all, running

pytestmark = pytest.mark.anyio

STEPS = (
    "CREATE TABLE notes (note TEXT)",
    "ALTER TABLE notes ADD COLUMN half_way TEXT;\nCREATE INDEX notes_half_way ON notes (half_way)",
)
"""Two layouts that may come one day; the second cannot be reached but from the first."""

NEXT_SQLITE = (*sqlite_file.MIGRATIONS, *STEPS)
NEXT_POSTGRES = (*postgres_server.MIGRATIONS, *STEPS)
TODAY = len(sqlite_file.MIGRATIONS)
"""The layout of this version; Postgres has the same number."""


async def still_works(store: Store) -> None:
    """The run of the older layout is there, and takes what comes."""
    head = (await store.row("r-1")).head
    await (pause if head == 3 else cancel)(store)
    assert names(await read_all(store))[:3] == ["run.created", "driver.claimed", "run.entered"]
    assert (await store.row("r-1")).head == head + 1


# ── SQLite ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A file of today's layout with a run in it."""
    path = tmp_path / "journals.db"
    async with SqliteStore.open(path) as store:
        await running(store)
    return path


def layout_of(path: Path) -> tuple[int, list[str]]:
    with closing(sqlite3.connect(path)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        columns = db.execute("SELECT name FROM pragma_table_info('notes')").fetchall()
    return version & 0xFF, [name for (name,) in columns]  # above it is the mark of the store


async def test_sqlite_takes_the_steps_that_are_missing_in_order(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for known in (TODAY + 1, TODAY + 2):
        monkeypatch.setattr(sqlite_file, "MIGRATIONS", NEXT_SQLITE[:known])
        async with SqliteStore.open(path) as store:
            await still_works(store)

    assert layout_of(path) == (TODAY + 2, ["note", "half_way"])


async def test_sqlite_takes_two_steps_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", NEXT_SQLITE)
    async with SqliteStore.open(path) as store:
        await still_works(store)

    assert layout_of(path) == (TODAY + 2, ["note", "half_way"])


async def test_sqlites_first_layout_gets_an_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.db"
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", sqlite_file.MIGRATIONS[:1])
    async with SqliteStore.open(path) as store:
        await running(store)
    assert layout_of(path) == (1, [])
    monkeypatch.undo()

    async with SqliteStore.open(path) as store:
        await still_works(store)
        await store.audit(Deed(id="d-1", action="login"))
        assert (await store.audit_head()).number == 1


@pytest.mark.slow
async def test_who_is_killed_in_the_middle_leaves_sqlites_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started("migrator.py", str(path)) as process:
        assert next_line(process) == "half-way"

    assert layout_of(path) == (TODAY, [])
    async with SqliteStore.open(path) as store:
        await still_works(store)
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", NEXT_SQLITE)
    async with SqliteStore.open(path) as store:
        await still_works(store)
    assert layout_of(path) == (TODAY + 2, ["note", "half_way"])


# ── Postgres ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def schema(postgres_address: str) -> str:
    """Tables of today's layout with a run in them."""
    schema = f"test_{uuid4().hex}"
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        await running(store)
    return schema


async def layout_in(address: str, schema: str) -> tuple[int, list[str]]:
    async with by_hand(address, schema) as connection:
        version = await connection.fetchval("SELECT version FROM midflight_layout")
        columns = await connection.fetch(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = $1 AND table_name = 'notes' ORDER BY ordinal_position",
            schema,
        )
    return version & 0xFF, [name for (name,) in columns]  # above it is the mark of the store


@pytest.mark.postgres
@pytest.mark.parametrize(
    "stages", [(TODAY + 1, TODAY + 2), (TODAY + 2,)], ids=["one by one", "two at once"]
)
async def test_postgres_takes_the_steps_that_are_missing_in_order(
    postgres_address: str, schema: str, monkeypatch: pytest.MonkeyPatch, stages: tuple[int, ...]
) -> None:
    for known in stages:
        monkeypatch.setattr(postgres_server, "MIGRATIONS", NEXT_POSTGRES[:known])
        async with PostgresStore.open(postgres_address, schema=schema) as store:
            await still_works(store)

    assert await layout_in(postgres_address, schema) == (TODAY + 2, ["note", "half_way"])


@pytest.mark.postgres
async def test_the_first_layout_of_postgres_gets_an_audit(
    postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = f"test_{uuid4().hex}"
    connection = await asyncpg.connect(postgres_address)
    await connection.execute(
        f"CREATE SCHEMA {schema}; SET search_path = {schema}; {postgres_server.MIGRATIONS[0]};"
        "INSERT INTO midflight_layout VALUES (1)"
    )
    await connection.close()

    async with PostgresStore.open(postgres_address, schema=schema) as store:
        await running(store)
        await still_works(store)
        await store.audit(Deed(id="d-1", action="login"))
        assert (await store.audit_head()).number == 1


@pytest.mark.postgres
async def test_who_dies_in_the_middle_leaves_postgres_tables_as_they_were(
    postgres_address: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = postgres_server.MIGRATIONS
    stuck = (*NEXT_POSTGRES[: TODAY + 1], f"{STEPS[1]};\nSELECT pg_sleep(50)")

    async def open_and_die() -> None:
        with pytest.raises(StoreUnavailable):
            async with PostgresStore.open(postgres_address, schema=schema):
                pass

    monkeypatch.setattr(postgres_server, "MIGRATIONS", stuck)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(open_and_die)
        with anyio.fail_after(10):
            await end_who_sleeps(postgres_address)

    assert await layout_in(postgres_address, schema) == (TODAY, [])
    for migrations in (today, NEXT_POSTGRES):
        monkeypatch.setattr(postgres_server, "MIGRATIONS", migrations)
        async with PostgresStore.open(postgres_address, schema=schema) as store:
            await still_works(store)
    assert await layout_in(postgres_address, schema) == (TODAY + 2, ["note", "half_way"])


async def end_who_sleeps(address: str) -> None:
    """End the connection that is in the middle of its migration, as a crash would."""
    end = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE application_name = 'midflight' AND wait_event = 'PgSleep'"
    )
    connection = await asyncpg.connect(address)
    while not await connection.fetchval(end):  # noqa: ASYNC110 - the server's
        await anyio.sleep(0.01)
    await connection.close()
