"""The operator's jobs of a write transaction: kills, releases, purges.

Each function is a job of the writer: it gets the transaction, and its outcome counts only once the
transaction is committed.
"""

from __future__ import annotations

import msgspec

from midflight.audit import Deed
from midflight.errors import CorruptEntry
from midflight.journal.events import Killed
from midflight.journal.record import Actor
from midflight.journal.state import RunState
from midflight.journal.stored_fold import FoldRows, may_follow
from midflight.stores.commit import (
    kill_entries,
    killing,
    not_needed,
    of_kill,
    of_purge,
    of_release,
    stand_in,
)
from midflight.stores.protocol import Append, Killing, Purged
from midflight.stores.sqlite.transaction import SQL, Transaction, row_of


def kill(tx: Transaction, scope: str, who: Actor, reason: str, deed: Deed) -> Killing:
    """See ``Store.kill``. One transaction, so nothing can slip between switch and runs."""
    tx.flush()
    tx.db.execute("SAVEPOINT kill")
    try:
        done = _kill(tx, scope, who, reason, deed.id)
    except BaseException:  # all of it or nothing, also for a slip of ours
        tx.forget_all()
        tx.db.execute("ROLLBACK TO kill")  # layer kill-fails-half-way-taken-back
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
    (switch,) = (s for s in tx.switches() if s.scope == scope)
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


def keep_fold(tx: Transaction, fold: FoldRows) -> bool:
    """See ``Store.keep_fold``."""
    tx.flush()
    place = (fold.journal, fold.position)
    found = tx.db.execute(SQL["fold_at"], (*place, fold.at)).fetchone()
    if found is None or not may_follow(fold, *found):
        return False
    if not fold.since:
        tx.db.execute(SQL["delete_fold"], (fold.journal,))
    rows = [(row.number, row.checksum, row.body, *place) for row in fold.rows]
    return tx.db.executemany(SQL["write_fold"], rows).rowcount == len(rows)


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
        gone += delete(tx, not_needed(ended, forks + begun))  # layer purge-leaves-what-run-stays
    return gone


def delete(tx: Transaction, journals: list[str]) -> int:
    """Delete these journals, and return how many they are."""
    for statement in ("delete_fold", "delete_events", "delete_blob_uses", "delete_journal"):
        tx.db.executemany(SQL[statement], [(journal,) for journal in journals])
    tx.forget(journals)
    return len(journals)
