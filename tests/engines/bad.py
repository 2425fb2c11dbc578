"""An engine that is wrong in every way in which an engine may be wrong.

It starts two drivers for every run, tells each of them twice, and forgets every third thing that it
is told. Nothing but time may be lost by it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from midflight.agents import Agent
from midflight.engines.local_engine import LocalEngine
from midflight.stores.protocol import Store

FORGETS = 3


class BadEngine:
    """Two workers, and nobody who knows which of them has what."""

    def __init__(self, *workers: LocalEngine) -> None:
        self._workers = workers
        self._told = 0

    @classmethod
    @asynccontextmanager
    async def open(
        cls, store: Store, agents: Iterable[Agent], *, workdir: Path, sweep_s: float = 0.05
    ) -> AsyncIterator[Self]:
        agents = list(agents)
        async with (
            LocalEngine.open(store, agents, workdir=workdir, sweep_s=sweep_s) as one,
            LocalEngine.open(store, agents, workdir=workdir, sweep_s=sweep_s) as other,
        ):
            yield cls(one, other)

    async def ensure(self, run: str) -> None:
        self._told += 1
        if self._told % FORGETS:
            for worker in (*self._workers, *self._workers):
                await worker.ensure(run)

    def agent(self, name: str) -> Agent | None:
        return self._workers[0].agent(name)
