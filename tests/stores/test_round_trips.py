"""How often a driver goes to Postgres for its steps: each statement is a trip and a commit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final
from uuid import uuid4

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.run import Run
from midflight.stores.postgres import PostgresStore
from midflight.stores.postgres.postgres_server import SQL
from midflight.tools.declaration import tool

pytestmark = [pytest.mark.postgres, pytest.mark.anyio]

STEPS: Final = 40
WARM: Final = 5  # steps until the connections for writing are there, and know their statements
BESIDE: Final = {"renew_lease", "due", "clock"}  # goes by time, and not by steps
NAMES: Final = {statement: name for name, statement in SQL.items()}


async def statements(address: str, folder: Path, runs: int) -> Counter[str]:
    """What goes to the server while some runs do ``STEPS`` steps each that touch the world."""
    found, warm, done = Counter[str](), list[str](), list[str]()
    go, over = anyio.Event(), anyio.Event()

    @tool(effect="write", name="trips.put")
    async def put(number: int) -> int:
        return number

    @agent("trips.putter")
    async def putter(run: Run) -> None:
        for number in range(WARM):
            await run.step(f"Warm up {number}", put, number)
        warm.append(run.id)
        await go.wait()
        for number in range(STEPS):
            await run.step(f"Put {number}", put, number)
        done.append(run.id)
        await over.wait()

    async with (
        PostgresStore.open(address, schema=f"test_{uuid4().hex}") as store,
        LocalEngine.open(store, [putter], workdir=folder, sweep_s=3600.0) as engine,
    ):
        control = Control(store, engine)
        begun = [await control.start(putter, "Put it there") for _ in range(runs)]
        with anyio.fail_after(60):
            while len(warm) < runs:  # noqa: ASYNC110 - counted from outside
                await anyio.sleep(0.05)
            for link in store._links:
                if link._connection is not None:
                    link._connection.add_query_logger(lambda query: found.update([query.query]))
            go.set()
            while len(done) < runs:  # noqa: ASYNC110
                await anyio.sleep(0.05)
        told = Counter({NAMES.get(statement, statement): n for statement, n in found.items()})
        over.set()
        for run in begun:
            await control.ended(run)
    return Counter({name: n for name, n in told.items() if name not in BESIDE})


async def test_a_step_is_one_round_trip_with_its_outcome_in_the_next_one(
    postgres_address: str, tmp_path: Path
) -> None:
    sent = await statements(postgres_address, tmp_path, runs=1)

    assert set(sent) == {"append_few"}
    assert STEPS <= sent.total() <= 1.1 * STEPS


async def test_steps_of_many_runs_share_round_trips(postgres_address: str, tmp_path: Path) -> None:
    runs = 20
    sent = await statements(postgres_address, tmp_path, runs)

    assert set(sent) <= {"append_few", "append_steps"}
    assert sent["append_steps"] > 0
    assert sent.total() <= 0.5 * runs * STEPS
