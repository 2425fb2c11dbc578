"""The worst engine that there can be: two drivers of every run, really alive, in two processes.

It tells both workers of everything, forgets every third thing, and tells now this one and now that
one again, which then takes the run from the other in the middle of its work: see ``contested``.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from engines import contested
from engines.bad import FORGETS
from engines.contested import READY
from midflight.agents import Agent
from midflight.journal.phases import LIVE
from midflight.stores.protocol import Query, Store
from midflight.tasks import owned_tasks
from scenarios.torture_world import clerk

PESTERS_S = 0.002
TIMES = 30  # a run, half of them in vain: an engine is wrong for a while, not for ever
LEAVES_S = 20.0


class Contest:
    """Made by ``Contest.open``."""

    def __init__(self, store: Store, *workers: Process) -> None:
        self._store = store
        self._workers = workers
        self._told = 0
        self._chance = random.Random(1)
        self._begins = Counter[str]()  # attempts of a run that were about to be written down
        self._heard = anyio.Event()

    @classmethod
    @asynccontextmanager
    async def open(cls, store: Store, address: str, folder: Path) -> AsyncIterator[Self]:
        """``address`` is the store's, as workers are told it. Their logs are in the folder."""
        command = [sys.executable, contested.__file__, address, str(folder / "work")]
        async with cls.between(store, [command, command], folder) as engine:
            yield engine

    @classmethod
    @asynccontextmanager
    async def between(
        cls, store: Store, commands: list[list[str]], folder: Path
    ) -> AsyncIterator[Self]:
        """Between workers that these commands start."""
        workers: list[Process] = []
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            for number, command in enumerate(commands):
                with (folder / f"worker-{number}.log").open("wb") as log:
                    started = await anyio.open_process(
                        command, stdin=subprocess.PIPE, stderr=log, env=environment
                    )
                workers.append(started)
            engine = cls(store, *workers)
            async with owned_tasks(*[partial(engine._hear, w) for w in workers]) as tasks:
                await engine.beginning(READY, len(workers))
                tasks.start_soon(engine._pester)
                yield engine
                await engine._leave()
        finally:
            for worker in workers:
                if worker.returncode is None:
                    worker.kill()
                with anyio.CancelScope(shield=True):
                    await worker.aclose()

    @property
    def processes(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    async def ensure(self, run: str) -> None:
        self._told += 1
        if self._told % FORGETS:
            for worker in (*self._workers, *self._workers):
                await self._tell(worker, run)

    def agent(self, name: str) -> Agent | None:
        return clerk if name == clerk.name else None

    async def beginning(self, run: str, n: int) -> None:
        """Wait until the n-th attempt of a run is about to be written down."""
        while self._begins[run] < n:
            await self._heard.wait()

    async def _tell(self, worker: Process, run: str) -> None:
        assert worker.stdin is not None
        await worker.stdin.send(f"{run}\n".encode())

    async def _hear(self, worker: Process) -> None:
        assert worker.stdout is not None
        said = BufferedByteReceiveStream(worker.stdout)
        with suppress(anyio.EndOfStream, anyio.IncompleteRead):
            while True:
                run = (await said.receive_until(b"\n", 1000)).decode()
                self._begins[READY if run.startswith("{") else run] += 1
                self._heard.set()
                self._heard = anyio.Event()

    async def _pester(self) -> None:
        """Tell one of them of a run that the other may be driving, and in the end let it be."""
        times = Counter[str]()
        while True:
            rows = await self._store.rows(Query(phases=LIVE, limit=500))
            left = [row.journal for row in rows if times[row.journal] < TIMES]
            for run in self._chance.sample(left, min(5, len(left))):
                times[run] += 1
                await self._tell(self._chance.choice(self._workers), run)
                await anyio.sleep(PESTERS_S)
            await anyio.sleep(PESTERS_S)

    async def _leave(self) -> None:
        with anyio.fail_after(LEAVES_S):
            for worker in self._workers:
                assert worker.stdin is not None
                await worker.stdin.aclose()
                assert await worker.wait() == 0
