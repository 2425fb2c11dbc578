"""The driver's own copy of the journal: folds everything, appends one thing at a time.

A decision is chosen and sent in one stretch, with no await in between, on the state that was folded
up to that moment; if the journal has moved on meanwhile the driver reads and chooses anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

import anyio

from midflight.errors import (
    JournalConflict,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from midflight.inputs import Ids
from midflight.kernel.facts import record
from midflight.kernel.fold import advance
from midflight.kernel.record import Event, Fact, Recorded
from midflight.kernel.state import RunState
from midflight.stores.base import Append, Committed, Draft, Entry, Store, Submit, View

TROUBLE: Final = (StoreBusy, StoreFull, StoreReadOnly, StoreUnavailable)
"""What somebody may mend while we wait: a switch-over leads to a server that is no primary yet."""

AGAIN_S: Final = 0.2
SAY_S: Final = 10.0  # how often it is said that the store still does not take it
log: Final = logging.getLogger(__name__)

Choose = Callable[[RunState], Sequence[Event]]
T = TypeVar("T")


async def patiently(read: Callable[[], Awaitable[T]]) -> T:
    """A store that is out of reach for a while must not cost the run its driver."""
    while True:
        try:
            return await read()
        except TROUBLE:
            await anyio.sleep(AGAIN_S)


class Turn:
    """One at a time, in the order of their coming; while it is free, at no cost."""

    __slots__ = ("_queue", "taken")

    def __init__(self) -> None:
        self.taken = False
        self._queue: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> None:
        if not self.taken:
            self.taken = True
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # it was ours already
                self._pass_on()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        while self._queue:
            waiter = self._queue.pop(0)
            if not waiter.done():
                waiter.set_result(None)  # and it stays taken
                return
        self.taken = False


class Logbook:
    """One run's journal, as its driver holds it."""

    __slots__ = ("_changes", "_ids", "_store", "_turn", "_waiting", "heard", "state")

    def __init__(self, store: Store, state: RunState, ids: Ids) -> None:
        self.state = state
        self.heard: list[Callable[[Recorded], None]] = []
        self._store = store
        self._ids = ids
        self._turn = Turn()
        self._changes = 0
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    @property
    def busy(self) -> bool:
        """Whether something is being written, so that the state is about to change."""
        return self._turn.taken

    def absorb(self, records: Iterable[Recorded]) -> None:
        """Fold what is new, whoever has brought it, and wake everybody who waits for a change."""
        news = False
        for found in records:
            if found.journal == self.state.journal and found.position == self.state.head + 1:
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
        self._changes += 1
        self.ask_again()

    def ask_again(self) -> None:
        """Wake those whose condition holds by now, also by what is in no journal: time, a lease."""
        for waiter, ready in tuple(self._waiting.items()):
            if ready():
                del self._waiting[waiter]
                if not waiter.done():
                    waiter.set_result(None)

    async def next_change(self) -> None:
        """Wait for the next change, of the journal or of what steps do."""
        before = self._changes
        await self._wait(lambda: self._changes != before)

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
                append = Append(self._ids(), (entry,))
                try:
                    done = await self._patiently(self._store.append, append)
                except JournalConflict:
                    await self.catch_up()
                    continue
                self.absorb(done.records)
                return done.records

    async def settle(self, fact: Fact, then: Choose | None = None) -> tuple[Recorded, ...]:
        """Record how something ended. A fact never loses: on a conflict the store decides.

        ``then`` chooses what follows from it at once, in the same append: no crash falls between.
        """
        async with self._turn:
            events = _recorded(self.state, fact, then)
            if not events:
                return ()
            run = self.state.journal
            append = Append(self._ids(), (Entry(run, self.state.head, events),))
            try:
                done = await self._patiently(self._store.append, append)
            except JournalConflict:
                request = Submit(self._ids(), (run,), _recording(run, fact, then))
                done = await self._patiently(self._store.submit, request)
                await self.catch_up()
            self.absorb(done.records)
            return done.records

    async def submit(self, request: Submit) -> Committed:
        """What concerns other journals too is decided by the store; ours is folded again."""
        async with self._turn:
            done = await self._patiently(self._store.submit, request)
            ours = [record for record in done.records if record.journal == self.state.journal]
            if ours and ours[0].position <= self.state.head + 1:
                self.absorb(ours)  # not read: a run that has just ended may be purged by now
            else:
                await self.catch_up()
            return done

    async def _patiently(self, write: Callable[[T], Awaitable[Committed]], what: T) -> Committed:
        """Repeat it under its id until the store takes it; meanwhile nothing else is written.

        A store that is full, read-only or out of reach for a while must not fail a run, and what a
        tool has done must not be forgotten for it. Ends with the driver.
        """
        said = float("-inf")
        while True:
            try:
                return await write(what)
            except TROUBLE as error:
                if anyio.current_time() - said >= SAY_S:
                    said = anyio.current_time()
                    about = {"action": "append_repeated", "run": self.state.journal, "error": error}
                    log.warning("The store does not take an append; it is repeated", extra=about)
                await anyio.sleep(AGAIN_S)

    async def catch_up(self) -> None:
        """Fold what the journal has beyond what is known here."""
        self.absorb(await self._store.read(self.state.journal, after=self.state.head))


def _recorded(state: RunState, fact: Fact, then: Choose | None) -> tuple[Event, ...]:
    events = record(state, fact)
    return (*events, *then(state)) if events and then is not None else events


def _recording(run: str, fact: Fact, then: Choose | None) -> Callable[[View], Draft]:
    def decided(view: View) -> Draft:
        state = view.states[run]
        assert isinstance(state, RunState)
        return Draft({run: _recorded(state, fact, then)})

    return decided
