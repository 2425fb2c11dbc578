"""One of two workers that a bad engine has told of every run, as a process of its own.

    python contested.py STORE WORKDIR < RUNS

It claims whatever it is told of, also from a worker that lives: to it every other driver is gone.
So two drivers of a run are alive at once, each sure of its lease. On SQLite, where death is proved
by a lock that no engine can be wrong about, it claims only what is free.

Before an attempt is written down it says so and waits a little, so that somebody can press then;
and a little more until it hears that it was.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
from msgspec.structs import replace
from typing_extensions import override

from midflight.engines.local_engine import LocalEngine
from midflight.journal import events as e
from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Append, Committed, Draft, Store, Submit, View
from midflight.stores.sqlite import SqliteStore
from scenarios.torture_world import clerk

READY = "ready"
WAITS_S, LAGS_S = 0.015, 0.005
chance = random.Random(os.getpid())


async def slowly(append: Callable[[Append], Awaitable[Committed]], decision: Append) -> Committed:
    """Say which run's attempt is about to be written down; its answer takes a while, too."""
    starts = [
        entry.journal
        for entry in decision.entries
        if any(isinstance(event, e.AttemptStarted) for event in entry.events)
    ]
    if not starts:
        return await append(decision)
    os.write(1, "".join(f"{run}\n" for run in starts).encode())
    await anyio.sleep(chance.random() * WAITS_S)
    done = await append(decision)
    await anyio.sleep(chance.random() * LAGS_S)
    return done


class Thief(PostgresStore):
    """Under which nobody else lives."""

    @override
    async def append(self, decision: Append) -> Committed:
        return await slowly(super().append, decision)

    @override
    async def submit(self, request: Submit) -> Committed:
        def believed(view: View) -> Draft:
            return request.decide(replace(view, gone=frozenset(request.leases)))

        return await super().submit(replace(request, decide=believed))

    @override
    async def lease_gone(self, driver: str) -> bool:
        return True


class OnFile(SqliteStore):
    """Believes its locks."""

    @override
    async def append(self, decision: Append) -> Committed:
        return await slowly(super().append, decision)


def opened(address: str) -> AbstractAsyncContextManager[Store]:
    """Of a file, or of ``ADDRESS schema=NAME``."""
    dsn, _, schema = address.partition(" schema=")
    return Thief.open(dsn, schema=schema) if schema else OnFile.open(address)


async def lines() -> AsyncIterator[str]:
    reader = asyncio.StreamReader(limit=1 << 20)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while line := await reader.readline():
        yield line.decode().strip()


@asynccontextmanager
async def driving(address: str, workdir: Path) -> AsyncIterator[LocalEngine]:
    async with (
        opened(address) as store,
        LocalEngine.open(store, [clerk], workdir=workdir, sweep_s=0.05, drain_s=1.0) as engine,
    ):
        yield engine


async def main(address: str, workdir: str) -> None:
    async with driving(address, Path(workdir)) as engine:
        os.write(1, f"{READY}\n".encode())
        async for run in lines():
            await engine.ensure(run)


if __name__ == "__main__":
    logging.getLogger(
        "midflight.runtime.steps.step_recovery"
    ).disabled = True  # its tools fail on purpose
    asyncio.run(main(*sys.argv[1:]))
