"""A query to Postgres in a transaction that reads only, as a part of a SELECT, and rolled back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from midflight.errors import InvalidTool, to_install
from midflight.tools.declaration import ToolFailed, ToolRefused
from midflight.tools.sql_child import Found, Kept

if TYPE_CHECKING:
    from midflight.tools.sql import SqlReader

try:
    import asyncpg
except ImportError as error:
    raise InvalidTool(
        "sql", f"Postgres needs the extra `postgres`: {to_install('postgres')}"
    ) from error

CONNECT_S: Final = 10.0
CLOSE_S: Final = 2.0
BATCH: Final = 100


async def ask(reader: SqlReader, sql: str, params: list[Any]) -> Found:
    """Run one SELECT on a connection of its own, and return its columns, its rows and a note."""
    kept = Kept(reader.rows_max, reader.bytes_max)
    try:
        with anyio.fail_after(reader.timeout_s + CONNECT_S):
            connection = await _connected(reader)
            try:
                await _rows(connection, reader, sql, params, kept)
            finally:
                await _leave(connection)
    except TimeoutError:
        raise ToolFailed(f"the query took longer than {reader.timeout_s:g} s.") from None
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
        raise ToolFailed(f"the database says: {error}. It was not changed.") from None
    return kept.columns, kept.rows, kept.note


async def _connected(reader: SqlReader) -> asyncpg.Connection[Any]:
    milliseconds = str(int(reader.timeout_s * 1000))
    settings = {
        "default_transaction_read_only": "on",
        "statement_timeout": milliseconds,
        "lock_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds,
        "application_name": "midflight sql",
    }
    return await asyncpg.connect(
        reader.source, server_settings=settings, statement_cache_size=0, timeout=CONNECT_S
    )


async def _rows(
    connection: asyncpg.Connection[Any], reader: SqlReader, sql: str, params: list[Any], kept: Kept
) -> None:
    transaction = connection.transaction(readonly=True, isolation="repeatable_read")
    await transaction.start()
    # From the first query on the server lets nobody make the transaction writable again.
    superuser = await connection.fetchval("SELECT current_setting('is_superuser')")
    if superuser == "on" and not reader.superuser:
        raise ToolRefused(
            "this connection is a superuser's, for whom a SELECT may write files and start "
            "programs. Nothing was asked. Use a role that may only read."
        )
    # Within a SELECT there is room for nothing else; the prepared form takes one statement only.
    inner = sql.strip().removesuffix(";")
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
