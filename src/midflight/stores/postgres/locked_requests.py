"""Requests and kills under lock: one transaction that locks, folds, decides and writes.

Lock order, everywhere: turns of this process, switches, leases, heads, values; each in the order of
their ids. Everything that the transaction reads after it has locked stays true until it commits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from midflight.audit import Deed, body_of
from midflight.errors import CorruptEntry
from midflight.journal.events import Killed
from midflight.journal.fold import advance
from midflight.journal.record import Recorded
from midflight.journal.requests import Switch
from midflight.journal.state import RunState
from midflight.journal.stored_fold import FoldRow, FoldRows, may_follow, opened, restore
from midflight.journal.transition_table import State
from midflight.stores.codec import decode
from midflight.stores.commit import (
    draft,
    kill_entries,
    killing,
    of_kill,
    of_request,
    plan,
    stand_in,
)
from midflight.stores.postgres.kept_states import States, Turn
from midflight.stores.postgres.postgres_server import SQL, Connection, Orphaned, Taken
from midflight.stores.postgres.postgres_writer import append_locked, job_of, row_of
from midflight.stores.protocol import PAGE, Append, Committed, Killing, Submit, View, empty_state

SOON_FOLDED: Final = 200  # events: a round trip, and half a millisecond
TAILS: Final = 100  # journals whose tails are read in one round trip
NOWHERE: Final[Mapping[str, int]] = {}
STRETCH: Final = 200  # runs a kill plans and writes at a time: about 10 ms each

Fetch = Callable[..., Awaitable[list[Any]]]
Landed = Callable[[str, Sequence[Recorded]], None]
"""Called with what is on the disk under an id, whether we or an earlier try put it there."""


class Moved(Exception):
    """Another process began a journal that this one wanted to begin: look again."""


class Behind(Exception):
    """Raised under lock: much of these journals has to be read first, and that is done without."""

    def __init__(self, heads: Mapping[str, int]) -> None:
        super().__init__(f"to be folded first: {', '.join(heads)}")
        self.heads = heads


async def catch_up(fetch: Fetch, states: Iterable[State]) -> None:
    """Fold what was appended since: short tails many at a time, a long one page by page."""
    behind = list(states)
    while behind:
        some, behind = behind[:TAILS], behind[TAILS:]
        share = max(1, min(PAGE, 4 * PAGE // len(some)))
        by_id = {state.journal: state for state in some}
        heads = {state.journal: state.head for state in some}
        rows = await fetch(SQL["read_tails"], list(heads), list(heads.values()), share)
        for row in rows:
            advance(by_id[row["journal"]], decode(*row))
        long = [state for state in some if state.head - heads[state.journal] == share]
        for state in long:
            if heads[state.journal] == 0:
                await _restore(fetch, state)
        behind += long


async def _restore(fetch: Fetch, state: State) -> None:
    """Go on from the stored fold of a long journal, if it has one."""
    rows = await fetch(SQL["read_fold"], state.journal)
    found = opened(state.journal, [FoldRow(*row) for row in rows])
    if found is not None and found.position > state.head and isinstance(state, RunState):
        restore(state, found)


async def write_fold(connection: Connection, fold: FoldRows) -> bool:
    """See ``Store.keep_fold``."""
    place, columns = (fold.journal, fold.position), zip(*map(astuple, fold.rows), strict=True)
    try:
        async with connection.transaction():
            # layer writers-of-fold-take-turns
            await connection.execute(SQL["lock_fold"], fold.journal)
            stored = await connection.fetchval(SQL["fold_at"], *place, fold.at)
            if stored is None or not may_follow(fold, stored):
                return False
            if not fold.since:
                await connection.execute(SQL["delete_fold"], fold.journal)
            written = await connection.fetch(SQL["write_fold"], *place, *columns)
    # layer fold-of-purged-journal-not-kept
    except Orphaned:
        return False
    return len(written) == len(fold.rows)


async def find_append(
    connection: Connection, append_id: str, expected: Mapping[str, int] = NOWHERE
) -> tuple[Recorded, ...]:
    """Read the records of an append id: a request's anywhere, a decision's after ``expected``."""
    places = list(expected), list(expected.values())
    rows = await connection.fetch(SQL["appended"], append_id, *places)
    return tuple(decode(*row) for row in rows)


class Locked:
    """Some journals under lock: their states, folded up to the locked heads."""

    def __init__(self, states: States, turn: Turn) -> None:
        self._states = states
        self._turn = turn
        self._touched: set[str] = set()
        self._broken: tuple[str, ...] = ()
        self.folded: dict[str, State] = {}

    async def fold(
        self, connection: Connection, heads: Mapping[str, int], *, whatever_it_takes: bool = True
    ) -> None:
        """Bring the states up to these heads. A journal out of our turn is folded apart.

        Unless ``whatever_it_takes``, raise ``Behind`` for those of which much has to be read.
        """
        for journal in heads:
            state = self._states.get(journal) if journal in self._turn.journals else None
            if state is not None and state.head > heads[journal]:
                self._states.forget([journal])  # it was purged, or a backup was put back
                state = None
            self.folded[journal] = state or empty_state(journal)
        behind = [state for journal, state in self.folded.items() if state.head < heads[journal]]
        far = {s.journal for s in behind if heads[s.journal] - s.head > SOON_FOLDED}
        if far and not whatever_it_takes:  # layer others-have-added-folded
            raise Behind({journal: heads[journal] for journal in far})
        await catch_up(connection.fetch, behind)
        for state in behind:
            if state.head != heads[state.journal]:
                raise CorruptEntry(state.journal, state.head + 1, "the entry is missing")
            if state.journal in self._turn.journals:
                self._states.put(state)

    async def fold_what_can_be_read(self, connection: Connection, heads: Mapping[str, int]) -> None:
        """As ``fold``; of a journal that cannot be read, what its row tells. For a kill only."""
        readable, broken = dict(heads), []
        while True:
            try:
                await self.fold(connection, readable)
                break
            except CorruptEntry as found:
                self._states.forget(readable)
                del readable[found.journal]
                self.folded.clear()
                broken.append(found.journal)
        for journal in broken:
            row = await connection.fetchrow(SQL["row"], journal)
            assert row is not None
            self.folded[journal] = stand_in(row_of(row))
        self._touched |= set(broken)
        self._broken = tuple(broken)

    def forget_what_is_broken(self) -> None:
        """Forget the stand-ins of journals that cannot be read: each is good for one kill."""
        self._states.forget(self._broken)

    async def write(
        self, connection: Connection, decision: Append, now: float, audit: Deed | None = None
    ) -> tuple[Recorded, ...]:
        """Check, fold and write, in the transaction that holds the locks."""
        expected = {entry.journal: entry.expected for entry in decision.entries}
        planned = plan(decision, self.folded, now, self._touched, requested=True)
        job = job_of(planned, self.folded, expected, now=now, turn=self._turn)
        try:
            done = of_request(audit, job.records) if audit is not None else None
            audited = (done.id, body_of(done, now).decode()) if done is not None else None
            if await append_locked(connection, job, audited):
                return job.records
        except Taken:
            pass
        raise Moved

    def undo(self) -> None:
        """Forget what was folded in a transaction that did not commit."""
        self._states.forget(self._touched)


async def submit_locked(
    connection: Connection,
    request: Submit,
    states: States,
    turn: Turn,
    landed: Landed,
    *,
    whatever_it_takes: bool,
) -> Committed:
    """Decide a request under lock. Called again, it finds what an earlier call committed.

    Unless ``whatever_it_takes``, raise ``Behind`` where much would have to be folded under lock.
    """
    locked = Locked(states, turn)
    try:
        async with connection.transaction():
            found = await connection.fetchrow(
                SQL["lock_for_request"],
                request.id,
                sorted(set(request.scopes)),
                sorted(set(request.leases)),
                sorted(turn.journals),
            )
            assert found is not None
            repeated, note = bool(found["known"]), None
            if repeated:
                records = await find_append(connection, request.id)
            else:
                heads = dict.fromkeys(turn.journals, 0) | _heads(found)
                await locked.fold(connection, heads, whatever_it_takes=whatever_it_takes)
                decision, note = draft(request, _view(request, locked.folded, found))
                records = ()
                if decision.entries:
                    audit = request.audit
                    records = await locked.write(connection, decision, found["at"], audit)
    except BaseException:
        locked.undo()
        raise
    landed(request.id, records)
    return Committed(records, note, repeated)


def _heads(found: Any) -> dict[str, int]:
    return dict(zip(found["journals_found"] or (), found["heads"] or (), strict=True))


def _view(request: Submit, folded: Mapping[str, State], found: Any) -> View:
    stopped = {switch.scope: switch for switch in _switches(found["stopped"])}
    return View(
        folded,
        tuple(stopped[scope] for scope in request.scopes if scope in stopped),
        frozenset(request.leases).difference(found["alive"]),
        found["at"],
    )


class _Stopped(Struct):
    """A row of switches."""

    scope: str
    stopped_by: str
    at: float
    reason: str


_decoder: Final = msgspec.json.Decoder(list[_Stopped])


def _switches(stopped: str | None) -> list[Switch]:
    rows = _decoder.decode(stopped) if stopped else ()
    return [Switch(row.scope, row.stopped_by, row.at, row.reason) for row in rows]


async def kill_locked(
    connection: Connection,
    asked: Deed,
    killed: Killed,
    reason: str,
    states: States,
    turn: Turn,
    landed: Landed,
) -> Killing:
    """Set the switch and end everything in scope. Called again, it finds what was committed."""
    locked, kill_id = Locked(states, turn), asked.id
    try:
        async with connection.transaction():
            found = await connection.fetchrow(
                SQL["lock_for_kill"], kill_id, killed.scope, killed.who.by, reason
            )
            assert found is not None
            (switch,) = _switches(found["stopped"])
            if found["known"]:
                records = await find_append(connection, kill_id)
            else:
                await locked.fold_what_can_be_read(connection, _heads(found))
                records = await _kill(connection, locked, kill_id, killed, found["at"])
            done = of_kill(asked, killing(switch, records))
            await insert_audit(connection, [done], found["at"])
    except BaseException:
        locked.undo()
        raise
    locked.forget_what_is_broken()
    landed(kill_id, records)
    return killing(switch, records)


async def insert_audit(connection: Connection, deeds: Sequence[Deed], now: float) -> None:
    """Write records of the audit; those that are there already are left as they are."""
    records = [body_of(done, now).decode() for done in deeds]
    await connection.execute(SQL["insert_audit"], [done.id for done in deeds], records)


async def _kill(
    connection: Connection, locked: Locked, kill_id: str, killed: Killed, now: float
) -> tuple[Recorded, ...]:
    """Write part by part: the server takes a transaction that is silent for long as dead."""
    entries = kill_entries(locked.folded.values(), killed)
    records: list[Recorded] = []
    for first in range(0, len(entries), STRETCH):
        part = entries[first : first + STRETCH]
        records += await locked.write(connection, Append(kill_id, part), now)
    return tuple(records)
