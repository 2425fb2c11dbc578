"""The journal of a run as its driver holds it: one fold, and one append at a time.

Every event is folded here, once: into the run's state, its history, and the clock of the store. A
decision is chosen and sent in one stretch, with no await in between, on the state that was folded
up to that moment; if the journal has moved on meanwhile the driver reads and chooses anew.

A function gets the outcome of a plain write at once, and the record of it is kept for the append
with the start of the next step, or with the end of the run. How calls ended that a cancel has
aborted is kept for the run's end, too. Everything else that is written here writes it first:
nothing of a run begins before all that is known of it is on record.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from msgspec import Raw

from midflight.errors import JournalConflict, NotReadable, PayloadTooLarge
from midflight.inputs import Ids
from midflight.journal import events as e
from midflight.journal.facts import record, record_all
from midflight.journal.fold import BULK, advance
from midflight.journal.phases import Outcome, Phase
from midflight.journal.record import Event, Fact, Recorded, Usage
from midflight.journal.state import RunState
from midflight.runtime.foreign import MENDED, mended
from midflight.runtime.journal_client import NOTHING, JournalClient, Kept, StoreClock
from midflight.runtime.replay.cursor import Cursor
from midflight.runtime.replay.step_records import Record
from midflight.stores.protocol import Append, Committed, Draft, Entry, Submit, View, Watch

log: Final = logging.getLogger(__name__)

Choose = Callable[[RunState], Sequence[Event]]
Hear = Callable[[Recorded], None]


class RunJournal:
    """One run's journal, as its driver holds it. ``epoch`` is the one for which it drives."""

    __slots__ = (
        "_changes", "_ids", "_listeners", "_loop", "_others", "_resting", "_waiting",
        "_watch", "calm", "client", "clock", "epoch", "history", "kept", "lost", "run", "state",
    )  # fmt: skip

    def __init__(self, client: JournalClient, state: RunState, ids: Ids) -> None:
        self.client = client
        self.state = state
        self.run = state.journal
        self.epoch = state.epoch
        self.lost = False  # killed, or taken by another driver: nothing may be decided here
        self.history = Cursor()
        self.clock = StoreClock(state.at)
        self._listeners: list[Hear] = []
        self._others: dict[str, Hear] = {}
        self._watch: Watch
        self._ids = ids
        self.kept = Kept()  # known, and not on record yet
        self._loop = asyncio.get_running_loop()
        self._changes = 0
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._resting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self.calm = False  # nothing is in the way of a plain step, and nobody waits for one

    @property
    def busy(self) -> bool:
        """True while something is being written, so that the state is about to change."""
        return self.kept.busy

    def drive_on(self, watch: Watch, begin_writing: Callable[[], None]) -> None:
        """Begin to drive the run as it was read; ``watch`` tells of what others add.

        ``begin_writing`` begins a task that has outcomes written which the function knows already.
        """
        self.epoch, self.lost = self.state.epoch, False
        self._watch, self.kept.begin_writing = watch, begin_writing

    def watch_also(self, journal: str, after: int, hear: Hear) -> None:
        """Hear of another journal, too: of a child, or of the thread."""
        self._others[journal] = hear
        self._watch.add(journal, after)

    # ── folding ──────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def listening(self, hear: Hear) -> Iterator[None]:
        """While inside, ``hear`` is called with each event that is not only a step's own affair."""
        self._listeners.append(hear)
        try:
            yield
        finally:
            self._listeners.remove(hear)

    def let_go(self) -> None:
        """Tell nobody any more: the driver is done. Keep nothing: nobody would write it."""
        self._others.clear()
        self.kept.begin_writing = None

    def absorb(self, records: Iterable[Recorded]) -> None:
        """Fold what is new, from any source, and wake everything that waits for a change."""
        state, plain = self.state, self.calm
        before = heard = state.head
        for found in records:
            if found.journal != self.run:
                self._others[found.journal](found)
                continue
            if found.position != state.head + 1:
                continue
            advance(state, found)
            self.history.hear(found)
            if self.kept.facts:
                self.kept.recorded(found.event)  # layer kept-until-folded
            if type(found.event) not in BULK:
                plain, heard, self.lost = False, found.position, state.epoch != self.epoch
                self.clock.hear(found.at, heard, state.moving_since)
                for hear in self._listeners:
                    hear(found)
        if state.head > heard:
            self.clock.hear(state.at, state.head, state.moving_since)
        if not plain and state.head > before:
            self.stir()

    def stir(self) -> None:
        """Note a change: wake those tasks that wait for what is true now.

        The conditions are tried here: waking a task only to let it wait again takes long.
        """
        self.calm = False  # layer change-may-in-way-ends-calm
        self._changes += 1
        self.ask_again()

    def be_calm(self) -> None:
        """Nothing is in the way of a plain step: until the next change nobody is asked again."""
        self.calm = not (self._waiting or self.kept.facts)

    def ask_again(self) -> None:
        """Wake tasks whose condition holds by now, also by what is in no journal: time, a lease."""
        for tasks in (self._waiting, self._resting):
            for waiter, ready in tuple(tasks.items()):
                if ready():
                    del tasks[waiter]
                    if not waiter.done():
                        waiter.set_result(None)

    async def next_change(self) -> None:
        """Wait for the next change, of the journal or of what steps do."""
        before = self._changes
        await self.until(lambda: self._changes != before)

    async def until(self, ready: Callable[[], bool], *, resting: bool = False) -> None:
        """Wait until something has changed for good. Bounded by the driver that owns the caller.

        A caller that is ``resting`` waits for nothing that a plain step of a calm run changes.
        """
        tasks = self._resting if resting else self._waiting
        while not ready():
            self.calm = self.calm and resting  # layer waits-for-what-changes-asked
            waiter: asyncio.Future[None] = self._loop.create_future()
            tasks[waiter] = ready
            try:
                await waiter
            finally:
                tasks.pop(waiter, None)

    # ── writing ──────────────────────────────────────────────────────────────────────────────

    async def decide(self, choose: Choose) -> tuple[Recorded, ...]:
        """Append what ``choose`` wants on the state as it is; again if the journal has moved on."""
        async with self.kept:
            await self._write_out()  # layer known-on-record-before-decision
            return await self._decide(choose)

    async def start(self, choose: Choose) -> int:
        """Append the start of a step after what was kept, and give its position; 0 if none."""
        try:
            async with self.kept.turn:
                written = await self._decide(choose)
        finally:
            if self.kept.facts:
                self.kept.look_soon()
        return written[-1].position if written else 0

    async def _decide(self, choose: Choose) -> tuple[Recorded, ...]:
        while True:
            events = tuple(choose(self.state))
            if not events:
                return ()
            kept = tuple(self.kept.facts)
            decision = Append(self._ids(), (self._entry(events),))
            try:
                done = await self.client.append(decision, self._chosen_anew(choose))
            except JournalConflict:
                await self.catch_up()  # layer outcome-append-has-lost-written
                continue
            if done.records and done.records[-1].position > self.state.head:
                self.absorb(done.records)
            if self.kept.facts and done is not NOTHING:
                self.kept.drop(kept)
            return done.records

    def _entry(self, events: tuple[Event, ...]) -> Entry:
        """Return what is appended: the outcomes that were kept, and ``events`` after them."""
        state = self.state
        if kept := tuple(self.kept.facts):
            # layer outcome-on-record-before-start
            events = (*(kept if self.calm else record_all(state, kept)), *events)
        return Entry(self.run, state.head, events)

    def _chosen_anew(self, choose: Choose) -> Callable[[Append, bool], Append | None]:
        """While the store is away time passes, and what was chosen may not fit any more.

        So one that was surely not written is chosen again; one that may have been is repeated.
        """
        head, epoch = self.state.head, self.state.epoch

        def renew(sent: Append, unsure: bool) -> Append | None:
            if self.state.epoch != epoch:
                return None
            if unsure or self.state.head != head:  # layer decision-not-taken-chosen-anew
                return sent  # the store knows whether it was written, or says that it is too late
            events = tuple(choose(self.state))
            return Append(sent.id, (self._entry(events),)) if events else None

        return renew

    # ── what is known and not on record yet ──────────────────────────────────────────────────

    def keep(self, attempt: int, result: Raw, usage: Usage) -> bool:
        """Keep an outcome for the next append. False: it has to be written now.

        None is kept during an append: a function learns outcomes in the order of their records.
        """
        if self.kept.turn.locked():
            return False
        told = max(self.history.now, self.clock.now())
        settled = e.AttemptSettled(
            epoch=self.epoch,
            attempt=attempt,
            outcome=Outcome.DONE,
            result=result,
            usage=usage,
            told=told,
        )
        if kept := self.kept.add(settled):
            self.history.learn(told)  # layer shown-as-done-when-on-record
        return kept

    def keep_for_end(self, *facts: Fact) -> bool:
        """Keep how a call ended that a cancel has aborted. False: it has to be written now."""
        return self.state.phase is Phase.CANCELLING and not self.lost and self.kept.add(*facts)

    @property
    def all_known(self) -> bool:
        """True if it is known of everything that has begun how it ended."""
        known = {fact.attempt for fact in self.kept.facts if isinstance(fact, e.AttemptSettled)}
        return self.state.open.keys() <= known and not self.state.undos

    @asynccontextmanager
    async def taking_along(self) -> AsyncIterator[tuple[Fact, ...]]:
        """Give what was kept to a block in which nobody else writes it: it goes ``along`` there."""
        async with self.kept:
            yield tuple(self.kept.facts)

    async def flush(self) -> None:
        """Write what was kept."""
        if self.kept.facts:
            async with self.kept:
                await self._write_out()

    async def _write_out(self) -> None:
        if facts := tuple(self.kept.facts):
            await self._write(facts)
            self.kept.drop(facts)

    # ── facts and requests ───────────────────────────────────────────────────────────────────

    async def settle(
        self, fact: Fact, then: Choose | None = None, *, before: Sequence[Fact] = ()
    ) -> tuple[Recorded, ...]:
        """Record how something ended. A fact never loses: on a conflict the store decides.

        ``before`` comes before it, and ``then`` chooses what follows, all in the same append.
        """
        try:
            return await self._settle((*before, fact), then)
        except (NotReadable, PayloadTooLarge) as refused:  # no store takes it, now or later
            about = {"action": "fact_mended", "run": self.state.journal, "error": str(refused)}
            log.error(MENDED, self.state.journal, refused, extra=about)
            return await self._settle((*before, mended(fact, refused)), then)

    async def _settle(self, facts: tuple[Fact, ...], then: Choose | None) -> tuple[Recorded, ...]:
        async with self.kept:
            await self._write_out()  # layer known-on-record-before-fact
            return await self._write(facts, then)

    async def _write(
        self, facts: tuple[Fact, ...], then: Choose | None = None
    ) -> tuple[Recorded, ...]:
        events = _recorded(self.state, facts, then)
        if not events:
            return ()
        decision = Append(self._ids(), (Entry(self.run, self.state.head, events),))
        try:
            done = await self.client.append(decision)
        except JournalConflict:
            recording = _recording(self.run, facts, then)  # layer outcome-loses-by-itself-goes
            done = await self.client.submit(Submit(self._ids(), (self.run,), recording))
            await self.catch_up()
        self.absorb(done.records)
        return done.records

    async def submit(
        self,
        request: Submit,
        unless: Callable[[], bool] | None = None,
        *,
        along: tuple[Fact, ...] | None = None,
    ) -> Committed:
        """Have the store decide what concerns other journals too; fold what is new in ours.

        It is given up with another driver or when ``unless`` is true. What was kept is written
        before, unless the request takes it ``along``.
        """
        if along is None:
            await self.flush()  # layer known-on-record
        epoch = self.state.epoch

        def given_up() -> bool:
            return self.state.epoch != epoch or (unless is not None and unless())

        done = await self.client.submit(request, given_up)
        if done is NOTHING:
            return done
        if along and done.records:  # layer known-taken-along-kept-until-written
            self.kept.drop(along)
        ours = [record for record in done.records if record.journal == self.state.journal]
        if ours and ours[0].position <= self.state.head + 1:
            self.absorb(ours)  # not read: a run that has just ended may be purged by now
        else:
            await self.catch_up()
        return done

    async def catch_up(self) -> None:
        """Fold what the journal has beyond what is known here."""
        self.absorb(await self.client.read(self.state.journal, after=self.state.head))

    async def give_notice(self, kind: str, text: str) -> None:
        """Tell person and function, once for each kind, while the run moves or comes to rest."""

        def given(state: RunState) -> list[Event]:
            known = any(noticed == kind for noticed, _ in state.notices)
            moves = state.phase in {Phase.RUNNING, Phase.PAUSING} and not self.lost
            given = e.NoticeGiven(epoch=self.epoch, kind=kind, text=text)
            return [given] if moves and not known else []

        await self.decide(given)

    def wait_over(self, state: RunState) -> list[Event]:
        """Return the events that must stand before anything that happens in a run that waits."""
        waits = state.phase is Phase.WAITING and not self.lost
        return [e.WaitEnded(epoch=self.epoch)] if waits else []

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    async def raw(self, record: Record) -> Raw:
        """The stored value of a record, from its row or from its blob."""
        return Raw(await self.client.blob(record.blob.hash)) if record.blob else record.result

    def left_of_timer(self, timer: str) -> float:
        """Return the seconds left until a timer of the run is due; 0 if it is not set."""
        until = self.state.timers.get(timer)
        return 0.0 if until is None else self.clock.left_of(self.history.set_at[timer], until)

    def left_of_question(self, question: int) -> float | None:
        """Return the seconds left until a question expires; None if it never does."""
        until = self.state.questions[question].expires_at
        return None if until is None else self.clock.left_of(self.history.asked_at[question], until)


def _recorded(state: RunState, facts: tuple[Fact, ...], then: Choose | None) -> tuple[Event, ...]:
    events = record_all(state, facts)
    follows = then is not None and bool(record(state, facts[-1]))
    return (*events, *then(state)) if then is not None and follows else events


def _recording(run: str, facts: tuple[Fact, ...], then: Choose | None) -> Callable[[View], Draft]:
    def decided(view: View) -> Draft:
        state = view.states[run]
        assert isinstance(state, RunState)
        return Draft({run: _recorded(state, facts, then)})

    return decided
