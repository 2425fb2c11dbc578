"""Processes killed with -9 in the middle of appends: what was acknowledged is there, no holes."""

from __future__ import annotations

import random

import anyio
import pytest

from midflight.journal.events import StepSettled
from midflight.journal.phases import Phase
from midflight.stores import open_store
from midflight.stores.commit import summary
from midflight.stores.protocol import Store
from stores.programs import next_line, started
from stores.runs import cancel, drive, positions, read_all

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(180)]

KILLS = 25


@pytest.mark.parametrize(
    "address", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
async def test_every_acknowledged_event_survives_kill_9_of_the_appending_process(
    address: str,
) -> None:
    chance = random.Random(25)
    for number in range(KILLS):
        run = f"r-crash-{chance.getrandbits(48)}-{number}"
        with started("appender.py", address, run) as process:
            told = 0
            for _ in range(chance.randrange(1, 60)):
                told = int(await anyio.to_thread.run_sync(next_line, process))
            process.kill()
            assert process.stdout is not None
            rest = process.stdout.read().split()  # acknowledged, but not yet read by us
            told = max([told, *map(int, rest)])
        async with open_store(address) as store:
            await _holds(store, run, told)


async def _holds(store: Store, run: str, acknowledged: int) -> None:
    """The journal is whole up to what was promised, and goes on as if nothing had happened."""
    records = await read_all(store, run)
    assert positions(records) == list(range(1, len(records) + 1))
    assert len(records) >= acknowledged
    row = await store.row(run)
    assert row == summary(await store.load(run))
    successor = await drive(store, run, driver=f"after-{run}")
    await successor.decides(StepSettled(epoch=successor.epoch, step="more#1", name="more"))
    await cancel(store, run)
    await successor.finishes("cancelled")
    assert (await store.row(run)).phase == Phase.CANCELLED
