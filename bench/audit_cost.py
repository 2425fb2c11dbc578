"""How much longer a cancel takes because it is recorded in the audit.

    python bench/audit_cost.py ADDRESS [COUNT]

Cancels runs one by one, in turn with and without a record, in one process and on one store: both
kinds meet the same machine and the same disk. Prints medians, 95th percentiles and their ratios.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from typing import Any

from msgspec.structs import replace

from midflight.control import Control
from midflight.stores import open_store
from midflight.stores.protocol import Committed, Submit


class WithoutAudit:
    """A store that records nothing."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def submit(self, request: Submit) -> Committed:
        done: Committed = await self._store.submit(replace(request, audit=None))
        return done


async def main(address: str, count: int) -> None:
    async with open_store(address) as store:
        plain: Any = WithoutAudit(store)
        controls = {"with": Control(store), "without": Control(plain)}
        took: dict[str, list[float]] = {kind: [] for kind in controls}
        for _ in range(count):
            for kind, control in controls.items():
                run = await control.start("clerk", "work")
                began = time.perf_counter()
                await control.cancel(run)
                took[kind].append((time.perf_counter() - began) * 1000)
    figures = {
        kind: (statistics.median(each), statistics.quantiles(each, n=20)[-1])
        for kind, each in took.items()
    }
    for kind, (median, late) in figures.items():
        print(f"{kind:8} median {median:.2f} ms, 95 % within {late:.2f} ms")
    ratios = [a / b for a, b in zip(figures["with"], figures["without"], strict=True)]
    print(f"ratio    median {ratios[0]:.2f}, 95 % {ratios[1]:.2f}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 400))
