"""Requests and kills under lock: one transaction that locks, folds, decides and writes.

Lock order, everywhere: turns of this process, switches, leases, heads, values; each in the order of
their ids. What the transaction sees after it has locked stays true until it commits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import anyio
import asyncpg
import msgspec
from msgspec import Struct

from midflight.errors import CorruptEntry
from midflight.kernel.decide import Switch, kill
from midflight.kernel.events import Killed
from midflight.kernel.fold import advance
from midflight.kernel.machine import State
from midflight.kernel.record import Recorded
from midflight.kernel.state import RunState
from midflight.stores.base import (
    PAGE,
    Append,
    Committed,
    Entry,
    Killing,
    Submit,
    View,
    empty_state,
)
from midflight.stores.codec import decode
from midflight.stores.plan import Planned, draft, plan
from midflight.stores.postgres_server import SQL, Connection
from midflight.stores.postgres_states import States, Turn
from midflight.stores.postgres_writer import Job, append_batch

TAILS: Final = 100  # journals whose tails are read in one round trip
NOWHERE: Final[Mapping[str, int]] = {}
STRETCH: Final = 100  # runs a kill plans before it gives the loop back: about 5 ms


Fetch = Callable[..., Awaitable[list[Any]]]


class Moved(Exception):
    """Another process began a journal that this one wanted to begin: look again."""


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
        behind += [state for state in some if state.head - heads[state.journal] == share]


async def find_append(
    connection: Connection, append_id: str, expected: Mapping[str, int] = NOWHERE
) -> tuple[Recorded, ...]:
    """What was committed under an id: a request anywhere, a decision after these positions."""
    places = list(expected), list(expected.values())
    rows = await connection.fetch(SQL["appended"], append_id, *places)
    return tuple(decode(*row) for row in rows)


class Locked:
    """Some journals under lock: their states, folded up to the locked heads."""

    def __init__(self, states: States, turn: Turn) -> None:
        self._states = states
        self._turn = turn
        self._touched: set[str] = set()
        self.folded: dict[str, State] = {}

    async def fold(self, connection: Connection, heads: Mapping[str, int]) -> None:
        """Bring the states up to these heads. A journal out of our turn is folded apart."""
        for journal in heads:
            state = self._states.get(journal) if journal in self._turn.journals else None
            if state is None or state.head > heads[journal]:
                state = empty_state(journal)
            self.folded[journal] = state
        behind = [state for journal, state in self.folded.items() if state.head < heads[journal]]
        await catch_up(connection.fetch, behind)
        for state in behind:
            if state.head != heads[state.journal]:
                raise CorruptEntry(state.journal, state.head + 1, "it is missing")
            if state.journal in self._turn.journals:
                self._states.put(state)

    def plan(self, decision: Append, now: float) -> Planned:
        """Check, fold and encode; from here on the states are ahead of the rows."""
        return plan(decision, self.folded, now, self._touched)

    async def write(self, connection: Connection, planned: Planned, now: float) -> Job:
        """Write what was planned, in the transaction that holds the locks."""
        heads = {journal: state.head for journal, state in self.folded.items()}
        for record in reversed(planned.records):
            heads[record.journal] = record.position - 1
        job = Job(planned, self.folded, heads, now=now, turn=self._turn, requested=True)
        try:
            _, failed = await append_batch(connection, [job])
        except asyncpg.UniqueViolationError:
            raise Moved from None
        if failed:
            raise Moved
        return job

    def undo(self) -> None:
        """The transaction did not commit: forget what was folded in it."""
        self._states.forget(self._touched)


async def submit_locked(
    connection: Connection,
    request: Submit,
    states: States,
    turn: Turn,
    landed: Callable[[Job], None],
) -> Committed:
    """Decide a request under lock. Called again, it finds what an earlier call committed."""
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
            if found["known"]:
                return Committed(await find_append(connection, request.id), repeated=True)
            heads = dict.fromkeys(turn.journals, 0)
            heads.update(zip(found["journals_found"] or (), found["heads"] or (), strict=True))
            await locked.fold(connection, heads)
            decision, note = draft(request, _view(request, locked.folded, found))
            if not decision.entries:
                return Committed((), note)
            planned = locked.plan(decision, found["at"])
            job = await locked.write(connection, planned, found["at"])
    except BaseException:
        locked.undo()
        raise
    landed(job)
    return Committed(job.records, note)


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
    kill_id: str,
    killed: Killed,
    reason: str,
    states: States,
    turn: Turn,
    landed: Callable[[Job], None],
) -> Killing:
    """Set the switch and end everything in scope. Called again, it finds what was committed."""
    locked = Locked(states, turn)
    try:
        async with connection.transaction():
            found = await connection.fetchrow(
                SQL["lock_for_kill"], kill_id, killed.scope, killed.who.by, reason
            )
            assert found is not None
            (switch,) = _switches(found["stopped"])
            if found["known"]:
                return _killing(switch, await find_append(connection, kill_id))
            heads = dict(zip(found["journals_found"] or (), found["heads"] or (), strict=True))
            await locked.fold(connection, heads)
            planned = await _plan_kill(locked, kill_id, killed, found["at"])
            if not planned.records:
                return _killing(switch, ())
            job = await locked.write(connection, planned, found["at"])
    except BaseException:
        locked.undo()
        raise
    landed(job)
    return _killing(switch, job.records)


async def _plan_kill(locked: Locked, kill_id: str, killed: Killed, now: float) -> Planned:
    planned = Planned(kill_id, [], [])
    entries = [
        Entry(state.journal, state.head, kill(state, killed))
        for state in locked.folded.values()
        if isinstance(state, RunState)
    ]
    for first in range(0, len(entries), STRETCH):
        part = locked.plan(Append(kill_id, tuple(entries[first : first + STRETCH])), now)
        planned.records += part.records
        planned.encoded += part.encoded
        await anyio.lowlevel.checkpoint()
    return planned


def _killing(switch: Switch, records: Iterable[Recorded]) -> Killing:
    killed: dict[str, tuple[int, ...]] = {}
    revoked: list[str] = []
    for record in records:
        if isinstance(record.event, Killed):
            killed[record.journal] = record.event.in_flight
        else:
            revoked.append(record.journal)
    return Killing(switch, killed, tuple(revoked))
