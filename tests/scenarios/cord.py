"""A life that ends as a crash does: from one moment on nothing of it reaches the journal."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
from typing_extensions import override

from midflight.agents import Agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.inputs import Clock, wall_clock
from midflight.journal.record import Event
from midflight.stores.protocol import Append, Committed, Store, Submit


class Cord:
    """Passes everything on to a store, until it is pulled; then every append waits for ever."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left = math.inf
        self._unheard = False
        self._slow: type[Event] | None = None
        self._after = False
        self._takes = False
        self.taken: list[Submit] = []
        self.torn = anyio.Event()
        self.reached = anyio.Event()
        self.let_go = anyio.Event()

    def linger_at(self, kind: type[Event]) -> None:
        """An append of this kind is ``reached``, and goes no further until it is ``let_go``."""
        self._slow = kind

    def linger_after(self, kind: type[Event]) -> None:
        """One of this kind is on record when it is ``reached``; its author hears of it later."""
        self._slow, self._after = kind, True

    def take_requests(self) -> None:
        """From here on a request is ``taken`` and ``reached``; its author never hears of it."""
        self._takes = True

    def pull(self, after: int = 0, *, unheard: bool = False) -> None:
        """Tear after so many more appends; ``unheard``: nobody is told of the last of them."""
        self._left, self._unheard = after, unheard

    async def append(self, decision: Append) -> Committed:
        await self._hold()
        events = [event for entry in decision.entries for event in entry.events]
        slow = self._slow is not None and any(isinstance(event, self._slow) for event in events)
        if slow and not self._after:
            await self._linger()
        done = await self._store.append(decision)
        if slow and self._after:
            await self._linger()
        return await self._heard(done)

    async def _linger(self) -> None:
        self.reached.set()
        await self.let_go.wait()

    async def submit(self, request: Submit) -> Committed:
        if self._takes:
            self.taken.append(request)
            self.reached.set()
            await anyio.sleep_forever()
        await self._hold()
        return await self._heard(await self._store.submit(request))

    async def _hold(self) -> None:
        if self._left <= 0:
            self.torn.set()
            await anyio.sleep_forever()
        self._left -= 1

    async def _heard(self, done: Committed) -> Committed:
        if self._left <= 0 and self._unheard:
            self.torn.set()
            await anyio.sleep_forever()
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Counted(Cord):
    """Keeps what each append that it passes on has added to the run it is about."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.appends: list[tuple[Event, ...]] = []

    @override
    async def append(self, decision: Append) -> Committed:
        done = await super().append(decision)
        self.appends.append(decision.entries[0].events)
        return done

    @override
    async def submit(self, request: Submit) -> Committed:
        done = await super().submit(request)
        run = request.journals[0]
        if events := tuple(x.event for x in done.records if x.journal == run):
            self.appends.append(events)
        return done

    def with_kind(self, kind: type[Event]) -> list[tuple[Event, ...]]:
        return [events for events in self.appends if any(isinstance(x, kind) for x in events)]


class Life:
    """The runs that one engine drives until its cord is pulled."""

    def __init__(self, control: Control, cord: Cord) -> None:
        self.control = control
        self.cord = cord

    async def is_cut_short(self, run: str) -> bool:
        """Wait for the crash or for the run's end; whether it was the crash."""
        async with anyio.create_task_group() as both:

            async def ended() -> None:
                await self.control.ended(run)
                both.cancel_scope.cancel()

            both.start_soon(ended)
            with anyio.fail_after(10):
                await self.cord.torn.wait()
            both.cancel_scope.cancel()
        return self.cord.torn.is_set()


@asynccontextmanager
async def life(
    store: Store, *agents: Agent, workdir: Path, clock: Clock = wall_clock, sweep_s: float = 0.05
) -> AsyncIterator[Life]:
    """Drive runs until the end of the block, and die there: no drain, no release, no outcome."""
    cord = Cord(store)
    async with LocalEngine.open(
        cast("Store", cord), agents, workdir=workdir, clock=clock, sweep_s=sweep_s, drain_s=0.0
    ) as engine:
        try:
            yield Life(Control(store, engine), cord)
        finally:
            cord.pull()


@asynccontextmanager
async def doomed(
    store: Store, *agents: Agent, workdir: Path, clock: Clock = wall_clock, sweep_s: float = 0.05
) -> AsyncIterator[Control]:
    """The same for a story that needs no say in when it dies."""
    async with life(store, *agents, workdir=workdir, clock=clock, sweep_s=sweep_s) as lived:
        yield lived.control
