"""A write transaction of the SQLite store: states that are folded in it, rows staged for its end.

Folded states of the journals in use are kept. They are trusted only while ``data_version``, read
after ``BEGIN IMMEDIATE``, says that no other connection has written since; otherwise their tails
are read first. Rows are staged and written together at the end: a batch of fifty appends is two
``executemany``, not a hundred statements.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from midflight.audit import Deed, Head, Link, body_of, linked
from midflight.errors import JournalConflict
from midflight.inputs import Clock
from midflight.journal.fold import BULK, advance
from midflight.journal.record import Recorded
from midflight.journal.requests import Switch
from midflight.journal.state import RunState
from midflight.journal.transition_table import State
from midflight.stores.codec import INLINE_MAX, decode_page, named
from midflight.stores.commit import draft_widening, of_request, plan, summary
from midflight.stores.protocol import (
    PAGE,
    STORED,
    Append,
    Committed,
    Row,
    Submit,
    View,
    empty_state,
)
from midflight.stores.sqlite.sqlite_hold import Hold

SOON_FOLDED: Final = 200  # events: about half a millisecond
STATES_KEPT: Final = 1024  # about 3 kB each; a journal that falls out is folded again when needed
UNSEEN: Final = -1  # in place of the ``data_version`` at which a state was true
SQL: Final = named("sqlite/sql/sqlite.sql")

Folded = dict[str, State] | None
"""States that were folded outside of a transaction; None where all is to be folded inside."""


def read_events(
    db: sqlite3.Connection | sqlite3.Cursor, journal: str, after: int, limit: int
) -> list[Recorded]:
    """Decode part of a journal. No statement stays open: a reader never holds the file."""
    rows = db.execute(SQL["read_events"], (journal, after, limit)).fetchall()
    return decode_page(journal, after, rows)


def row_of(values: tuple[Any, ...]) -> Row:
    """A row of the read model."""
    named_values = dict(zip(STORED, values, strict=True))
    return msgspec.convert(named_values, Row, strict=False)


def audit_head(db: sqlite3.Cursor) -> Head:
    """Return where the audit ends."""
    found = db.execute(SQL["audit_head"]).fetchone()
    return Head(*found) if found else Head()


def audit_page(db: sqlite3.Cursor, after: int, limit: int) -> list[Link]:
    """Read some records of the audit."""
    return [Link(*row) for row in db.execute(SQL["audit_page"], (after, limit)).fetchall()]


class Unfolded(Exception):
    """Raised before anything was decided: these journals take long to fold.

    That keeps every other process from writing, so it is not done in a transaction. The caller
    folds ``states`` on outside, and asks again with them.
    """

    def __init__(self, states: dict[str, State]) -> None:
        super().__init__(f"to be folded first: {', '.join(states)}")
        self.states = states


def fold_page(db: sqlite3.Cursor, state: State) -> bool:
    """Fold some more of a journal; return whether there may be more."""
    page = read_events(db, state.journal, state.head, PAGE)
    for record in page:
        advance(state, record)
    return len(page) == PAGE


class Staged(Struct):
    """The rows of a transaction that are not in the tables yet."""

    appends: set[str] = set()  # their ids
    journals: set[str] = set()
    reshaped: set[str] = set()  # rows of which more than the counters has changed
    events: list[tuple[Any, ...]] = []
    blobs: list[tuple[str, str, bytes]] = []
    audited: dict[str, bytes] = {}  # records of the audit, by their ids


class Transaction:
    """Makes write transactions one after another, on one connection.

    One cursor serves for everything: a connection keeps a trace of two hundred old cursors, each of
    which keeps a megabyte from being given back after many runs were in memory.
    """

    def __init__(self, db: sqlite3.Connection, clock: Clock, file: Hold) -> None:
        self.db = db.cursor()
        self._file = file
        self._clock = clock
        self._states: OrderedDict[str, tuple[State, int]] = OrderedDict()
        self._due: dict[str, float | None] = {}  # as last written by us
        self._touched: set[str] = set()
        self._folded: set[str] = set()  # read in this transaction, perhaps only to be refused
        self.staged = Staged()
        self._version = -1
        self.now = 0.0

    def begin(self) -> None:
        """Take the write lock, and learn whether others have written meanwhile."""
        self._file.look_before()
        self.db.execute("BEGIN IMMEDIATE")
        if self._file.log_is_full:
            self._file.grow_log()
        (self._version,) = self.db.execute("PRAGMA data_version").fetchone()
        self.now = self._clock()

    def commit(self) -> None:
        """Write what is staged. When this returns it is on the disk, and in the store's file."""
        self.flush()
        try:
            self.db.execute("COMMIT")
        except sqlite3.Error as error:
            self._file.look_at_failure(error)
            raise
        self._file.look_after()  # layer append-acknowledged-only
        for journal in self._touched | self._folded:
            state, _ = self._states.get(journal, (None, 0))
            rests = isinstance(state, RunState) and not state.driver and not state.wants_driver
            if rests and state is not None and state.head <= SOON_FOLDED:
                self.forget((journal,))  # nobody drives it, and it is soon folded again
        self._touched.clear()
        self._folded.clear()
        while len(self._states) > STATES_KEPT:
            journal, _ = self._states.popitem(last=False)
            self._due.pop(journal, None)

    def rollback(self) -> None:
        """Forget everything since ``begin``."""
        if self.db.connection.in_transaction:
            self.db.execute("ROLLBACK")
        self.forget(self._touched | self._folded)
        self._touched.clear()
        self._folded.clear()
        self.staged = Staged()

    def forget(self, journals: Iterable[str]) -> None:
        """Fold these anew from the rows when they are needed next."""
        for journal in journals:
            self._states.pop(journal, None)
            self._due.pop(journal, None)

    def append(self, decision: Append, folded: Folded) -> Committed:
        """See ``Store.append``.

        ``folded`` are states that were folded outside. A journal that is not among them and takes
        long raises ``Unfolded``; with None it is folded here.
        """
        if folded:
            self.adopt(folded)
        states: dict[str, State] = {}
        for entry in decision.entries:
            if folded is not None and entry.journal not in self._states:
                evicted = [x.journal for x in decision.entries if x.journal not in self._states]
                self.check_soon_folded(evicted)
            states[entry.journal] = self.state(entry.journal)
        try:
            return Committed(self.stage(decision, states))
        except JournalConflict:
            self.flush()  # the first of two equal ones may be in this very batch
            begins = [(entry.journal, entry.expected + 1) for entry in decision.entries]
            # layer repeated-decision-recognised
            if all(self._append_at(*place) == (decision.id,) for place in begins):
                return Committed(self.records(begins), repeated=True)
            raise

    def submit(
        self, request: Submit, folded: Folded, lease_gone: Callable[[str], bool]
    ) -> Committed:
        """See ``Store.submit``; for ``folded`` see ``append``."""
        if folded:
            self.adopt(folded)
        if request.id in self.staged.appends:
            self.flush()
        # layer repeated-request-recognised
        if begins := self.db.execute(SQL["find_request"], (request.id,)).fetchall():
            return Committed(self.records(begins), repeated=True)

        def view_of(journals: Iterable[str]) -> View:
            if folded is not None:
                self.check_soon_folded(journals)
            return View(
                dict(zip(journals, map(self.state, journals), strict=True)),
                tuple(s for s in self.switches() if s.scope in request.scopes),
                frozenset(filter(lease_gone, request.leases)),
                self.now,
            )

        decision, note, view = draft_widening(request, view_of)
        records = self.stage(decision, view.states, requested=True)
        if records and request.audit is not None:  # layer record-in-transaction-of-control
            self.stage_audit(of_request(request.audit, records))
        return Committed(records, note)

    def switches(self) -> list[Switch]:
        """Return the switches that are on."""
        return [Switch(*row) for row in self.db.execute(SQL["switches"])]

    def is_light(self, decision: Append, _folded: Folded) -> bool:
        """Return whether it is written in a moment: nothing is read first, no blob is written."""
        if len(decision.entries) != 1 or decision.entries[0].journal not in self._states:
            return False
        for event in decision.entries[0].events:
            if len(bytes(getattr(event, "result", b""))) > INLINE_MAX:
                return False
        return True

    def adopt(self, folded: Folded) -> None:
        """Keep states that were folded outside; their tails are read when they are used.

        They are taken out of ``folded``. A job that is tried again after a rollback must not have
        them a second time: they may hold what was not committed.
        """
        while folded:
            journal, state = folded.popitem()  # layer folded-outside-not-used-again
            if journal not in self._states:
                self._states[journal] = (state, UNSEEN)

    def check_soon_folded(self, journals: Iterable[str]) -> None:
        """Raise ``Unfolded`` for those of them of which much has to be read first."""
        unread: dict[str, State] = {}
        for journal in journals:
            state, seen = self._states.get(journal, (None, UNSEEN))
            if state is None or seen != self._version:
                unread[journal] = state or empty_state(journal)
        if not unread:
            return
        names = msgspec.json.encode(list(unread)).decode()
        heads = self.db.execute(SQL["heads"], (names,)).fetchall()
        long = {j: unread[j] for j, head in heads if head - unread[j].head > SOON_FOLDED}
        if long:  # layer long-journal-folded-before-lock
            self.forget(long)
            raise Unfolded(long)

    def state(self, journal: str) -> State:
        """Return the state of a journal, with all that is in the store and in this transaction."""
        state, seen = self._states.get(journal, (None, -1))
        if state is not None and seen == self._version:  # layer folded-states-trusted-only
            self._states.move_to_end(journal)
            return state
        if journal in self.staged.journals:
            self.flush()
        self._due.pop(journal, None)  # somebody else may have written it
        if state is None or not self._append_at(journal, state.head):
            state = empty_state(journal)  # not seen yet, or purged by somebody else
        return self._fold_rows(state)

    def _fold_rows(self, state: State) -> State:
        for record in read_events(self.db, state.journal, state.head, -1):
            advance(state, record)
        self._states[state.journal] = (state, self._version)
        self._folded.add(state.journal)
        return state

    def keep_stand_ins(self, states: Mapping[str, State]) -> None:
        """Keep states of journals that cannot be read, until ``forget_stand_ins``."""
        for journal, state in states.items():
            self._states.setdefault(journal, (state, UNSEEN))

    def forget_stand_ins(self) -> None:
        """Forget every state that does not come from the rows."""
        self.forget([journal for journal, (_, seen) in self._states.items() if seen == UNSEEN])

    def stage(
        self, decision: Append, states: Mapping[str, State], *, requested: bool = False
    ) -> tuple[Recorded, ...]:
        """Check and fold a decision, and keep its rows for ``flush``.

        Flags as numbers: sqlite3 looks for an adapter for each bool, at half a microsecond a time.
        """
        touched: set[str] = set()
        try:
            planned = plan(decision, states, self.now, touched, requested=requested, flag=int)
        except BaseException:
            # layer failed-half-way-folded-again
            self.forget(touched)  # half of it was folded: fold again from the rows
            raise
        self._touched |= touched
        staged = self.staged
        for record in planned.records:
            if type(record.event) not in BULK:
                staged.reshaped.add(record.journal)
        staged.events += planned.events
        staged.blobs += planned.blobs
        staged.journals |= planned.journals
        staged.appends.add(planned.append_id)
        return tuple(planned.records)

    def flush(self) -> None:
        """Write what is staged into the tables; it is committed later, or not at all."""
        db, staged = self.db, self.staged
        db.executemany(SQL["insert_event"], staged.events)
        if staged.blobs:
            db.executemany(SQL["insert_blob"], [(h, body) for _, h, body in staged.blobs])
            db.executemany(SQL["insert_blob_use"], [(j, h) for j, h, _ in staged.blobs])
        self._write_rows(staged)
        if staged.audited:
            self._write_audit(staged.audited)
        self.staged = Staged()

    def stage_audit(self, *deeds: Deed) -> None:
        """Have these recorded with the rest of this transaction."""
        for done in deeds:
            self.staged.audited.setdefault(done.id, body_of(done, self.now))

    def _write_audit(self, audited: dict[str, bytes]) -> None:
        """Chain what is staged; the write lock keeps every other process from doing so."""
        asked = msgspec.json.encode(list(audited)).decode()
        for (known,) in self.db.execute(SQL["audit_known"], (asked,)).fetchall():
            del audited[known]
        head = audit_head(self.db)
        rows = []
        for deed_id, record in audited.items():
            link = linked(head, record)
            head = Head(link.number, link.digest)
            rows.append((link.number, deed_id, link.previous, link.digest, record.decode()))
        self.db.executemany(SQL["insert_audit"], rows)

    def forget_all(self) -> None:
        """Forget what is staged, and every state."""
        self.staged = Staged()
        self._states.clear()

    def _write_rows(self, staged: Staged) -> None:
        """Bring the read model up to date; for mere steps without touching its indexes."""
        touched, changed = [], []
        for journal in staged.journals:
            if journal in self._states:
                state = self._states[journal][0]
            else:  # a later job on it failed half-way, and what it had folded was forgotten
                state = self._fold_rows(empty_state(journal))
            waits = isinstance(state, RunState) and (
                state.questions or state.timers or state.windows
            )
            due = state.due_at if isinstance(state, RunState) and waits else None
            if journal in staged.reshaped or self._due.get(journal, -1.0) != due:
                changed.append(msgspec.structs.astuple(summary(state))[: len(STORED)])
            else:
                assert isinstance(state, RunState)
                spent = state.spent
                touched.append((state.head, state.at, state.done, spent.tokens, spent.usd, journal))
            self._due[journal] = due
        if touched:
            self.db.executemany(SQL["touch_journal"], touched)
        if changed:
            self.db.executemany(SQL["upsert_journal"], changed)

    def _append_at(self, journal: str, position: int) -> tuple[str | None] | None:
        """Read the row with the id of the append at a place; None if there is no such place."""
        found: tuple[str | None] | None
        found = self.db.execute(SQL["append_at"], (journal, position)).fetchone()
        return found

    def records(self, begins: Iterable[tuple[str, int]]) -> tuple[Recorded, ...]:
        """Read the records of the append that begins at these places."""
        records: list[Recorded] = []
        for journal, first in begins:
            (last,) = self.db.execute(SQL["append_end"], (journal, first)).fetchone()
            records += read_events(self.db, journal, first - 1, min(last - first + 1, 1 << 31))
        return tuple(records)
