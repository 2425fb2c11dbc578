"""A second process that cancels runs on the same file; says when each was pressed and acknowledged.

    python presser.py ADDRESS RUN …

The times are CLOCK_MONOTONIC, which all processes of one host share.
"""

from __future__ import annotations

import asyncio
import sys
import time

import anyio

from midflight.control import Control
from midflight.stores import open_store


async def main(address: str, *runs: str) -> None:
    said = []
    async with open_store(address) as store:
        control = Control(store)
        for run in runs:
            pressed = time.monotonic()
            await control.cancel(run)
            said.append(f"{run} {pressed!r} {time.monotonic()!r}\n")
            await anyio.sleep(0.01)
    sys.stdout.writelines(said)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
