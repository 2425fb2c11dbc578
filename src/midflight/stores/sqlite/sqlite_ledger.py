"""The writes of the SQLite store, each made inside its writer's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

import msgspec

from midflight.audit.record import Deed
from midflight.errors import CorruptEntry, JournalConflict
from midflight.inputs import Clock
from midflight.kernel.decide import Switch
from midflight.kernel.events import Killed
from midflight.kernel.machine import State
from midflight.kernel.record import Actor
from midflight.kernel.state import RunState
from midflight.stores.commit import (
    draft_widening,
    kill_entries,
    killing,
    not_needed,
    of_kill,
    of_purge,
    of_release,
    of_request,
    stand_in,
)
from midflight.stores.protocol import Append, Committed, Killing, Purged, Submit, View
from midflight.stores.sqlite.transaction import SQL, Held, Transaction, row_of


class Ledger(Transaction):
    """The writer's view of the file."""

    def __init__(
        self,
        db: sqlite3.Connection,
        clock: Clock,
        lease_gone: Callable[[str], bool],
        file: Held,
    ) -> None:
        super().__init__(db, clock, file)
        self._lease_gone = lease_gone

    def append(self, decision: Append, folded: dict[str, State] | None) -> Committed:
        """See ``Store.append``. ``folded``: see ``submit``."""
        self._adopt(folded)
        if folded is not None:
            evicted = [x.journal for x in decision.entries if x.journal not in self._states]
            self._check_soon_folded(evicted)
        states = {entry.journal: self._state(entry.journal) for entry in decision.entries}
        try:
            return Committed(self._plan(decision, states))
        except JournalConflict:
            self._flush()  # the first of two equal ones may be in this very batch
            begins = [(entry.journal, entry.expected + 1) for entry in decision.entries]
            if all(self._append_at(*place) == (decision.id,) for place in begins):
                return Committed(self._records(begins), repeated=True)
            raise

    def submit(self, request: Submit, folded: dict[str, State] | None) -> Committed:
        """See ``Store.submit``.

        ``folded`` are states that were folded outside. What is not among them and takes long raises
        ``Unfolded``; with None it is folded here.
        """
        self._adopt(folded)
        outside = folded is not None
        if request.id in self._staged:
            self._flush()
        if begins := self._db.execute(SQL["find_request"], (request.id,)).fetchall():
            return Committed(self._records(begins), repeated=True)
        decision, note, view = draft_widening(
            request, lambda more: self._view(request, more, outside=outside)
        )
        records = self._plan(decision, view.states, requested=True)
        if records and request.audit is not None:
            self._stage_audit(of_request(request.audit, records))
        return Committed(records, note)

    def _view(self, request: Submit, journals: Iterable[str], *, outside: bool) -> View:
        if outside:
            self._check_soon_folded(journals)
        return View(
            {journal: self._state(journal) for journal in journals},
            tuple(s for s in self.switches() if s.scope in request.scopes),
            frozenset(driver for driver in request.leases if self._lease_gone(driver)),
            self._now,
        )

    def kill(self, scope: str, who: Actor, reason: str, deed: Deed) -> Killing:
        """See ``Store.kill``. One transaction, so nothing can slip between switch and runs."""
        self._flush()
        self._db.execute("SAVEPOINT kill")
        try:
            killing = self._kill(scope, who, reason, deed.id)
        except BaseException:  # all of it or nothing, also for a slip of ours
            self._clear_staged()
            self._states.clear()
            self._db.execute("ROLLBACK TO kill")
            raise
        finally:
            self._db.execute("RELEASE kill")
        self._stage_audit(of_kill(deed, killing))
        return killing

    def _kill(self, scope: str, who: Actor, reason: str, append_id: str) -> Killing:
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

    def release(self, scope: str, deed: Deed) -> bool:
        """See ``Store.release``."""
        released = self._db.execute(SQL["clear_switch"], (scope,)).rowcount > 0
        self._stage_audit(of_release(deed, released=released))
        return released

    def audit(self, deeds: tuple[Deed, ...]) -> None:
        """See ``Store.audit``."""
        self._stage_audit(*deeds)

    def switches(self) -> list[Switch]:
        """The switches that are on."""
        return [Switch(*row) for row in self._db.execute(SQL["switches"])]

    def purge(self, ended_before: float, limit: int, deed: Deed) -> Purged:
        """See ``Store.purge``."""
        self._flush()
        runs = self._delete_ended(ended_before, limit)
        idle = self._db.execute(SQL["idle_threads"], (ended_before, limit)).fetchall()
        threads = self._delete([thread for (thread,) in idle])
        blobs = self._db.execute(SQL["delete_unused_blobs"]).rowcount
        purged = Purged(runs, threads, blobs)
        if runs or threads:
            self._stage_audit(of_purge(deed, purged, ended_before))
        return purged

    def _delete_ended(self, ended_before: float, limit: int) -> int:
        """Delete ended runs; skip those that have to stay, or they would block all others."""
        gone, after = 0, ""
        while gone < limit:
            page = (ended_before, after, limit - gone)
            ended = dict(self._db.execute(SQL["ended_runs"], page).fetchall())
            if not ended:
                break
            after = max(ended)
            threads = msgspec.json.encode(sorted(set(ended.values()))).decode()
            forks = self._db.execute(SQL["forks"], (threads,)).fetchall()
            page_of_runs = msgspec.json.encode(list(ended)).decode()
            begun = self._db.execute(SQL["begun_by_others"], (page_of_runs,)).fetchall()
            gone += self._delete(not_needed(ended, forks + begun))
        return gone

    def _delete(self, journals: list[str]) -> int:
        for statement in ("delete_events", "delete_blob_uses", "delete_journal"):
            self._db.executemany(SQL[statement], [(journal,) for journal in journals])
        self._forget(set(journals))
        return len(journals)
