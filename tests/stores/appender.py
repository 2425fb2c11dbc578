"""A program that appends until somebody ends it, and says each position once it is acknowledged.

    python appender.py ADDRESS RUN [COUNT]

Run by the tests that kill processes; every line it prints is a promise to be checked.
"""

from __future__ import annotations

import asyncio
import sys

from msgspec import Raw

from midflight.journal.events import StepSettled
from midflight.stores import open_store
from stores.runs import decision, running

PAYLOAD = Raw(b'"' + b"x" * 198 + b'"')


async def main(address: str, run: str, count: int) -> None:
    async with open_store(address) as store:
        driving = await running(store, run, driver=f"d-{run}")
        head = driving.state.head
        for number in range(count):
            step = StepSettled(epoch=1, step=f"step#{number}", name="step", result=PAYLOAD)
            head = (await store.append(decision(run, head, step))).position(run)
            sys.stdout.write(f"{head}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 10**9))
