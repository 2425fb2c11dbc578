"""Workers that die, freeze or leave while they drive: real processes on a real Restate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from engines import fleet_world
from engines.faults import audit, losing_workers
from engines.fleet import Fleet, fleet
from engines.hosts import RestateServer
from midflight.control import Control
from midflight.engines.restate import RestateEngine
from midflight.stores.postgres import PostgresStore

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.postgres,
    pytest.mark.node,
    pytest.mark.timeout(120),
]

At = tuple[Control, Fleet]
Hired = Callable[..., AbstractAsyncContextManager[At]]


@pytest.fixture
def hired(restate: RestateServer, postgres_address: str, tmp_path: Path) -> Hired:
    """Some workers, and somebody at a desk elsewhere who controls what they drive."""
    name = uuid4().hex

    @asynccontextmanager
    async def at_work(size: int) -> AsyncIterator[At]:
        store = f"{postgres_address}&schema=test_{name}"
        agents = [fleet_world.busy, fleet_world.lingerer, fleet_world.teller]
        async with (
            PostgresStore.open(postgres_address, schema=f"test_{name}") as opened,
            fleet(restate, f"Run{name}", store, tmp_path, size=size) as workers,
            RestateEngine.open(opened, agents, workers.restate) as engine,
        ):
            with anyio.fail_after(100):
                yield Control(opened, engine), workers

    return at_work


async def test_a_killed_workers_runs_go_on_elsewhere_and_nothing_happens_twice(
    hired: Hired,
) -> None:
    async with hired(3) as (control, workers):
        told = await losing_workers(control, workers, runs=12, times=3)

        assert await audit(control, workers, told) == {}
        assert told.takeovers


async def test_a_frozen_worker_that_wakes_decides_nothing_and_begins_nothing_new(
    hired: Hired,
) -> None:
    async with hired(3) as (control, workers):
        told = await losing_workers(control, workers, runs=12, times=2, how="freeze")

        assert await audit(control, workers, told) == {}
        assert told.takeovers
