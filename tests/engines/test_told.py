"""A run that another process has begun is driven soon, and not only at the next sweep."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from midflight import Run, agent, tool
from midflight.agents import Agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.stores.sqlite import SqliteStore
from scenarios.stories import environment

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
NEVER_S = 600.0

STARTER = """
import asyncio, sys, time
from midflight.control import Control
from midflight.stores import open_store
from midflight.control import Control
from midflight.stores import open_store

async def main(address, count):
    async with open_store(address) as store:
        for number in range(count):
            began = time.time()
            run = await Control(store).start("told", f"{began}")
            print(run, flush=True)
            await asyncio.sleep(0.3)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


class Desk:
    """An agent that notes how long after its start its first step has begun."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self.agents = (self._agent(),)

    def _agent(self) -> Agent:
        @tool(effect="read", name="told.note")
        async def note(began: str) -> None:
            self.took.append(time.time() - float(began))  # noqa: TID251 - of another process

        @agent("told")
        async def clerk(run: Run) -> None:
            await run.step("Note", note, run.brief)

        return clerk


@asynccontextmanager
async def serving(path: Path, desk: Desk) -> AsyncIterator[SqliteStore]:
    """A process that drives, and whose next sweep does not come."""
    async with (
        SqliteStore.open(path) as store,
        LocalEngine.open(store, desk.agents, workdir=path.parent, sweep_s=NEVER_S),
    ):
        await anyio.sleep(0.1)  # the first sweep
        yield store


async def until(desk: Desk, count: int) -> None:
    with anyio.fail_after(30):
        while len(desk.took) < count:  # noqa: ASYNC110 - in a tool
            await anyio.sleep(0.01)


async def test_the_first_step_of_a_run_begins_soon_after_another_process_has_started_it(
    tmp_path: Path,
) -> None:
    path, desk, count = tmp_path / "journals.db", Desk(), 5
    async with serving(path, desk):
        starter = await anyio.open_process(
            [sys.executable, "-c", STARTER, str(path), str(count)],
            env=environment(),
            stdout=subprocess.DEVNULL,
        )
        async with starter:
            await until(desk, count)
    assert statistics.median(desk.took) < 0.3


async def test_whoever_has_begun_a_run_to_drive_it_comes_first(tmp_path: Path) -> None:
    path, ours, theirs = tmp_path / "journals.db", Desk(), Desk()
    async with (
        serving(path, theirs),
        SqliteStore.open(path) as store,
        LocalEngine.open(store, ours.agents, workdir=tmp_path) as engine,
    ):
        control = Control(store, engine)
        for _ in range(10):
            await control.ended(await control.start("told", "1"))
    assert theirs.took == []
    assert len(ours.took) == 10
