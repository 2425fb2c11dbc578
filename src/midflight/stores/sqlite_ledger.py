"""One write transaction of the SQLite store, seen from its writer thread.

Keeps folded states of the journals in use. They are trusted only while ``data_version``, read after
``BEGIN IMMEDIATE``, says that no other connection has written since; otherwise their tails are
read first. Rows are staged and written together at the end: a batch of fifty appends is two
``executemany``, not a hundred statements.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from midflight.errors import CorruptEntry, JournalConflict
from midflight.inputs import Clock
from midflight.kernel.decide import Switch
from midflight.kernel.events import Killed
from midflight.kernel.fold import BULK, advance
from midflight.kernel.machine import State
from midflight.kernel.record import Recorded, Who
from midflight.kernel.state import RunState
from midflight.stores.base import (
    Append,
    Committed,
    Killing,
    Purged,
    Row,
    Submit,
    View,
    empty_state,
)
from midflight.stores.codec import decode_page
from midflight.stores.plan import (
    Planned,
    draft_widening,
    kill_entries,
    killing,
    plan,
    stand_in,
    summary,
)
from midflight.stores.purging import not_needed
from midflight.stores.queries import named

SOON_FOLDED: Final = 200  # events: about half a millisecond
STATES_KEPT: Final = 1024  # about 3 kB each; a journal that falls out is folded again when needed
SQL: Final = named("sqlite.sql")


def read_events(
    db: sqlite3.Connection | sqlite3.Cursor, journal: str, after: int, limit: int
) -> list[Recorded]:
    """Decode part of a journal. No statement stays open: a reader never holds the file."""
    rows = db.execute(SQL["read_events"], (journal, after, limit)).fetchall()
    return decode_page(journal, after, rows)


def row_of(values: tuple[Any, ...]) -> Row:
    """A row of the read model."""
    named_values = dict(zip(Row.__struct_fields__, values, strict=True))
    return msgspec.convert(named_values, Row, strict=False)


class Ledger:
    """The writer's view of the file.

    By one cursor for everything: a connection keeps a trace of two hundred old ones, each of which
    keeps a megabyte from being given back after many runs were in memory.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        clock: Clock,
        lease_gone: Callable[[str], bool],
    ) -> None:
        self._db = db.cursor()
        self._clock = clock
        self._lease_gone = lease_gone
        self._states: OrderedDict[str, tuple[State, int]] = OrderedDict()
        self._due: dict[str, float | None] = {}  # as last written by us
        self._reshaped: set[str] = set()  # rows of which more than the counters has changed
        self._touched: set[str] = set()
        self._folded: set[str] = set()  # read in this transaction, perhaps only to be refused
        self._unflushed: set[str] = set()
        self._staged: set[str] = set()  # ids of appends that are not in the tables yet
        self._events: list[tuple[Any, ...]] = []
        self._blobs: list[tuple[str, str, bytes]] = []
        self._version = -1
        self._now = 0.0

    # ── the transaction ──────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Take the write lock, and learn whether others have written meanwhile."""
        self._db.execute("BEGIN IMMEDIATE")
        (self._version,) = self._db.execute("PRAGMA data_version").fetchone()
        self._now = self._clock()

    def commit(self) -> None:
        """Write what is staged. When this returns it is on the disk."""
        self._flush()
        self._db.execute("COMMIT")
        self._forget({journal for journal in self._touched | self._folded if self._rests(journal)})
        self._touched.clear()
        self._folded.clear()
        while len(self._states) > STATES_KEPT:
            journal, _ = self._states.popitem(last=False)
            self._due.pop(journal, None)

    def _rests(self, journal: str) -> bool:
        """Whether nobody drives it, and it is soon folded again when somebody comes."""
        state, _ = self._states.get(journal, (None, 0))
        idle = isinstance(state, RunState) and not state.driver and not state.wants_driver
        return idle and state is not None and state.head <= SOON_FOLDED

    def rollback(self) -> None:
        """Forget everything since ``begin``."""
        if self._db.connection.in_transaction:
            self._db.execute("ROLLBACK")
        self._forget(self._touched | self._folded)
        self._touched.clear()
        self._folded.clear()
        self._clear_staged()

    def _forget(self, journals: set[str]) -> None:
        for journal in journals:
            self._states.pop(journal, None)
            self._due.pop(journal, None)

    def _state(self, journal: str) -> State:
        state, seen = self._states.get(journal, (None, -1))
        if state is not None and seen == self._version:
            self._states.move_to_end(journal)
            return state
        if journal in self._unflushed:
            self._flush()
        self._due.pop(journal, None)  # somebody else may have written it
        if state is None or not self._append_at(journal, state.head):
            state = empty_state(journal)  # not seen yet, or purged by somebody else
        return self._fold_rows(state)

    def _fold_rows(self, state: State) -> State:
        for record in read_events(self._db, state.journal, state.head, -1):
            advance(state, record)
        self._states[state.journal] = (state, self._version)
        self._folded.add(state.journal)
        return state

    def has_folded(self, journal: str) -> bool:
        """Whether a decision about this journal can be judged without reading it first."""
        return journal in self._states

    def _stage(self, planned: Planned, *, requested: bool) -> tuple[Recorded, ...]:
        """Keep its rows for ``_flush``.

        Flags as numbers: sqlite3 looks for an adapter for each bool, at half a microsecond a time.
        """
        begun: set[str] = set()
        for record, encoded in zip(planned.records, planned.encoded, strict=True):
            journal, event = record.journal, encoded.event
            if type(event) not in BULK:
                self._reshaped.add(journal)
            self._events.append(
                (
                    journal,
                    record.position,
                    record.at,
                    event.VERSION,
                    1 if event.MUST_UNDERSTAND else 0,
                    encoded.checksum,
                    None if journal in begun else planned.append_id,
                    1 if requested else 0,
                    encoded.body.decode(),
                )
            )
            begun.add(journal)
            if encoded.blob is not None:
                self._blobs.append((journal, *encoded.blob))
        self._unflushed |= begun
        self._staged.add(planned.append_id)
        return tuple(planned.records)

    def _flush(self) -> None:
        db = self._db
        db.executemany(SQL["insert_event"], self._events)
        if self._blobs:
            db.executemany(SQL["insert_blob"], [(h, body) for _, h, body in self._blobs])
            db.executemany(SQL["insert_blob_use"], [(j, h) for j, h, _ in self._blobs])
        self._write_rows()
        self._clear_staged()

    def _clear_staged(self) -> None:
        self._events.clear()
        self._reshaped.clear()
        self._blobs.clear()
        self._staged.clear()
        self._unflushed.clear()

    def _write_rows(self) -> None:
        """Bring the read model up to date; for mere steps without touching its indexes."""
        touched, changed = [], []
        for journal in self._unflushed:
            if journal in self._states:
                state = self._states[journal][0]
            else:  # a later job on it failed half-way, and what it had folded was forgotten
                state = self._fold_rows(empty_state(journal))
            due = state.due_at if isinstance(state, RunState) else None
            if journal in self._reshaped or self._due.get(journal, -1.0) != due:
                changed.append(msgspec.structs.astuple(summary(state)))
            else:
                assert isinstance(state, RunState)
                spent = state.spent
                touched.append((state.head, state.at, state.done, spent.tokens, spent.usd, journal))
            self._due[journal] = due
        self._reshaped.clear()
        if touched:
            self._db.executemany(SQL["touch_journal"], touched)
        if changed:
            self._db.executemany(SQL["upsert_journal"], changed)

    # ── what may be done in it ───────────────────────────────────────────────────────────────

    def append(self, decision: Append) -> Committed:
        """See ``Store.append``."""
        states = {entry.journal: self._state(entry.journal) for entry in decision.entries}
        try:
            return Committed(self._plan(decision, states))
        except JournalConflict:
            self._flush()  # the first of two equal ones may be in this very batch
            begins = [(entry.journal, entry.expected + 1) for entry in decision.entries]
            if all(self._append_at(*place) == (decision.id,) for place in begins):
                return Committed(self._records(begins), repeated=True)
            raise

    def submit(self, request: Submit) -> Committed:
        """See ``Store.submit``."""
        if request.id in self._staged:
            self._flush()
        if begins := self._db.execute(SQL["find_request"], (request.id,)).fetchall():
            return Committed(self._records(begins), repeated=True)
        decision, note, view = draft_widening(request, lambda more: self._view(request, more))
        return Committed(self._plan(decision, view.states, requested=True), note)

    def _view(self, request: Submit, journals: Iterable[str]) -> View:
        return View(
            {journal: self._state(journal) for journal in journals},
            tuple(s for s in self.switches() if s.scope in request.scopes),
            frozenset(driver for driver in request.leases if self._lease_gone(driver)),
            self._now,
        )

    def kill(self, scope: str, who: Who, reason: str, append_id: str) -> Killing:
        """See ``Store.kill``. One transaction, so nothing can slip between switch and runs."""
        self._flush()
        self._db.execute("SAVEPOINT kill")
        try:
            killing = self._kill(scope, who, reason, append_id)
        except BaseException:  # all of it or nothing, also for a slip of ours
            self._clear_staged()
            self._states.clear()
            self._db.execute("ROLLBACK TO kill")
            raise
        finally:
            self._db.execute("RELEASE kill")
        return killing

    def _kill(self, scope: str, who: Who, reason: str, append_id: str) -> Killing:
        self._db.execute(SQL["set_switch"], (scope, who.by, self._now, reason))
        kind, _, name = scope.partition(":")
        found = self._db.execute(SQL["in_scope"], {"kind": kind, "name": name}).fetchall()
        states = {journal: self._readable_or_stand_in(journal) for (journal,) in found}
        for journal, state in states.items():
            self._states.setdefault(journal, (state, -1))
        entries = kill_entries(states.values(), Killed(who=who, scope=scope))
        records = self._plan(Append(append_id, entries), states)
        self._flush()
        self._forget({journal for journal, (_, seen) in self._states.items() if seen < 0})
        (switch,) = (s for s in self.switches() if s.scope == scope)
        return killing(switch, records)

    def _readable_or_stand_in(self, journal: str) -> RunState:
        try:
            state = self._state(journal)
        except CorruptEntry:
            return stand_in(row_of(self._db.execute(SQL["row"], (journal,)).fetchone()))
        assert isinstance(state, RunState)
        return state

    def release(self, scope: str) -> bool:
        """See ``Store.release``."""
        return self._db.execute(SQL["clear_switch"], (scope,)).rowcount > 0

    def switches(self) -> list[Switch]:
        """The switches that are on."""
        return [Switch(*row) for row in self._db.execute(SQL["switches"])]

    def purge(self, ended_before: float, limit: int) -> Purged:
        """See ``Store.purge``."""
        self._flush()
        runs = self._delete_ended(ended_before, limit)
        idle = self._db.execute(SQL["idle_threads"], (ended_before, limit)).fetchall()
        threads = self._delete([thread for (thread,) in idle])
        blobs = self._db.execute(SQL["delete_unused_blobs"]).rowcount
        return Purged(runs, threads, blobs)

    def _delete_ended(self, ended_before: float, limit: int) -> int:
        """Past those that have to stay, or they would keep all others from going."""
        gone, after = 0, ""
        while gone < limit:
            page = (ended_before, after, limit - gone)
            ended = dict(self._db.execute(SQL["ended_runs"], page).fetchall())
            if not ended:
                break
            after = max(ended)
            threads = msgspec.json.encode(sorted(set(ended.values()))).decode()
            forks = self._db.execute(SQL["forks"], (threads,)).fetchall()
            gone += self._delete(not_needed(ended, forks))
        return gone

    def _delete(self, journals: list[str]) -> int:
        for statement in ("delete_events", "delete_blob_uses", "delete_journal"):
            self._db.executemany(SQL[statement], [(journal,) for journal in journals])
        self._forget(set(journals))
        return len(journals)

    def _plan(
        self, decision: Append, states: Mapping[str, State], *, requested: bool = False
    ) -> tuple[Recorded, ...]:
        touched: set[str] = set()
        try:
            planned = plan(decision, states, self._now, touched)
        except BaseException:
            self._forget(touched)  # half of it was folded: fold again from the rows
            raise
        self._touched |= touched
        return self._stage(planned, requested=requested)

    def _append_at(self, journal: str, position: int) -> tuple[str | None] | None:
        """Which append begins at a place: None if there is no such place."""
        found: tuple[str | None] | None
        found = self._db.execute(SQL["append_at"], (journal, position)).fetchone()
        return found

    def _records(self, begins: Iterable[tuple[str, int]]) -> tuple[Recorded, ...]:
        """What an append committed that begins at these places."""
        records: list[Recorded] = []
        for journal, first in begins:
            (last,) = self._db.execute(SQL["append_end"], (journal, first)).fetchone()
            records += read_events(self._db, journal, first - 1, min(last - first + 1, 1 << 31))
        return tuple(records)
