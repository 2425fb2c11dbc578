"""A life that ends as a crash does: from one moment on nothing of it reaches the journal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio

from midflight.control import Control
from midflight.engines.local import LocalEngine
from midflight.run import Agent
from midflight.stores.base import Append, Committed, Store, Submit


class Cord:
    """Passes everything on to a store, until it is pulled; then every append waits for ever."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pulled = False

    def pull(self) -> None:
        self._pulled = True

    async def append(self, decision: Append) -> Committed:
        if self._pulled:
            await anyio.sleep_forever()
        return await self._store.append(decision)

    async def submit(self, request: Submit) -> Committed:
        if self._pulled:
            await anyio.sleep_forever()
        return await self._store.submit(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@asynccontextmanager
async def doomed(
    store: Store, *agents: Agent, workdir: Path, sweep_s: float = 0.05
) -> AsyncIterator[Control]:
    """Drive runs until the end of the block, and die there: no drain, no release, no outcome."""
    cord = Cord(store)
    async with LocalEngine.open(
        cast("Store", cord), agents, workdir=workdir, sweep_s=sweep_s, drain_s=0.0
    ) as engine:
        try:
            yield Control(store, engine)
        finally:
            cord.pull()
