"""A program that appends one thing and dies of -9 before it can tell anybody.

    python silent.py ADDRESS RUN

What drivers write is told to other processes ten milliseconds later; it does not live so long.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from midflight.journal.events import PlanSet
from midflight.stores import open_store
from stores.runs import decision, running


async def main(address: str, run: str) -> None:
    async with open_store(address) as store:
        driving = await running(store, run)
        await asyncio.sleep(0.5)  # what was said so far has gone out
        await store.append(decision(run, driving.state.head, PlanSet(epoch=1, steps=("a",))))
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
