"""Transactions of Postgres stopped half-way, so that a race has one outcome and not two."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import anyio
import asyncpg

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

TAKE_A_PLACE: Final = """
INSERT INTO events (journal, position, at, version, must_understand, checksum, requested, body)
VALUES ($1, $2, 0, 1, false, 0, false, '')
"""
WAITING: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'midflight' AND wait_event_type = 'Lock'
"""


@asynccontextmanager
async def by_hand(address: str, schema: str) -> AsyncIterator[Connection]:
    """Somebody with plain SQL, whose tables are the store's."""
    connection = await asyncpg.connect(address, server_settings={"search_path": schema})
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def not_committed(
    address: str, schema: str, statement: str, *arguments: Any, keep: bool = False
) -> AsyncIterator[None]:
    """A statement whose transaction ends with the block: taken back, unless it is to be kept."""
    async with by_hand(address, schema) as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(statement, *arguments)
        try:
            yield
        finally:
            await (transaction.commit() if keep else transaction.rollback())


@asynccontextmanager
async def half_way(address: str, schema: str, journal: str, position: int) -> AsyncIterator[None]:
    """Whoever appends at this place has locked and judged, and commits when the block ends."""
    async with not_committed(address, schema, TAKE_A_PLACE, journal, position):
        yield


async def stores_wait(address: str, count: int, patience_s: float = 20.0) -> bool:
    """Wait until so many statements of stores wait for a lock; False if that never happens."""
    connection = await asyncpg.connect(address)
    try:
        with anyio.move_on_after(patience_s):
            while await connection.fetchval(WAITING) != count:  # noqa: ASYNC110 - the server's
                await anyio.sleep(0.01)
            return True
        return False
    finally:
        await connection.close()
