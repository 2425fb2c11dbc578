"""From a decision to rows: the work of every store between taking the lock and writing.

``plan`` checks positions, lets the journal's rules judge each event, folds it, and encodes it. The
states that it is given are the store's own and end up at the new heads; if anything raises after
the first event was folded, the store must forget the states named in ``touched``.

Kills, purges and the records of both in the audit are worked out here too, for all stores alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from midflight.audit import DONE, NOTHING, Deed
from midflight.errors import JournalConflict, JournalNotFound
from midflight.journal.events import Killed
from midflight.journal.facts import kill
from midflight.journal.fold import advance
from midflight.journal.phases import Phase
from midflight.journal.record import Recorded
from midflight.journal.requests import Switch
from midflight.journal.state import RunState
from midflight.journal.transition_table import State, check
from midflight.stores.codec import encode
from midflight.stores.protocol import Append, Entry, Killing, Purged, Row, Submit, View, Widen


class Planned(Struct):
    """A decision as rows, in order: its events, the blobs taken out of them, and their bytes."""

    append_id: str
    requested: bool
    records: list[Recorded]
    events: list[tuple[Any, ...]]
    blobs: list[tuple[str, str, bytes]]
    journals: set[str]
    size: int = 0


def plan(
    append: Append,
    states: Mapping[str, State],
    now: float,
    touched: set[str],
    *,
    requested: bool = False,
    flag: Callable[[bool], int] = bool,
) -> Planned:
    """Check, fold and encode every event of a decision; ``flag`` makes a column of a truth.

    A row has: journal, position, time, version, whether it must be understood, checksum, the id of
    the append where that begins in the journal, whether it was requested, and the event as JSON.
    Raise JournalConflict for the first journal that has moved on.
    """
    for entry in append.entries:
        head = states[entry.journal].head
        if head != entry.expected:  # layer positions-compared
            raise JournalConflict(entry.journal, entry.expected, head)
    planned = Planned(append.id, requested, [], [], [], set())
    for entry in append.entries:
        journal, state = entry.journal, states[entry.journal]
        for event in entry.events:
            check(state, event)  # layer every-store-asks-table
            encoded = encode(journal, event)
            at = max(now, state.at)  # a clock may step back, a journal does not
            record = Recorded(journal, state.head + 1, at, encoded.event)
            touched.add(journal)
            advance(state, record)
            planned.records.append(record)
            planned.events.append(
                (
                    journal,
                    record.position,
                    at,
                    event.VERSION,
                    flag(event.MUST_UNDERSTAND),
                    encoded.checksum,
                    None if journal in planned.journals else append.id,
                    flag(requested),
                    encoded.body.decode(),
                )
            )
            planned.journals.add(journal)
            planned.size += len(encoded.body)
            if encoded.blob is not None:
                planned.blobs.append((journal, *encoded.blob))
                planned.size += len(encoded.blob[1])
    return planned


def draft(request: Submit, view: View) -> tuple[Append, object]:
    """Let the request decide on what is under lock, and make a decision of its answer."""
    for journal in request.journals:
        if view.states[journal].head == 0 and journal not in request.new:
            raise JournalNotFound(journal)
    answer = request.decide(view)
    entries = tuple(
        Entry(journal, view.states[journal].head, tuple(events))
        for journal, events in sorted(answer.events.items())
        if events
    )
    return Append(request.id, entries), answer.note


def draft_widening(
    request: Submit, view_of: Callable[[Iterable[str]], View]
) -> tuple[Append, object, View]:
    """As ``draft``, where the lock is on everything: show it more for as long as it asks."""
    journals = set(request.journals)
    while True:
        view = view_of(journals)
        try:
            return *draft(request, view), view
        except Widen as more:
            journals |= set(more.journals)


def kill_entries(states: Iterable[State], killed: Killed) -> tuple[Entry, ...]:
    """Return the entries that a kill appends, for those of the runs that it touches."""
    runs = [state for state in states if isinstance(state, RunState)]
    touched = ((run, kill(run, killed)) for run in runs)
    return tuple(Entry(run.journal, run.head, events) for run, events in touched if events)


def killing(switch: Switch, records: Iterable[Recorded]) -> Killing:
    """The acknowledgement of a kill, read off what it wrote."""
    killed: dict[str, tuple[int, ...]] = {}
    revoked: list[str] = []
    for record in records:
        if isinstance(record.event, Killed):
            killed[record.journal] = record.event.in_flight
        else:
            revoked.append(record.journal)
    return Killing(switch, killed, tuple(revoked))


def summary(state: State) -> Row:
    """The read model of a state."""
    if isinstance(state, RunState):
        return Row(
            journal=state.journal,
            kind="run",
            head=state.head,
            thread=state.thread,
            agent=state.agent,
            parent=state.parent,
            title=_column(state.title or state.brief[:120]),
            phase=state.phase,
            driver=state.driver,
            epoch=state.epoch,
            wants_driver=state.wants_driver,
            open_questions=len(state.questions),
            due_at=state.due_at,
            created_at=state.created_at,
            updated_at=state.at,
            steps=state.done,
            tokens=state.spent.tokens,
            usd=state.spent.usd,
        )
    return Row(
        journal=state.journal,
        kind="thread",
        head=state.head,
        thread=state.journal,
        title=_column(state.title),
        open_questions=len(state.todos),
        due_at=state.due_at,
        created_at=state.created_at,
        updated_at=state.at,
    )


def _column(text: str) -> str:
    """Return it as a column takes it: one of Postgres holds no NUL, the event itself does."""
    return text.replace("\0", "\u2400")


def stand_in(row: Row) -> RunState:
    """A run whose journal cannot be read, as far as its row tells.

    Enough for the kill switch, which must not fail for one broken journal. The effects in flight
    are not known then. Never to be kept: the rows after it are still broken.
    """
    state = RunState(row.journal, head=row.head, at=row.updated_at, created_at=row.created_at)
    state.agent, state.thread, state.parent, state.title = (
        row.agent,
        row.thread,
        row.parent,
        row.title,
    )
    state.phase, state.driver, state.epoch = Phase(row.phase), row.driver, row.epoch
    return state


def of_request(deed: Deed, records: Sequence[Recorded]) -> Deed:
    """Return a request as it was done: with its place in the journal that it is about."""
    places = [record.position for record in records if record.journal == deed.target]
    position = {"position": places[0]} if places else {}
    return replace(deed, outcome=DONE, about={**deed.about, **position})


def of_kill(deed: Deed, killing: Killing) -> Deed:
    """Return a kill: how many runs it has stopped, also if there were none."""
    stopped, held = len(killing.killed), len(killing.revoked)
    about = {**deed.about, "stopped": stopped, "held": held}
    return replace(deed, outcome=DONE if stopped or held else NOTHING, about=about)


def of_release(deed: Deed, *, released: bool) -> Deed:
    """Return a release, also of a scope that was not stopped."""
    return replace(deed, outcome=DONE if released else NOTHING)


def of_purge(deed: Deed, purged: Purged, ended_before: float) -> Deed:
    """Return a purge that has removed something."""
    removed = {"runs": purged.runs, "threads": purged.threads, "values": purged.blobs}
    return replace(deed, outcome=DONE, about={**removed, "ended_before": ended_before})


Need = tuple[str, str]
"""A run, and one that it needs: a fork and its source, or a run and one that it has begun."""


def not_needed(ended: Iterable[str], needs: Iterable[Need]) -> list[str]:
    """Return those of them that may go at once, given what the runs that are there need."""
    going, known = dict.fromkeys(ended), list(needs)
    while needed := {other for run, other in known if run not in going and other in going}:
        for run in needed:
            del going[run]  # layer purge-leaves-what-run-stays-forked
    return list(going)
