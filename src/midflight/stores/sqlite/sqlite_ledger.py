"""The jobs of a write transaction beside appending: requests, kills, purges, the audit.

Each function is a job of the writer: it gets the transaction, and its outcome counts only once the
transaction is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from midflight.audit.audit_record import Deed
from midflight.errors import CorruptEntry
from midflight.journal.events import Killed
from midflight.journal.record import Actor
from midflight.journal.requests import Switch
from midflight.journal.state import RunState
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
from midflight.stores.sqlite.transaction import SQL, Folded, Transaction, row_of

LeaseGone = Callable[[str], bool]


def submit(tx: Transaction, request: Submit, folded: Folded, lease_gone: LeaseGone) -> Committed:
    """See ``Store.submit``; for ``folded`` see ``Transaction.append``."""
    tx.adopt(folded)
    if request.id in tx.staged.appends:
        tx.flush()
    if begins := tx.db.execute(SQL["find_request"], (request.id,)).fetchall():
        return Committed(tx.records(begins), repeated=True)

    def view_of(journals: Iterable[str]) -> View:
        if folded is not None:
            tx.check_soon_folded(journals)
        return View(
            {journal: tx.state(journal) for journal in journals},
            tuple(s for s in switches(tx) if s.scope in request.scopes),
            frozenset(driver for driver in request.leases if lease_gone(driver)),
            tx.now,
        )

    decision, note, view = draft_widening(request, view_of)
    records = tx.stage(decision, view.states, requested=True)
    if records and request.audit is not None:
        tx.stage_audit(of_request(request.audit, records))
    return Committed(records, note)


def switches(tx: Transaction) -> list[Switch]:
    """Return the switches that are on."""
    return [Switch(*row) for row in tx.db.execute(SQL["switches"])]


def kill(tx: Transaction, scope: str, who: Actor, reason: str, deed: Deed) -> Killing:
    """See ``Store.kill``. One transaction, so nothing can slip between switch and runs."""
    tx.flush()
    tx.db.execute("SAVEPOINT kill")
    try:
        done = _kill(tx, scope, who, reason, deed.id)
    except BaseException:  # all of it or nothing, also for a slip of ours
        tx.forget_all()
        tx.db.execute("ROLLBACK TO kill")
        raise
    finally:
        tx.db.execute("RELEASE kill")
    tx.stage_audit(of_kill(deed, done))
    return done


def _kill(tx: Transaction, scope: str, who: Actor, reason: str, append_id: str) -> Killing:
    tx.db.execute(SQL["set_switch"], (scope, who.by, tx.now, reason))
    kind, _, name = scope.partition(":")
    found = tx.db.execute(SQL["in_scope"], {"kind": kind, "name": name}).fetchall()
    states = {journal: _readable_or_stand_in(tx, journal) for (journal,) in found}
    tx.keep_stand_ins(states)
    entries = kill_entries(states.values(), Killed(who=who, scope=scope))
    records = tx.stage(Append(append_id, entries), states)
    tx.flush()
    tx.forget_stand_ins()
    (switch,) = (s for s in switches(tx) if s.scope == scope)
    return killing(switch, records)


def _readable_or_stand_in(tx: Transaction, journal: str) -> RunState:
    try:
        state = tx.state(journal)
    except CorruptEntry:
        return stand_in(row_of(tx.db.execute(SQL["row"], (journal,)).fetchone()))
    assert isinstance(state, RunState)
    return state


def release(tx: Transaction, scope: str, deed: Deed) -> bool:
    """See ``Store.release``."""
    released = tx.db.execute(SQL["clear_switch"], (scope,)).rowcount > 0
    tx.stage_audit(of_release(deed, released=released))
    return released


def purge(tx: Transaction, ended_before: float, limit: int, deed: Deed) -> Purged:
    """See ``Store.purge``."""
    tx.flush()
    runs = _delete_ended(tx, ended_before, limit)
    idle = tx.db.execute(SQL["idle_threads"], (ended_before, limit)).fetchall()
    threads = delete(tx, [thread for (thread,) in idle])
    blobs = tx.db.execute(SQL["delete_unused_blobs"]).rowcount
    purged = Purged(runs, threads, blobs)
    if runs or threads:
        tx.stage_audit(of_purge(deed, purged, ended_before))
    return purged


def _delete_ended(tx: Transaction, ended_before: float, limit: int) -> int:
    """Delete ended runs; skip those that have to stay, or they would block all others."""
    gone, after = 0, ""
    while gone < limit:
        page = (ended_before, after, limit - gone)
        ended = dict(tx.db.execute(SQL["ended_runs"], page).fetchall())
        if not ended:
            break
        after = max(ended)
        threads = msgspec.json.encode(sorted(set(ended.values()))).decode()
        forks = tx.db.execute(SQL["forks"], (threads,)).fetchall()
        page_of_runs = msgspec.json.encode(list(ended)).decode()
        begun = tx.db.execute(SQL["begun_by_others"], (page_of_runs,)).fetchall()
        gone += delete(tx, not_needed(ended, forks + begun))
    return gone


def delete(tx: Transaction, journals: list[str]) -> int:
    """Delete these journals, and return how many they are."""
    for statement in ("delete_events", "delete_blob_uses", "delete_journal"):
        tx.db.executemany(SQL[statement], [(journal,) for journal in journals])
    tx.forget(journals)
    return len(journals)
