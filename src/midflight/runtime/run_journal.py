"""The journal of a run as its driver holds it: one fold, and one append at a time.

Every event of the run is folded here, once: into the run's state, into the history of its
function's steps, and into the clock of the store. All other parts read these three.

A decision is chosen and sent in one stretch, with no await in between, on the state that was folded
up to that moment; if the journal has moved on meanwhile the driver reads and chooses anew.

Outcomes that the function knows already may be ``unwritten``. The start of a step takes them along,
in one append and before it. Everything else that is written here writes them first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec import Raw

from midflight.errors import JournalConflict, NotReadable, PayloadTooLarge
from midflight.inputs import Ids
from midflight.journal import events as e
from midflight.journal.facts import record
from midflight.journal.fold import BULK, advance
from midflight.journal.phases import Phase
from midflight.journal.record import Event, Fact, Recorded
from midflight.journal.requests import Known, decide
from midflight.journal.state import RunState
from midflight.runtime import values
from midflight.runtime.foreign import mended
from midflight.runtime.journal_client import NOTHING, JournalClient, StoreClock
from midflight.runtime.replay.cursor import Cursor
from midflight.runtime.replay.step_records import Record
from midflight.runtime.unwritten import Turn, Unwritten
from midflight.stores.protocol import Append, Committed, Draft, Entry, Submit, View, Watch

UNSTORABLE: Final = (NotReadable, PayloadTooLarge)
"""Errors of an append that no store takes, now or later."""

NOTED_IN: Final = {Phase.RUNNING, Phase.PAUSING}
"""Phases in which a notice is given."""

log: Final = logging.getLogger(__name__)

Choose = Callable[[RunState], Sequence[Event]]


class RunJournal:
    """One run's journal, as its driver holds it. ``epoch`` is the one for which it drives."""

    __slots__ = (
        "_changes", "_ids", "_listeners", "_turn", "_waiting", "_watch", "client", "clock",
        "epoch", "history", "lost", "run", "state", "unwritten",
    )  # fmt: skip

    def __init__(self, client: JournalClient, state: RunState, ids: Ids) -> None:
        self.client = client
        self.state = state
        self.run = state.journal
        self.epoch = state.epoch
        self.lost = False  # killed, or taken by another driver: nothing may be decided here
        self.history = Cursor()
        self.clock = StoreClock(state.at)
        self._listeners: list[Callable[[Recorded], None]] = []
        self._watch: Watch
        self._ids = ids
        self._turn = Turn()
        self.unwritten = Unwritten(self._turn)
        self._changes = 0
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    @property
    def busy(self) -> bool:
        """True while something is being written, so that the state is about to change."""
        return self._turn.taken

    def drive_on(self, watch: Watch) -> None:
        """Begin to drive the run as it was read; ``watch`` tells of what others add."""
        self.epoch, self.lost = self.state.epoch, False
        self._watch = watch

    def watch_child(self, child: str, after: int) -> None:
        """Hear when a child has ended."""
        self._watch.add(child, after)

    # ── folding ──────────────────────────────────────────────────────────────────────────────

    def listen(self, hear: Callable[[Recorded], None]) -> None:
        """Call ``hear`` with each event once it is folded, except with most of a journal.

        Starts and ends of steps and attempts, and their texts, change no phase.
        """
        self._listeners.append(hear)

    def let_go(self) -> None:
        """Tell nobody any more: the driver is done."""
        self._listeners.clear()
        self.unwritten.close()

    def absorb(self, records: Iterable[Recorded]) -> None:
        """Fold what is new, from any source, and wake everything that waits for a change."""
        news = False
        for found in records:
            if found.journal == self.state.journal and found.position == self.state.head + 1:
                advance(self.state, found)
                self.lost = self.state.epoch != self.epoch
                self.history.hear(found)
                self.clock.hear(found.at, found.position, self.state.moving_since)
                news = True
                if type(found.event) not in BULK:
                    for hear in self._listeners:
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

    # ── writing ──────────────────────────────────────────────────────────────────────────────

    async def decide(self, choose: Choose) -> tuple[Recorded, ...]:
        """Append what ``choose`` wants on the state as it is; again if the journal has moved on."""
        async with self._turn:
            await self._write_out()
            return await self._decide(choose)

    async def start(self, choose: Choose) -> tuple[Recorded, ...]:
        """Append the start of a step, as ``decide`` does, with the outcomes that are unwritten.

        They come first, so that a journal with the start always has them too.
        """
        async with self._turn:
            try:
                return await self._decide(choose)
            finally:
                self.unwritten.be_looked_after()

    async def _decide(self, choose: Choose) -> tuple[Recorded, ...]:
        while True:
            events = tuple(choose(self.state))
            if not events:
                return ()
            facts = self.unwritten.take_along()
            decision = Append(self._ids(), (self._entry(events),))
            try:
                done = await self.client.append(decision, self._chosen_anew(choose))
            except JournalConflict:
                await self.catch_up()
                continue
            self.absorb(done.records)
            if facts and done is not NOTHING:
                self.unwritten.are_written(facts)
            return done.records

    def _entry(self, events: tuple[Event, ...]) -> Entry:
        if self.unwritten.facts:
            events = (*self.unwritten.events(self.state), *events)
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

    async def flush(self) -> None:
        """Write the outcomes that the function knows already."""
        if self.unwritten.facts:
            async with self._turn:
                await self._write_out()

    async def _write_out(self) -> None:
        facts = self.unwritten.take_along()
        if not facts:
            return
        entry = self._entry(())
        try:
            done = (
                await self.client.append(Append(self._ids(), (entry,))) if entry.events else NOTHING
            )
        except JournalConflict:
            for fact in facts:
                request = Submit(self._ids(), (self.run,), _recording(self.run, (fact,), None))
                await self.client.submit(request)
            await self.catch_up()
        else:
            self.absorb(done.records)
        self.unwritten.are_written(facts)

    async def settle(
        self, fact: Fact, then: Choose | None = None, *, before: Sequence[Fact] = ()
    ) -> tuple[Recorded, ...]:
        """Record how something ended. A fact never loses: on a conflict the store decides.

        ``before`` comes before it, and ``then`` chooses what follows from it at once, all in the
        same append: no crash falls between.
        """
        try:
            return await self._settle((*before, fact), then)
        except UNSTORABLE as refused:
            about = {"action": "fact_mended", "run": self.state.journal, "error": str(refused)}
            log.error("A fact could not be stored as it was; its texts were cut", extra=about)
            return await self._settle((*before, mended(fact, refused)), then)

    async def _settle(self, facts: tuple[Fact, ...], then: Choose | None) -> tuple[Recorded, ...]:
        async with self._turn:
            await self._write_out()
            events = _recorded(self.state, facts, then)
            if not events:
                return ()
            run = self.state.journal
            try:
                done = await self.client.append(Append(self._ids(), (self._entry(events),)))
            except JournalConflict:
                request = Submit(self._ids(), (run,), _recording(run, facts, then))
                done = await self.client.submit(request)
                await self.catch_up()
            self.absorb(done.records)
            return done.records

    async def submit(self, request: Submit, unless: Callable[[], bool] | None = None) -> Committed:
        """Have the store decide what concerns other journals too; fold what is new in ours.

        It takes no turn: another journal may be locked for long, and what concerns only this run
        must not wait for that. A request that the store does not take is given up when the run has
        another driver, or when ``unless`` is true.
        """
        await self.flush()
        epoch = self.state.epoch

        def given_up() -> bool:
            return self.state.epoch != epoch or (unless is not None and unless())

        done = await self.client.submit(request, given_up)
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
        self.absorb(await self.client.read(self.state.journal, after=self.state.head))

    async def cancel(self, request: e.CancelRequested, unless: Callable[[], bool]) -> None:
        """Cancel this run, because somebody has said so to the run itself."""
        run = self.run

        def decided(view: View) -> Draft:
            verdict = decide(view.states[run], request)
            return Draft() if isinstance(verdict, Known) else Draft({run: verdict})

        await self.submit(Submit(self._ids(), (run,), decided), unless=unless)

    async def give_notice(self, kind: str, text: str) -> None:
        """Tell person and function, once for each kind."""

        def given(state: RunState) -> list[Event]:
            known = any(noticed == kind for noticed, _ in state.notices)
            if known or self.lost or state.phase not in NOTED_IN:
                return []
            return [e.NoticeGiven(epoch=self.epoch, kind=kind, text=text)]

        await self.decide(given)

    def wait_over(self, state: RunState) -> list[Event]:
        """Return the events that must stand before anything that happens in a run that waits."""
        waits = state.phase is Phase.WAITING and not self.lost
        return [e.WaitEnded(epoch=self.epoch)] if waits else []

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    async def raw(self, record: Record) -> Raw:
        """The stored value of a record, from its row or from its blob."""
        return Raw(await self.client.blob(record.blob.hash)) if record.blob else record.result

    async def value(self, record: Record) -> Any:
        """The value of a record."""
        return values.decode(bytes(await self.raw(record)))

    def left_of_timer(self, timer: str) -> float:
        """Return the seconds left until a timer of the run is due; 0 if it is not set."""
        until = self.state.timers.get(timer)
        return 0.0 if until is None else self.clock.left_of(self.history.set_at[timer], until)

    def left_of_question(self, question: int) -> float | None:
        """Return the seconds left until a question expires; None if it never does."""
        expires_at = self.state.questions[question].expires_at
        if expires_at is None:
            return None
        return self.clock.left_of(self.history.asked_at[question], expires_at)


def _recorded(state: RunState, facts: tuple[Fact, ...], then: Choose | None) -> tuple[Event, ...]:
    events = tuple(event for fact in facts for event in record(state, fact))
    follows = then is not None and bool(record(state, facts[-1]))
    return (*events, *then(state)) if then is not None and follows else events


def _recording(run: str, facts: tuple[Fact, ...], then: Choose | None) -> Callable[[View], Draft]:
    def decided(view: View) -> Draft:
        state = view.states[run]
        assert isinstance(state, RunState)
        return Draft({run: _recorded(state, facts, then)})

    return decided
