"""Questions to a database as a tool that cannot change it, whatever the statement says.

The connection reads only; the statement is not inspected for that. SQLite: the file is opened for
reading and an authorizer allows nothing but reading tables, in a process that is bounded in memory
and files and is ended when time is up. Postgres: one statement, by a protocol that takes no second
one, as a part of a SELECT, in a transaction that was begun read only and is rolled back. There the
role decides what a *function* may do: give a role that may only read. Superusers are refused,
because for them some functions write files and start programs.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from msgspec import Struct

from midflight import store_files
from midflight.errors import InvalidTool, ProcessNotStarted, to_install
from midflight.tools import sql_child
from midflight.tools.declaration import Tool, ToolFailed, ToolRefused, tool
from midflight.tools.processes.process import run_process
from midflight.tools.shell import PASSED_ON
from midflight.tools.sql_child import Found, Kept

if TYPE_CHECKING:
    import asyncpg


CHILD: Final = str(Path(sql_child.__file__))
AT_ONCE: Final = 4  # queries of this process; each takes up to its bound of memory
ANSWER_BESIDES: Final = 16_000_000  # bytes of an answer beside its values: names, signs, brackets
SQL_MAX: Final = 100_000
ROWS_MAX: Final = 200
BYTES_MAX: Final = 100_000
MEMORY_BYTES_MAX: Final = 256_000_000  # of a query to SQLite, with what it sorts and groups
TIMEOUT_S: Final = 30.0
CONNECT_S: Final = 10.0
CLOSE_S: Final = 2.0
BATCH: Final = 100

_turns: RunVar[anyio.Semaphore] = RunVar("midflight_sqlite_queries")

Param = str | int | float | bool | None


class Rows(Struct, frozen=True):
    """The result of a query."""

    columns: list[str]
    rows: list[list[Any]]
    note: str = ""


class SqlReader(Struct, frozen=True):
    """A database to ask, and the bounds of an answer.

    ``source`` is the path of a SQLite file, or ``postgresql://…``.
    """

    source: str
    name: str = "sql"
    rows_max: int = ROWS_MAX
    bytes_max: int = BYTES_MAX
    timeout_s: float = TIMEOUT_S
    memory_bytes_max: int = MEMORY_BYTES_MAX
    superuser: bool = False
    untrusted: bool = False
    """True if strangers may have written the content of the database."""

    @property
    def query(self) -> Tool:
        """The tool for a model."""
        declare = tool(
            effect="read",
            name=f"{self.name}.query",
            timeout=self.timeout_s + 15.0,
            untrusted=self.untrusted,
        )
        return declare(self._query)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tool in a list, as other classes of tools give theirs."""
        return (self.query,)

    async def _query(self, sql: str, params: list[Param] | None = None) -> Rows:
        """Ask the database with one SELECT statement. It can be read and not changed.

        How tables look: ``SELECT sql FROM sqlite_master`` in SQLite, ``information_schema`` in
        Postgres.

        Values go into ``params``: SQLite takes them at each ?, Postgres at $1, $2 and so on. Of a
        long answer the first rows are given, and how many more there are.
        """
        if len(sql) > SQL_MAX or "\0" in sql:
            raise ToolRefused(
                f"the statement is longer than {SQL_MAX:,} characters, or has a zero byte in it. "
                "Nothing was asked."
            )
        if self.source.startswith(("postgres://", "postgresql://")):
            found = await _ask_postgres(self, sql, params or [])
        else:
            found = await _ask_sqlite(self, sql, params or [])
        return Rows(*found)


# ── SQLite ───────────────────────────────────────────────────────────────────────────────────


async def _ask_sqlite(reader: SqlReader, sql: str, params: list[Any]) -> Found:
    """Run one statement in ``sql_child.py``, a process that is ended when time is up."""
    asked = {
        "path": await anyio.to_thread.run_sync(_path, reader.source),
        "sql": sql,
        "params": params,
        "rows_max": reader.rows_max,
        "bytes_max": reader.bytes_max,
        "memory_bytes_max": reader.memory_bytes_max,
    }
    async with _turn():
        answer = await _answer(reader, json.dumps(asked).encode())
    if (why := answer.get("error")) is not None:
        if "memory" in why:
            most = f"{reader.memory_bytes_max // 1_000_000:,} MB"
            why = f"the query needs more than {most} of memory. Sort or group less"
        raise ToolFailed(f"the database says: {why}. It was not changed.")
    return answer["columns"], answer["rows"], answer["note"]


