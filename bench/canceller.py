"""Cancels the given runs, one every 10 ms, and says how long each acknowledgement took."""

from __future__ import annotations

import asyncio
import sys
import time

import anyio

from midflight.stores import open_store
from stores.runs import cancel


async def main(address: str, *runs: str) -> None:
    waits = []
    async with open_store(address) as store:
        for run in runs:
            began = time.perf_counter()
            await cancel(store, run)
            waits.append(time.perf_counter() - began)
            await anyio.sleep(max(0.0, 0.01 - waits[-1]))
    for wait in waits:
        sys.stdout.write(f"{wait * 1000}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
