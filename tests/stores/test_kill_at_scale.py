"""Two thousand live runs are killed at once while other processes start more."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack

import anyio
import pytest

from midflight.journal.phases import IN_MOTION
from midflight.stores import open_store
from midflight.stores.protocol import Query, Store
from stores.programs import next_line, started
from stores.runs import OLGA, running

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(180)]

LIVE = 2_000
STARTERS = 3


async def live_runs(store: Store, count: int) -> None:
    numbers = iter(range(count))

    async def make() -> None:
        for number in numbers:
            driver = await running(store, f"r-live-{number:05}", driver="d-live")
            await driver.begins()

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(make)


def said_by(process: subprocess.Popen[str]) -> str:
    """Everything it still has to say until it ends by itself."""
    return process.communicate(timeout=60)[0]


@pytest.mark.parametrize(
    "address", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
async def test_nothing_begins_after_the_acknowledgement_but_what_it_lists(address: str) -> None:
    async with open_store(address) as store:
        await live_runs(store, LIVE)
        with ExitStack() as stack:
            starters = [
                stack.enter_context(started("starter.py", address, f"s{number}"))
                for number in range(STARTERS)
            ]
            for starter in starters:  # each is in the middle of starting and beginning
                await anyio.to_thread.run_sync(next_line, starter)
            killing = await store.kill("all", OLGA)
            acknowledged = time.monotonic_ns()
            told = [await anyio.to_thread.run_sync(said_by, starter) for starter in starters]
        rows = await store.rows(Query(phases=tuple(IN_MOTION), limit=10))
        await store.release("all", OLGA)

    began = [line.split() for text in told for line in text.splitlines()]
    late = [(run, int(at)) for run, at, when in began if int(when) > acknowledged]
    assert len(killing.killed) >= LIVE
    assert all(position in killing.killed[run] for run, position in late)
    assert rows == []
