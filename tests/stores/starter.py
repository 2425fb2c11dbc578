"""A program that starts runs and begins effects in them, until an operator stops it.

    python starter.py ADDRESS NAME

For each effect it prints run, position and the time at which the effect's first line would run.
"""

from __future__ import annotations

import asyncio
import sys
import time

from midflight.errors import IllegalEvent, JournalConflict, ScopeStopped
from midflight.stores import open_store
from stores.runs import running


async def main(address: str, name: str) -> None:
    async with open_store(address) as store:
        for number in range(100_000):
            run = f"r-{name}-{number:06}"
            try:
                driver = await running(store, run, driver=f"d-{name}")
                for step in ("first", "second", "third"):
                    position = await driver.begins(step)
                    sys.stdout.write(f"{run} {position} {time.monotonic_ns()}\n")
                    sys.stdout.flush()
            except ScopeStopped:
                return
            except (JournalConflict, IllegalEvent):
                continue  # killed in the middle of it


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
