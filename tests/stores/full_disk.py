"""A program that fills the disk it is given, meets the error, makes room and goes on.

    python full_disk.py FOLDER

Prints what it found, a line a finding; the test reads them.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from msgspec import Raw

from midflight.errors import StoreFull
from midflight.journal.events import StepSettled
from midflight.stores.sqlite import SqliteStore
from stores.runs import pause, positions, read_all, running

PAYLOAD = Raw(b'"' + b"x" * 4000 + b'"')


async def main(folder: Path) -> None:
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * 600_000)
    async with SqliteStore.open(folder / "journals.db") as store:
        driving = await running(store)
        await running(store, "r-2", driver="d-2")
        step = StepSettled(epoch=1, step="s#1", name="s", result=PAYLOAD)
        for _ in range(10_000):
            try:
                await driving.decides(step)
            except StoreFull as error:
                sys.stdout.write(f"full: {error}\n")
                break
        held = positions(await read_all(store))
        sys.stdout.write(f"whole: {held == list(range(1, driving.state.head + 1))}\n")
        ballast.unlink()
        await driving.decides(step)
        await pause(store, "r-2")
        sys.stdout.write(f"goes on: {(await store.row('r-1')).head == driving.state.head}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
