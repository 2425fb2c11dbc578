"""The driver's own copy of the journal: folds everything, appends one thing at a time.

A decision is chosen and sent in one stretch, with no await in between, on the state that was folded
up to that moment; if the journal has moved on meanwhile the driver reads and chooses anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import anyio

from midflight.errors import JournalConflict
from midflight.inputs import Ids
from midflight.kernel.decide import record
from midflight.kernel.fold import advance
from midflight.kernel.record import Event, Fact, Recorded
from midflight.kernel.state import RunState
from midflight.stores.base import Append, Draft, Entry, Store, Submit, View

Choose = Callable[[RunState], Sequence[Event]]


class Logbook:
    """One run's journal, as its driver holds it."""

    def __init__(self, store: Store, state: RunState, ids: Ids) -> None:
        self.state = state
        self.heard: list[Callable[[Recorded], None]] = []
        self._store = store
        self._ids = ids
        self._turn = anyio.Lock(fast_acquire=True)  # or each append would cost a turn of the loop
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    def absorb(self, records: Iterable[Recorded]) -> None:
        """Fold what is new, whoever has brought it, and wake everybody who waits for a change."""
        news = False
        for found in records:
            if found.position == self.state.head + 1:
                advance(self.state, found)
                news = True
                for hear in self.heard:
                    hear(found)
        if news:
            self.stir()

    def stir(self) -> None:
        """Something has changed: wake those for whom it is what they wait for.

        Asked here, and not by each in its own task: a step changes things several times, and
        waking a task only to let it wait again is what a small step would spend its time on.
        """
        for waiter, ready in list(self._waiting.items()):
            if ready():
                del self._waiting[waiter]
                if not waiter.done():
                    waiter.set_result(None)

    async def next_change(self) -> None:
        """Wait for the next change, of the journal or of what steps do."""
        await self._wait(lambda: True)

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until something has changed for good. Bounded by the driver that owns the caller."""
        while not ready():
            await self._wait(ready)

    async def _wait(self, ready: Callable[[], bool]) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = ready
        try:
            await waiter
        finally:
            self._waiting.pop(waiter, None)

    async def decide(self, choose: Choose) -> tuple[Recorded, ...]:
        """Append what ``choose`` wants on the state as it is; again if the journal has moved on."""
        async with self._turn:
            while True:
                events = tuple(choose(self.state))
                if not events:
                    return ()
                entry = Entry(self.state.journal, self.state.head, events)
                try:
                    done = await self._store.append(Append(self._ids(), (entry,)))
                except JournalConflict:
                    await self._catch_up()
                    continue
                self.absorb(done.records)
                return done.records

    async def settle(self, fact: Fact) -> tuple[Recorded, ...]:
        """Record how something ended. A fact never loses: on a conflict the store decides."""
        async with self._turn:
            events = record(self.state, fact)
            if not events:
                return ()
            run = self.state.journal
            try:
                entry = Entry(run, self.state.head, events)
                done = await self._store.append(Append(self._ids(), (entry,)))
            except JournalConflict:
                done = await self._store.submit(Submit(self._ids(), (run,), _recording(run, fact)))
                await self._catch_up()
            self.absorb(done.records)
            return done.records

    async def _catch_up(self) -> None:
        self.absorb(await self._store.read(self.state.journal, after=self.state.head))


def _recording(run: str, fact: Fact) -> Callable[[View], Draft]:
    def decided(view: View) -> Draft:
        state = view.states[run]
        assert isinstance(state, RunState)
        return Draft({run: record(state, fact)})

    return decided
