"""A database as a tool that reads: whatever is asked, it stays as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest

from midflight.journal.phases import Effect
from midflight.tools.declaration import ToolFailed, ToolRefused
from midflight.tools.specs import parse
from midflight.tools.sql import Rows, SqlReader
from stores.backends import postgres_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "shop?mode=rwc.db"
    with closing(sqlite3.connect(found)) as connection:
        connection.executescript(
            "CREATE TABLE tea (name TEXT, price REAL, leaf BLOB); CREATE INDEX names ON tea (name);"
            "INSERT INTO tea VALUES ('green', 3.5, x'00ff'), ('black', 2, NULL);"
        )
    return found


@pytest.fixture
def reader(path: Path, request: pytest.FixtureRequest) -> SqlReader:
    return SqlReader(str(path), name=f"sql-{request.node.name}", timeout_s=5.0)


async def test_a_query_gives_rows_with_values_as_parameters(reader: SqlReader) -> None:
    found = await reader.query("SELECT * FROM tea WHERE price > ? ORDER BY name", [2.5])

    assert found == Rows(["name", "price", "leaf"], [["green", 3.5, "0x00ff"]])
    assert reader.query.effect is Effect.READ
    assert parse(reader.query, '{"sql": "SELECT 1", "params": [1, "a", null]}')


async def test_how_tables_look_can_be_asked(reader: SqlReader) -> None:
    tables = await reader.query("SELECT name FROM sqlite_master WHERE type = 'table'")
    columns = await reader.query("PRAGMA table_info(tea)")

    assert tables.rows == [["tea"]]
    assert [row[1] for row in columns.rows] == ["name", "price", "leaf"]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO tea VALUES ('x', 1, NULL)",
        "WITH a AS (SELECT 1) DELETE FROM tea",
        "UPDATE tea SET price = 0 RETURNING *",
        "DROP TABLE tea",
        "CREATE TEMP TABLE x (y)",
        "ATTACH 'other.db' AS other",
        "VACUUM INTO 'copy.db'",
        "VACUUM",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA user_version = 7",
        "SELECT load_extension('x')",
        "SELECT 1; DROP TABLE tea",
        "BEGIN IMMEDIATE",
        "COMMIT",
        "REINDEX",
        "ANALYZE",
        "SELECT zeroblob(500000000)",
        "SELECT printf('%500000000d', 1)",
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "SELEKT",
        "SELECT ?",
        "",
    ],
    ids=lambda sql: sql[:30] or "nothing",
)
async def test_nothing_is_changed_whatever_the_statement(
    reader: SqlReader, path: Path, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    before = path.read_bytes()

    if sql and not sql.startswith("SELECT printf"):  # of which too much is nothing
        with pytest.raises(ToolFailed, match=r"It was not changed\."):
            await reader.query(sql)
    else:
        assert (await reader.query(sql)).rows in ([], [[None]])

    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


async def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ToolRefused, match=r"no database file absent\.db"):
        await SqlReader(str(tmp_path / "absent.db"), name="sql-absent").query("SELECT 1")

    assert list(tmp_path.iterdir()) == []


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "


async def test_a_long_answer_is_cut_and_says_how_many_rows_are_missing(reader: SqlReader) -> None:
    rows = await reader.query(f"{ENDLESS} i FROM n LIMIT 1234")
    wide = await reader.query(f"{ENDLESS} printf('%5000d', i) FROM n LIMIT 100")
    more = await reader.query(f"{ENDLESS} i FROM n")
    cell = await reader.query("SELECT printf('%50000d', 1)")

    assert (len(rows.rows), rows.note) == (200, "1,034 more rows are not shown")
    assert (len(wide.rows), wide.note) == (20, "80 more rows are not shown")
    assert (len(more.rows), more.note) == (200, "more than 10,000 more rows are not shown")
    assert (len(cell.rows[0][0]), cell.note) == (10_001, "long values are cut")


async def test_a_query_without_end_is_ended_in_time_and_at_once_by_a_cancel(
    path: Path,
) -> None:
    slow = SqlReader(str(path), name="sql-slow", timeout_s=0.3)
    patient = SqlReader(str(path), name="sql-patient", timeout_s=600.0)

    with anyio.fail_after(10), pytest.raises(ToolFailed, match=r"longer than 0\.3 s"):
        await slow.query(f"{ENDLESS} count(*) FROM n")
    with anyio.move_on_after(0.2) as limit:
        await patient.query(f"{ENDLESS} count(*) FROM n")
    assert limit.cancelled_caught


async def test_odd_values_come_as_text(reader: SqlReader) -> None:
    found = await reader.query(
        "SELECT 9e999, CAST(x'ff' AS TEXT), ?, -9223372036854775807 - 1", [1 << 62]
    )

    assert found.rows == [["inf", "�", 1 << 62, "-9223372036854775808"]]
    with pytest.raises(ToolFailed):
        await reader.query("SELECT ?", [1 << 70])


# ── Postgres ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def address() -> Any:
    with postgres_server() as found:
        yield found


@pytest.fixture
async def owner(address: str) -> AsyncIterator[Any]:
    """A connection that may do everything, and a role that owns its table but is no superuser."""
    connection = await asyncpg.connect(address)
    await connection.execute(
        "DROP TABLE IF EXISTS tea; DROP ROLE IF EXISTS clerk; CREATE ROLE clerk LOGIN;"
        "CREATE TABLE tea (name text, price numeric); ALTER TABLE tea OWNER TO clerk;"
        "CREATE SEQUENCE IF NOT EXISTS counter; ALTER SEQUENCE counter OWNER TO clerk;"
        "INSERT INTO tea VALUES ('green', 3.5), ('black', 2);"
    )
    yield connection
    await connection.execute("DROP TABLE IF EXISTS tea; DROP SEQUENCE IF EXISTS counter")
    await connection.execute("DROP ROLE clerk")
    await connection.close()


def as_clerk(address: str, **options: Any) -> SqlReader:
    return SqlReader(
        address.replace("//postgres:@", "//clerk:@").replace("//postgres@", "//clerk@"),
        name=f"sql-clerk-{abs(hash(tuple(options.items())))}",
        **options,
    )


@pytest.mark.postgres
async def test_postgres_gives_rows_too(owner: Any, address: str) -> None:
    reader = as_clerk(address)

    found = await reader.query(
        "SELECT name, price, now() > '2020-01-01' AS late FROM tea WHERE price > $1::int;", [2]
    )
    many = await reader.query("SELECT generate_series(1, 1000) -- all of them")

    assert found == Rows(["name", "price", "late"], [["green", "3.5", True]])
    assert (len(many.rows), many.note) == (200, "800 more rows are not shown")


@pytest.mark.postgres
@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM tea",
        "WITH gone AS (DELETE FROM tea RETURNING *) SELECT * FROM gone",
        "SELECT 1) AS a; DELETE FROM tea; SELECT (1",
        "SELECT 1; DELETE FROM tea",
        "COMMIT",
        "SET TRANSACTION READ WRITE",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT set_config('transaction_read_only', 'off', true), (SELECT count(*) FROM tea)",
        "DO $$ BEGIN DELETE FROM tea; END $$",
        "COPY tea TO PROGRAM 'cat > /dev/null'",
        "SELECT nextval('counter')",
        "SELECT * FROM tea FOR UPDATE",
        "SELECT * INTO other FROM tea",
        "CREATE TABLE x (y int)",
        "SELECT query_to_xml('DELETE FROM tea', true, true, '')",
        "SELECT pg_notify('x', 'y')",
        "SELEKT",
        "",
    ],
    ids=lambda sql: sql[:40] or "nothing",
)
async def test_postgres_is_not_changed_whatever_the_statement(
    owner: Any, address: str, sql: str
) -> None:
    if "pg_notify" in sql:
        await as_clerk(address).query(sql)  # takes place only at a commit, and there is none
    else:
        with pytest.raises(ToolFailed, match=r"It was not changed\."):
            await as_clerk(address).query(sql)

    assert await owner.fetchval("SELECT count(*) FROM tea") == 2
    assert await owner.fetchval("SELECT to_regclass('other')") is None
    assert await owner.fetchval("SELECT is_called FROM counter") is False


@pytest.mark.postgres
async def test_a_superuser_is_refused_unless_a_developer_insists(owner: Any, address: str) -> None:
    with pytest.raises(ToolRefused, match="superuser"):
        await SqlReader(address, name="sql-super").query("SELECT 1")

    insists = SqlReader(address, name="sql-insists", superuser=True)
    assert (await insists.query("SELECT 1")).rows == [[1]]


@pytest.mark.postgres
async def test_a_slow_query_of_postgres_is_ended_and_leaves_nobody_connected(
    owner: Any, address: str
) -> None:
    with anyio.fail_after(15), pytest.raises(ToolFailed, match="timeout"):
        await as_clerk(address, timeout_s=0.3).query("SELECT pg_sleep(100)")
    with anyio.move_on_after(0.3):
        await as_clerk(address).query("SELECT pg_sleep(100)")

    with anyio.fail_after(10):
        while await owner.fetchval(  # each look takes place after a moment's sleep over there
            "SELECT count(*) FROM pg_stat_activity, pg_sleep(0.05) "
            "WHERE application_name = 'midflight sql'"
        ):
            pass


@pytest.mark.postgres
async def test_a_server_that_is_not_there_is_an_error_without_its_password() -> None:
    gone = SqlReader("postgresql://ann:hush@127.0.0.1:1/shop", name="sql-gone")

    with pytest.raises(ToolFailed, match="the database says") as failed:
        await gone.query("SELECT 1")
    assert "hush" not in str(failed.value)
