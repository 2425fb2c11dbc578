"""Runs that step as fast as they can, how fast that is, and raw inserts to compare it with."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

import anyio
import asyncpg

from engines import fleet_world
from midflight.agents import Agent
from midflight.control import Control
from midflight.journal.phases import ENDS
from midflight.stores.protocol import Query

COUNTERS, MANY_STEPS = 50, 100_000  # more than anybody waits for: they are cancelled
RAW_BYTES = 400


@asynccontextmanager
async def stepping(control: Control, kind: Agent = fleet_world.counter) -> AsyncIterator[list[str]]:
    """Runs that step as fast as they can, each of which has begun to, while the block runs."""
    brief = str(MANY_STEPS)
    runs = [await control.start(kind, brief) for _ in range(COUNTERS)]
    for run in runs:
        await control.until(run, lambda state: state.spent.steps > 0)
    yield runs
    for run in runs:
        await control.cancel(run)
    for run in runs:
        await control.ended(run)


async def made(control: Control, runs: list[str]) -> tuple[int, float]:
    """How many steps they have made, and when that was so."""
    asked = time.monotonic()
    rows = [row for row in await control.store.rows(Query(limit=1000)) if row.journal in set(runs)]
    at = (asked + time.monotonic()) / 2
    assert len(rows) == len(runs)
    assert not any(row.phase in ENDS for row in rows), "some have no steps left"
    return sum(row.steps for row in rows), at


async def records_a_step(control: Control, runs: list[str]) -> float:
    """How many events are on record for each of their steps."""
    rows = [await control.store.row(run) for run in runs]
    return sum(row.head for row in rows) / sum(row.steps for row in rows)


async def step_bytes(address: str, control: Control) -> float:
    """What the record of a step has, with its columns, as Postgres counts it."""
    schema = control.store._server._schema  # type: ignore[attr-defined]
    connection = await asyncpg.connect(address)
    try:
        found = await connection.fetchval(
            f"SELECT avg(pg_column_size(e.*)) FROM {schema}.events AS e WHERE body LIKE '%Count%'"
        )
    finally:
        await connection.close()
    return float(found)


def raw_inserts(connections: int) -> int:
    """How many inserts ``raw`` makes."""
    return 2_000 if connections == 1 else 12_000


async def raw(
    address: str,
    connections: int,
    meanwhile: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> float:
    """So many connections in one process, each one INSERT a commit, one after the other.

    They are all open when ``meanwhile`` is entered, and until it has been left.
    """
    async with asyncpg.create_pool(address, min_size=connections, max_size=connections) as pool:
        inserts = raw_inserts(connections)
        await pool.execute("CREATE TABLE raw (n bigint PRIMARY KEY, body text)")
        body, put = "x" * RAW_BYTES, "INSERT INTO raw VALUES ($1, $2)"

        async def insert(first: int) -> None:
            async with pool.acquire() as connection:
                for number in range(first, inserts, connections):
                    await connection.execute(put, number, body)

        with meanwhile():
            began = time.monotonic()
            async with anyio.create_task_group() as together:
                for first in range(connections):
                    together.start_soon(insert, first)
            took = time.monotonic() - began
        await pool.execute("DROP TABLE raw")
    return inserts / took
