"""The driver's own copy of the journal: folds everything, appends one thing at a time.

A decision is chosen and sent in one stretch, with no await in between, on the state that was folded
up to that moment; if the journal has moved on meanwhile the driver reads and chooses anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from midflight.errors import JournalConflict, NotReadable, PayloadTooLarge
from midflight.executor.foreign import mended
from midflight.executor.journal_client import NOTHING, JournalClient
from midflight.inputs import Ids
from midflight.kernel.facts import record
from midflight.kernel.fold import advance
from midflight.kernel.record import Event, Fact, Recorded
from midflight.kernel.state import RunState
from midflight.stores.protocol import Append, Committed, Draft, Entry, Submit, View

UNSTORABLE: Final = (NotReadable, PayloadTooLarge)
"""Errors of an append that no store takes, now or later."""

log: Final = logging.getLogger(__name__)

Choose = Callable[[RunState], Sequence[Event]]


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

    __slots__ = ("_changes", "_ids", "_journals", "_turn", "_waiting", "heard", "state")

    def __init__(self, journals: JournalClient, state: RunState, ids: Ids) -> None:
        self.state = state
        self.heard: list[Callable[[Recorded], None]] = []
        self._journals = journals
        self._ids = ids
        self._turn = Turn()
        self._changes = 0
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    @property
    def busy(self) -> bool:
        """True while something is being written, so that the state is about to change."""
        return self._turn.taken

    def absorb(self, records: Iterable[Recorded]) -> None:
        """Fold what is new, from any source, and wake everything that waits for a change."""
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
        """Note a change: wake those tasks that wait for what is true now.

        The conditions are tried here, and not by each task itself: a step changes things several
        times, and waking a task only to let it wait again is what a small step would spend its time
        on.
        """
        self._changes += 1
        self.ask_again()

    def ask_again(self) -> None:
        """Wake tasks whose condition holds by now, also by what is in no journal: time, a lease."""
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
                decision = Append(self._ids(), (self._entry(events),))
                try:
                    done = await self._journals.append(decision, self._chosen_anew(choose))
                except JournalConflict:
                    await self.catch_up()
                    continue
                self.absorb(done.records)
                return done.records

    def _entry(self, events: tuple[Event, ...]) -> Entry:
        return Entry(self.state.journal, self.state.head, events)

    def _chosen_anew(self, choose: Choose) -> Callable[[Append, bool], Append | None]:
        """While the store is away time passes, and what was chosen may not fit any more.

        So a decision that was surely not written is chosen again before it is repeated: a deadline
        counts from now, and nothing is sent if nothing may begin. One that may have been written is
        repeated as it is. Nothing is repeated once the run has another driver.
        """
        head, epoch = self.state.head, self.state.epoch

        def renew(sent: Append, unsure: bool) -> Append | None:
            if self.state.epoch != epoch:
                return None
            if unsure or self.state.head != head:
                return sent  # the store knows whether it was written, or says that it is too late
            events = tuple(choose(self.state))
            return Append(sent.id, (self._entry(events),)) if events else None

        return renew

    async def settle(self, fact: Fact, then: Choose | None = None) -> tuple[Recorded, ...]:
        """Record how something ended. A fact never loses: on a conflict the store decides.

        ``then`` chooses what follows from it at once, in the same append: no crash falls between.
        """
        try:
            return await self._settle(fact, then)
        except UNSTORABLE as refused:
            about = {"action": "fact_mended", "run": self.state.journal, "error": str(refused)}
            log.error("A fact could not be stored as it was; its texts were cut", extra=about)
            return await self._settle(mended(fact, refused), then)

    async def _settle(self, fact: Fact, then: Choose | None) -> tuple[Recorded, ...]:
        async with self._turn:
            events = _recorded(self.state, fact, then)
            if not events:
                return ()
            run = self.state.journal
            try:
                done = await self._journals.append(Append(self._ids(), (self._entry(events),)))
            except JournalConflict:
                request = Submit(self._ids(), (run,), _recording(run, fact, then))
                done = await self._journals.submit(request)
                await self.catch_up()
            self.absorb(done.records)
            return done.records

    async def submit(self, request: Submit, unless: Callable[[], bool] | None = None) -> Committed:
        """Have the store decide what concerns other journals too; fold what is new in ours.

        It takes no turn: another journal may be locked for long, and what concerns only this run
        must not wait for that. A request that the store does not take is given up when the run has
        another driver, or when ``unless`` is true.
        """
        epoch = self.state.epoch

        def given_up() -> bool:
            return self.state.epoch != epoch or (unless is not None and unless())

        done = await self._journals.submit(request, given_up)
        if done is NOTHING:
            return done
        ours = [record for record in done.records if record.journal == self.state.journal]
        if ours and ours[0].position <= self.state.head + 1:
            self.absorb(ours)  # not read: a run that has just ended may be purged by now
        else:
            await self.catch_up()
        return done

    async def catch_up(self) -> None:
        """Fold what the journal has beyond what is known here."""
        self.absorb(await self._journals.read(self.state.journal, after=self.state.head))


def _recorded(state: RunState, fact: Fact, then: Choose | None) -> tuple[Event, ...]:
    events = record(state, fact)
    return (*events, *then(state)) if events and then is not None else events


def _recording(run: str, fact: Fact, then: Choose | None) -> Callable[[View], Draft]:
    def decided(view: View) -> Draft:
        state = view.states[run]
        assert isinstance(state, RunState)
        return Draft({run: _recorded(state, fact, then)})

    return decided
