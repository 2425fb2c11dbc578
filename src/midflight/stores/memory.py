"""Journals in this process only: for tests, examples and anything that need not survive it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Self

from midflight.audit import Deed, Head, Link, body_of, deed, linked
from midflight.errors import JournalConflict, JournalNotFound
from midflight.inputs import Clock, new_id, steady, wall_clock
from midflight.journal.events import Killed
from midflight.journal.facts import check_driver_name
from midflight.journal.fold import fold
from midflight.journal.phases import ENDS
from midflight.journal.record import Actor, Recorded
from midflight.journal.requests import Switch, require_operator, scopes
from midflight.journal.state import RunState
from midflight.journal.stored_fold import FoldRow, FoldRows, StoredFold, may_follow, opened
from midflight.journal.transition_table import State
from midflight.stores.clock_steps import ClockSteps
from midflight.stores.codec import blob_missing, decode
from midflight.stores.commit import (
    Planned,
    draft_widening,
    kill_entries,
    killing,
    not_needed,
    of_kill,
    of_purge,
    of_release,
    of_request,
    plan,
    summary,
)
from midflight.stores.hints import Movements, no_movements
from midflight.stores.hub import Hub
from midflight.stores.lookup import folded
from midflight.stores.protocol import (
    PAGE,
    Append,
    Committed,
    JournalClock,
    Killing,
    Purged,
    Query,
    Row,
    Submit,
    View,
    ascii_lower,
    closed,
    empty_state,
    name_taken,
)


class MemoryLease:
    """A lease that is held while its block runs; there is no other process to lose it to."""

    def __init__(self, driver: str) -> None:
        self.driver = driver
        self.held = True
        self.proven = True
        self.lock = None


class MemoryStore:
    """Forgets everything when the process ends, and otherwise behaves as the other stores do.

    One that is made by itself stays open; ``MemoryStore.open`` closes it at the end of the block.
    """

    def __init__(self, clock: Clock = wall_clock, steadily: Clock | None = None) -> None:
        self._hub = hub = Hub(self.read)
        self.watch, self.watch_live, self.movements = hub.watch, hub.watch_live, hub.watch_all
        self.voices = hub.voices
        self._clock = clock
        self._steps = ClockSteps(clock, steadily or (steady if clock is wall_clock else None))
        self._closed = False
        self._journals: dict[str, list[Recorded]] = {}
        self._states: dict[str, State] = {}
        self._appends: dict[str, list[Recorded]] = {}
        self._blobs: dict[str, bytes] = {}
        self._switches: dict[str, Switch] = {}
        self._leases: set[str] = set()
        self._audit: dict[str, Link] = {}
        self._folds: dict[str, tuple[int, dict[int, FoldRow]]] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, clock: Clock = wall_clock) -> AsyncIterator[Self]:
        """Keep journals for as long as the block runs."""
        store = cls(clock)
        try:
            yield store
        finally:
            store._closed = True

    def _check_open(self) -> None:
        if self._closed:  # layer closed-store-in-memory-refuses
            raise closed()

    async def append(self, decision: Append) -> Committed:
        """See ``Store.append``."""
        self._check_open()
        with self._forget_on_error() as touched:
            try:
                planned = plan(decision, self._folded(decision), self._clock(), touched)
            except JournalConflict:
                if known := self._appends.get(decision.id):
                    return Committed(tuple(known), repeated=True)
                raise
            return Committed(self._commit(planned))

    async def submit(self, request: Submit) -> Committed:
        """See ``Store.submit``."""
        self._check_open()
        if known := self._appends.get(request.id):
            return Committed(tuple(known), repeated=True)
        decision, note, view = draft_widening(request, partial(self._view, request))
        with self._forget_on_error() as touched:
            planned = plan(decision, self._folded(decision), view.now, touched)
            records = self._commit(planned)
        if records and request.audit is not None:
            self._record(of_request(request.audit, records))
        return Committed(records, note)

    def _view(self, request: Submit, journals: Iterable[str]) -> View:
        return View(
            {journal: self._state(journal) for journal in journals},
            tuple(self._switches[s] for s in request.scopes if s in self._switches),
            frozenset(driver for driver in request.leases if driver not in self._leases),
            self._clock(),
        )

    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        """See ``Store.read``."""
        self._check_open()
        if journal not in self._journals:
            raise JournalNotFound(journal)
        return self._journals[journal][after : after + limit]

    async def load(self, journal: str) -> State:
        """See ``Store.load``."""
        return await folded(self.read, self.fold, journal)

    async def fold(self, journal: str) -> StoredFold | None:
        """See ``Store.fold``."""
        self._check_open()
        return opened(journal, self._folds.get(journal, (0, {}))[1].values())

    async def keep_fold(self, fold: FoldRows) -> bool:
        """See ``Store.keep_fold``."""
        self._check_open()
        stored, rows = self._folds.get(fold.journal, (0, {}))
        there = self._journals.get(fold.journal, [])[fold.position - 1 : fold.position]
        # layer memory-fold-of-same-past
        if fits := [x.at for x in there] == [fold.at] and may_follow(fold, stored):
            kept = rows if fold.since else {}
            self._folds[fold.journal] = fold.position, kept | {x.number: x for x in fold.rows}
        return fits

    async def rows(self, query: Query) -> list[Row]:
        """See ``Store.rows``."""
        self._check_open()
        found = map(summary, self._all())
        wanted = [row for row in found if _matches(row, query) and self._says(row, query.words)]
        return sorted(wanted, key=lambda row: row.journal, reverse=True)[: query.limit]

    async def row(self, journal: str) -> Row:
        """See ``Store.row``."""
        self._check_open()
        if journal not in self._journals:
            raise JournalNotFound(journal)
        return summary(self._state(journal))

    async def due(self, limit: int = 100) -> list[Row]:
        """See ``Store.due``."""
        self._check_open()
        self._mind_the_clock()
        now, found = self._clock(), []
        for state in self._all():
            row = summary(state)
            undriven = row.wants_driver and row.driver not in self._leases
            if undriven or self._steps.is_due(row, now):
                found.append(row)
        return found[:limit]

    async def clock_of(self, journal: str) -> JournalClock:
        """See ``Store.clock_of``."""
        self._check_open()
        self._mind_the_clock()
        return self._steps.clock_of(journal)

    def _mind_the_clock(self) -> None:
        if self._steps.is_behind():
            self._steps.note_ahead(map(summary, self._all()))
        if (step := self._steps.notice()) is not None:
            waiting = [row for row in map(summary, self._all()) if row.due_at is not None]
            self._steps.note(step, [(row, self._journals[row.journal]) for row in waiting])

    async def kill(self, scope: str, who: Actor, reason: str = "") -> Killing:
        """See ``Store.kill``."""
        self._check_open()
        require_operator(who, "kill")
        now = self._clock()
        entries = kill_entries(self._in_scope(scope), Killed(who=who, scope=scope))
        with self._forget_on_error() as touched:
            decision = Append(f"kill:{scope}:{now}", entries)
            records = self._commit(plan(decision, self._states, now, touched))
        switch = self._switches.setdefault(scope, Switch(scope, who.by, now, reason))
        done = killing(switch, records)
        self._record(of_kill(deed("kill", scope, id=new_id(), who=who), done))
        return done

    async def release(self, scope: str, who: Actor) -> bool:
        """See ``Store.release``."""
        self._check_open()
        require_operator(who, "release")
        released = self._switches.pop(scope, None) is not None
        self._record(of_release(deed("release", scope, id=new_id(), who=who), released=released))
        return released

    async def switches(self) -> list[Switch]:
        """See ``Store.switches``."""
        self._check_open()
        return list(self._switches.values())

    async def ready(self) -> None:
        """See ``Store.ready``."""
        self._check_open()

    @asynccontextmanager
    async def lease(self, driver: str) -> AsyncIterator[MemoryLease]:
        """See ``Store.lease``."""
        self._check_open()
        check_driver_name(driver)
        if driver in self._leases:
            raise name_taken(driver)
        held = MemoryLease(driver)
        self._leases.add(driver)
        try:
            yield held
        finally:
            held.held = False
            self._leases.discard(driver)

    async def lease_gone(self, driver: str) -> bool:
        """See ``Store.lease_gone``."""
        self._check_open()
        return driver not in self._leases

    async def blob(self, digest: str) -> bytes:
        """See ``Store.blob``."""
        self._check_open()
        if digest not in self._blobs:
            raise blob_missing(digest)
        return self._blobs[digest]

    async def now(self) -> float:
        """See ``Store.now``."""
        self._check_open()
        return self._clock()

    def wanting(self) -> Movements:
        """See ``Store.wanting``. Here nobody is told."""
        return no_movements()

    async def purge(self, ended_before: float, limit: int = 1000) -> Purged:
        """See ``Store.purge``."""
        self._check_open()
        states = self._all()
        runs = [s for s in states if isinstance(s, RunState)]
        ended = [s.journal for s in runs if s.phase in ENDS and s.at < ended_before]
        gone: list[str] = []
        while ended and (room := limit - len(gone)) > 0:
            there = {s.journal for s in runs}.difference(gone)
            forks = [(s.journal, s.fork_of) for s in runs if s.fork_of and s.journal in there]
            begun = [(s.parent, s.journal) for s in runs if s.parent in there]
            gone += not_needed(ended[:room], forks + begun)
            ended = ended[room:]
        for journal in gone:
            self._drop(journal)
        busy = {s.thread for s in runs if s.journal not in gone}
        threads = [
            s.journal
            for s in states
            if not isinstance(s, RunState)
            and s.journal not in busy
            and not s.todos
            and s.at < ended_before
        ][:limit]
        for journal in threads:
            self._drop(journal)
        used = {
            blob.hash
            for records in self._journals.values()
            for record in records
            if (blob := getattr(record.event, "blob", None))
        }
        orphans = [digest for digest in self._blobs if digest not in used]
        for digest in orphans:
            del self._blobs[digest]
        purged = Purged(len(gone), len(threads), len(orphans))
        if gone or threads:
            self._record(of_purge(deed("purge", id=new_id()), purged, ended_before))
        return purged

    async def audit(self, *deeds: Deed) -> None:
        """See ``Store.audit``."""
        self._check_open()
        for done in deeds:
            self._record(done)

    async def audit_page(self, after: int = 0, limit: int = PAGE) -> list[Link]:
        """See ``Store.audit_page``."""
        self._check_open()
        return list(self._audit.values())[after : after + limit]

    async def audit_head(self) -> Head:
        """See ``Store.audit_head``."""
        self._check_open()
        return self._head()

    def _record(self, done: Deed) -> None:
        if done.id not in self._audit:
            self._audit[done.id] = linked(self._head(), body_of(done, self._clock()))

    def _head(self) -> Head:
        last = next(reversed(self._audit.values()), None)
        return Head(last.number, last.digest) if last is not None else Head()

    def _commit(self, planned: Planned) -> tuple[Recorded, ...]:
        """Keep what a disk would give back, so that live equals replay here too."""
        records = []
        for row in planned.events:
            stored = decode(*(*row[:6], row[-1].encode()))
            self._journals.setdefault(stored.journal, []).append(stored)
            records.append(stored)
        self._blobs.update((digest, value) for _, digest, value in planned.blobs)
        if records:
            self._appends[planned.append_id] = records
            self._hub.publish(records)
        return tuple(records)

    def _says(self, row: Row, words: Sequence[str]) -> bool:
        brief = getattr(self._journals[row.journal][0].event, "brief", "") if words else ""
        said = ascii_lower(f"{row.title} {brief}")
        return all(word in said for word in words)

    def _state(self, journal: str) -> State:
        if journal not in self._states:
            self._states[journal] = fold(empty_state(journal), self._journals.get(journal, ()))
        return self._states[journal]

    def _all(self) -> list[State]:
        """Return the states of all journals that have records."""
        return [self._state(journal) for journal in self._journals]

    def _folded(self, decision: Append) -> dict[str, State]:
        return {entry.journal: self._state(entry.journal) for entry in decision.entries}

    @contextmanager
    def _forget_on_error(self) -> Iterator[set[str]]:
        touched: set[str] = set()
        try:
            yield touched
        except BaseException:
            for journal in touched:
                self._states.pop(journal, None)
            raise

    def _in_scope(self, scope: str) -> list[RunState]:
        return [
            state
            for state in map(self._state, sorted(self._journals))
            if isinstance(state, RunState) and scope in scopes(state.agent, state.thread)
        ]

    def _drop(self, journal: str) -> None:
        self._appends = {
            id_: records
            for id_, records in self._appends.items()
            if all(record.journal != journal for record in records)
        }
        del self._journals[journal]
        self._folds.pop(journal, None)
        del self._states[journal]


def _matches(row: Row, query: Query) -> bool:
    return (
        row.kind == query.kind
        and (not query.phases or row.phase in query.phases)
        and (not query.thread or row.thread == query.thread)
        and (not query.agent or row.agent == query.agent)
        and (not query.parent or row.parent == query.parent)
        and (not query.before or row.journal < query.before)
    )
