"""A program that cancels a run from a process of its own, as a command would.

python canceller.py ADDRESS RUN
"""

from __future__ import annotations

import asyncio
import sys

from midflight.stores import open_store
from stores.runs import cancel


async def main(address: str, run: str) -> None:
    async with open_store(address) as store:
        done = await cancel(store, run)
        sys.stdout.write(f"{done.position(run)}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
