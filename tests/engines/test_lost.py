"""Workers that die, freeze or leave while they drive: real processes on a real Restate."""

from __future__ import annotations

import anyio
import pytest

from engines import fleet_world
from engines.conftest import Hired
from engines.faults import audit, losing_workers

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.postgres,
    pytest.mark.node,
    pytest.mark.timeout(120),
]


async def test_a_killed_workers_runs_go_on_elsewhere_and_nothing_happens_twice(
    hired: Hired,
) -> None:
    async with hired(3) as (control, workers):
        told = await losing_workers(control, workers, runs=12, times=2)

        assert await audit(control, workers, told) == {}
        assert told.takeovers


async def test_a_frozen_worker_that_wakes_decides_nothing_and_begins_nothing_new(
    hired: Hired,
) -> None:
    async with hired(3) as (control, workers):
        told = await losing_workers(control, workers, runs=12, times=1, how="freeze")

        assert await audit(control, workers, told) == {}
        assert told.takeovers


async def test_a_worker_that_is_told_to_leave_hands_its_runs_over_and_ends(hired: Hired) -> None:
    async with hired(2) as (control, workers):
        runs = [await control.start(fleet_world.busy, str(n)) for n in range(8)]
        await anyio.sleep(1)
        driven = {(await control.store.row(run)).driver: run for run in runs}
        assert set(driven) == {hand.driver for hand in workers.hands}

        assert await workers.hands[0].leave() == 0

        workers.enough()
        for run in runs:
            await control.ended(run)
            assert "worker lost" not in str(await control.receipt(run))
