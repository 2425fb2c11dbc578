"""A program that keeps a store as busy as one process can, with many runs at once.

    python saturator.py ADDRESS RUNS

Says "busy" once it is under way, and goes on until it is ended.
"""

from __future__ import annotations

import asyncio
import sys

import anyio
from msgspec import Raw

from midflight.journal.events import StepSettled
from midflight.stores import open_store
from midflight.stores.protocol import Store
from stores.runs import Driver, running

PAYLOAD = Raw(b'"' + b"x" * 198 + b'"')


async def step_for_ever(driving: Driver) -> None:
    number = 0
    while True:
        number += 1
        await driving.decides(
            StepSettled(epoch=1, step=f"step#{number}", name="step", result=PAYLOAD)
        )


async def main(address: str, runs: int) -> None:
    async with open_store(address) as store, anyio.create_task_group() as tasks:
        for number in range(runs):
            tasks.start_soon(step_for_ever, await begun(store, f"r-busy-{number:03d}"))
        await anyio.sleep(0.2)
        sys.stdout.write("busy\n")
        sys.stdout.flush()


async def begun(store: Store, run: str) -> Driver:
    return await running(store, run, driver=f"d-{run}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
