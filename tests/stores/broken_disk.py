"""A program whose disk fails: it appends until an append fails, prints the error and dies.

    python broken_disk.py PATH

The test makes a sync fail by ``strace``. The program ends as one that was killed does: it closes
nothing, so whoever opens the store next reads what is in the log.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from midflight.errors import StoreError
from midflight.journal.events import StepSettled
from midflight.stores.sqlite import SqliteStore
from stores.runs import decision, running


async def main(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        driving = await running(store)
        head = driving.state.head
        for number in range(100):
            step = StepSettled(epoch=1, step=f"step#{number}", name="step")
            try:
                head = (await store.append(decision("r-1", head, step))).position("r-1")
            except StoreError as error:
                sys.stdout.write(f"{head}\n{error.unsure}\n{error}\n")
                sys.stdout.flush()
                os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
