"""A query to Postgres in a transaction that reads only, as a part of a SELECT, and rolled back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from midflight.errors import InvalidTool
from midflight.tools.base import ToolFailed, ToolRefused

if TYPE_CHECKING:
    from midflight.tools.sql import Kept, SqlReader

try:
    import asyncpg
except ImportError as error:
    raise InvalidTool(
        "sql", "Postgres needs the extra `postgres`: pip install 'midflight[postgres]'"
    ) from error

CONNECT_S: Final = 10.0
CLOSE_S: Final = 2.0
BATCH: Final = 100


async def ask(reader: SqlReader, sql: str, params: list[Any], kept: Kept) -> None:
    """Run one SELECT and keep its rows, on a connection of its own."""
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
    """Closing rolls back; a server that does not answer is left alone."""
    with suppress(Exception), anyio.move_on_after(CLOSE_S, shield=True):
        await connection.close(timeout=CLOSE_S)
    if not connection.is_closed():
        connection.terminate()