def _path(source: str) -> str:
    path = Path(source.removeprefix("sqlite:")).absolute()
    if not path.is_file():
        raise ToolRefused(f"there is no database file {path.name}. Nothing was read.")
    if store_files.is_open_at(path):
        raise ToolRefused(f"{path.name} {store_files.WHY}. Nothing was read.")
    return str(path)


async def _answer(reader: SqlReader, asked: bytes) -> dict[str, Any]:
    try:
        ended = await run_process(  # layer query-to-sqlite-ended-when-time
            [sys.executable, "-I", "-S", "-X", "utf8", CHILD],
            env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
            stdin=asked,
            on_output=lambda _stream, _data: None,
            output_max=8 * reader.bytes_max + ANSWER_BESIDES,
            timeout_s=reader.timeout_s,
        )
    except ProcessNotStarted as error:
        raise ToolRefused(f"{error} Nothing was read.") from error
    if ended.timed_out:
        raise ToolFailed(_too_long(reader))
    try:
        answer: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        raise ToolFailed(
            f"the process that asks the database {ended.how()} without an answer, perhaps for want "
            "of memory. The database was not changed."
        ) from None
    return answer


def _too_long(reader: SqlReader) -> str:
    return (
        f"the query took longer than {reader.timeout_s:g} s and was given up: ask for less. The "
        "database was not changed."
    )


def _turn() -> anyio.Semaphore:
    try:
        return _turns.get()
    except LookupError:
        _turns.set(anyio.Semaphore(AT_ONCE))
        return _turns.get()


# ── Postgres ─────────────────────────────────────────────────────────────────────────────────


async def _ask_postgres(reader: SqlReader, sql: str, params: list[Any]) -> Found:
    """Run one SELECT on a connection of its own, and return its columns, its rows and a note.

    The transaction reads only, the statement is a part of a SELECT, and all of it is rolled back.
    """
    asyncpg = _asyncpg()
    kept = Kept(reader.rows_max, reader.bytes_max)
    try:
        with anyio.fail_after(reader.timeout_s + CONNECT_S):
            connection = await _connected(reader)
            try:
                await _rows(connection, reader, sql, params, kept)
            finally:
                await _leave(connection)
    except TimeoutError:
        raise ToolFailed(_too_long(reader)) from None
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
        raise ToolFailed(f"the database says: {error}. It was not changed.") from None
    return kept.columns, kept.rows, kept.note


def _asyncpg() -> ModuleType:
    """Import the driver for Postgres, which is an extra."""
    try:
        import asyncpg
    except ImportError as error:
        raise InvalidTool(
            "sql", f"Postgres needs the extra `postgres`: {to_install('postgres')}"
        ) from error
    return asyncpg


async def _connected(reader: SqlReader) -> asyncpg.Connection[Any]:
    milliseconds = str(int(reader.timeout_s * 1000))
    settings = {
        "default_transaction_read_only": "on",
        "statement_timeout": milliseconds,
        "lock_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds,
        "application_name": "midflight sql",
    }
    connection: asyncpg.Connection[Any] = await _asyncpg().connect(
        reader.source, server_settings=settings, statement_cache_size=0, timeout=CONNECT_S
    )
    return connection


async def _rows(
    connection: asyncpg.Connection[Any], reader: SqlReader, sql: str, params: list[Any], kept: Kept
) -> None:
    transaction = connection.transaction(readonly=True, isolation="repeatable_read")
    await transaction.start()
    # From the first query on the server lets nobody make the transaction writable again.
    superuser = await connection.fetchval("SELECT current_setting('is_superuser')")
    if superuser == "on" and not reader.superuser:  # layer postgres-not-asked-by-model
        raise ToolRefused(
            "this connection is a superuser's, for whom a SELECT may write files and start "
            "programs. Nothing was asked. Use a role that may only read."
        )
    # Within a SELECT there is room for nothing else; the prepared form takes one statement only.
    inner = sql.strip().removesuffix(";")
    # layer postgres-takes-select-of-model
    statement = await connection.prepare(f"SELECT * FROM (\n{inner}\n) AS asked")  # noqa: S608
    kept.columns = [attribute.name for attribute in statement.get_attributes()]
    async for row in statement.cursor(*params, prefetch=BATCH):
        kept.add(row.values())
        if kept.enough:
            break


async def _leave(connection: asyncpg.Connection[Any]) -> None:
    """Close the connection, which rolls back; leave a server alone that does not answer."""
    with suppress(Exception), anyio.move_on_after(CLOSE_S, shield=True):
        await connection.close(timeout=CLOSE_S)
    if not connection.is_closed():
        connection.terminate()
