"""A clerk who sends an order over a real connection, and the provider who acts on it later.

    python post_office.py PORT WORKDIR PATH              drives a run of the clerk on SQLite
    python post_office.py PORT WORKDIR ADDRESS SCHEMA    or on Postgres

It prints the run's id, and is then killed or frozen by the test.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import anyio

from midflight.agents import agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.run import Run
from midflight.stores.postgres import PostgresStore
from midflight.stores.sqlite import SqliteStore
from midflight.tools.declaration import Done, NotDone, tool
from midflight.tools.options import EffectRecord

ACTS_AFTER_S: Final = 0.3
SETTLES_WITHIN_S: Final = 1.5
LEASE_S: Final = 1.0


async def look_up(performed: EffectRecord) -> object:
    (port,) = performed.args
    answers, request = await asyncio.open_connection("127.0.0.1", port)
    request.write(f"GET {performed.key}\n".encode())
    answer = await answers.readline()
    request.close()
    return Done("ordered") if answer == b"yes\n" else NotDone()


@tool(
    effect="once",
    name="post_office.order",
    label="order",
    check=look_up,
    settles_within=SETTLES_WITHIN_S,
)
async def order(port: int, idempotency_key: str = "") -> None:
    answers, request = await asyncio.open_connection("127.0.0.1", port)
    request.write(f"POST {idempotency_key}\n".encode())
    await answers.readline()  # which never comes


@agent("post_office.clerk")
async def clerk(run: Run) -> Any:
    return await run.step("Order", order, int(run.brief))


class Provider:
    """Takes an order at once, writes it into its ledger later, and answers only who looks it up.

    It acts ``ACTS_AFTER_S`` after an order has come, and not before it may.
    """

    def __init__(self) -> None:
        self.port = 0
        self.sent: list[str] = []
        self.ledger: list[str] = []
        self.came, self.may_act, self.acted = anyio.Event(), anyio.Event(), anyio.Event()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Provider]:
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield self

    async def _serve(self, request: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        verb, key = (await request.readline()).decode().split()
        if verb == "GET":
            answers.write(b"yes\n" if key in self.ledger else b"no\n")
        else:
            self.sent.append(key)
            self.came.set()
            await asyncio.sleep(ACTS_AFTER_S)
            await self.may_act.wait()
            self.ledger.append(key)
            self.acted.set()
            await request.read()
        answers.close()


def opened(where: str, schema: str = "") -> AbstractAsyncContextManager[Any]:
    if schema:
        return PostgresStore.open(where, schema=schema, lease_s=LEASE_S)
    return SqliteStore.open(where)


@asynccontextmanager
async def driving(workdir: str, *where: str) -> AsyncIterator[Control]:
    async with (
        opened(*where) as store,
        LocalEngine.open(store, [clerk], workdir=workdir, sweep_s=0.05, drain_s=0.1) as engine,
    ):
        yield Control(store, engine)


async def main(port: str, workdir: str, *where: str) -> None:
    async with driving(workdir, *where) as control:
        sys.stdout.write(f"{await control.start(clerk, port)}\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
