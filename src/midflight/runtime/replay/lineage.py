"""The line of runs that a fork comes from: what it takes over, and effects that it may repeat.

A fork has another journal than the run before it, so what that run has done is read there, once and
only if the fork comes to an effect of its own. A background run has a journal of its own, too: its
effects are read there, and those of the runs below it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from midflight.errors import InvalidRequest, JournalNotFound
from midflight.journal import events as e
from midflight.journal.fold import advance
from midflight.journal.phases import Outcome
from midflight.journal.record import NULL, Actor, Earlier, Recorded
from midflight.journal.state import KEYED, Attempt, RunState, turn
from midflight.runtime.in_flight import OpenStep
from midflight.runtime.replay.cursor import Cursor
from midflight.runtime.replay.step_records import Begun, Record
from midflight.runtime.run_journal import RunJournal
from midflight.runtime.values import DIGEST_BYTES
from midflight.stores.lookup import Journals
from midflight.stores.protocol import empty_state

FEW: Final = 8  # names in a line that a person reads
NAMED: Final = 6  # effects of a background run that a question names
MAY_HAVE_HAPPENED: Final = frozenset({None, Outcome.DONE, Outcome.UNKNOWN})


class Done(Struct, frozen=True):
    """An effect that happened, or may have, and was not undone.

    ``child`` is the background run that has done it. A spawn is an effect without a tool.
    """

    place: Earlier
    step: str
    name: str
    label: str
    tool: str
    input: Raw
    outcome: Outcome
    record: Record | None
    can_be_undone: bool = False
    inherited: bool = False  # its result is on record in the fork, too
    child: str = ""

    def is_same(self, step: OpenStep) -> bool:
        """Return whether a step would do this again: the same tool with the same arguments.

        A person may have edited the arguments since, so what the function has asked for counts too.
        """
        given = bytes(self.input) == bytes(step.given) or _asked(self.step) == step.asked
        return self.tool == step.tool.name and given

    def is_surely_same(self, step: OpenStep) -> bool:
        """Return whether nobody can have made another call look like this one.

        Short digests of earlier releases do not show that: then a person looks at both.
        """
        full = len(step.asked) == 2 * DIGEST_BYTES
        return full or bytes(self.input) == bytes(step.given)


def _asked(identity: str) -> str:
    """The digest of the arguments in an identity; empty if a user chose it."""
    what, _ = turn(identity)
    return "" if what.startswith(KEYED) else what.rpartition(":")[2].partition("@")[0]


def own(journal: RunJournal, step: str) -> Iterator[Done]:
    """Yield the effects of a step of this run, since its last snapshot or left over from before."""
    history, state = journal.history, journal.state
    since = 0 if step in history.entry.carried else history.scope
    for begun in history.attempts_of(step):
        effect = state.effects.get(begun.position)
        if effect is not None and begun.position > since and _happened(state, effect):
            record = history.outcomes.get(begun.position)
            yield _done(begun, effect, record, run="")


def own_spawns(journal: RunJournal, steps: Iterable[str]) -> list[Done]:
    """Return the spawns among steps of this run; as with ``own``, those that are not undone."""
    history, state = journal.history, journal.state
    begun = {effect.child: effect for effect in state.effects.values() if effect.child}
    found = (
        (step, begun.get(history.spawned[step].child)) for step in steps if step in history.spawned
    )
    return [
        spawn_of(effect, run="")
        for step, effect in found
        if effect is not None
        and effect.position > (0 if step in history.entry.carried else history.scope)
        and not effect.undone
    ]


def spawn_of(effect: Attempt, run: str) -> Done:
    """Return the effect that a spawn is; ``run`` is empty for one of this run."""
    return Done(
        Earlier(effect.position, run),
        effect.step,
        effect.name,
        effect.label,
        tool="",
        input=NULL,
        outcome=Outcome.DONE,
        record=None,
        can_be_undone=effect.can_be_undone and not run,
        child=effect.child,
    )


def _happened(state: RunState, effect: Attempt) -> bool:
    there = effect.outcome in MAY_HAVE_HAPPENED and not effect.undone
    return there and not state.repeated(effect)


def _done(begun: Begun, effect: Attempt, record: Record | None, run: str) -> Done:
    return Done(
        Earlier(begun.position, run),
        effect.step,
        effect.name,
        effect.label,
        begun.event.tool,
        begun.event.input,
        effect.outcome or Outcome.UNKNOWN,  # in flight: it may still happen
        record,
        can_be_undone=effect.can_be_undone and not run,
    )


class Tree(Struct, frozen=True):
    """A background run and the runs below it: what they have done, and whether one still works.

    ``created`` is how the background run began; None if it was purged.
    """

    effects: list[Done]
    alive: bool = False
    can_be_undone: bool = False
    created: e.RunCreated | None = None

    @property
    def counts(self) -> bool:
        """True if another one like it may do again what it did or still does."""
        return bool(self.effects) or self.alive or self.created is None

    @property
    def words(self) -> str:
        """The effects in words: the first of them, and the number of the others."""
        names = [
            one.label if one.outcome is Outcome.DONE else f"{one.label} (perhaps)"
            for one in self.effects
        ]
        more = len(names) - NAMED
        return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


class Lineage:
    """The line of one run. ``gone`` is a missing run, without which a fork can only be ended."""

    __slots__ = ("_below", "_done", "_journal", "_repeating", "gone")

    def __init__(self, journal: RunJournal) -> None:
        self._journal = journal
        self._done: list[Done] | None = None  # effects of the runs before a fork, once read
        self._below: dict[str, tuple[RunState, list[Done]]] = {}  # background runs that were read
        self._repeating: set[Earlier] = set()  # effects that a step at work may take over
        self.gone = ""

    async def take_over(self, created: e.RunCreated) -> None:
        """Have a fork hear of its past, as far as the runs of its line are there."""
        journal = self._journal
        try:
            async for record in _inherited(journal.client, created.fork_of, created.fork_at):
                journal.history.hear(record)
        except JournalNotFound as gone:  # a purge spares it today, and did not always
            self.gone = gone.journal

    async def done(self) -> list[Done]:
        """Return the effects of runs before a fork that it has not asked for; oldest first.

        Their spawns are among them.
        """
        if not self._journal.state.fork_of:
            return []
        if self._done is None:
            self._done = await _read_line(self._journal)
        left = self._journal.history.left_over
        return [found for found in self._done if not found.inherited or found.step in left]

    async def tree_of(self, spawn: Done) -> Tree:
        """Read what the background run of a spawn has done, and what the runs below it have."""
        effects: list[Done] = []
        alive = can_be_undone = False
        waiting = [spawn.child]
        try:
            created = (await self._journal.client.read(spawn.child, limit=1))[0].event
            while waiting:
                state, found = await self._read_once(waiting.pop(0))
                effects += found
                alive |= state.alive
                undoable = (x.can_be_undone and not x.child for x in state.effects.values())
                can_be_undone |= any(undoable)
                waiting += state.children
        except JournalNotFound:
            return Tree([])
        assert isinstance(created, e.RunCreated)
        return Tree(effects, alive, can_be_undone, created)

    async def done_below(self, spawns: Iterable[Done]) -> list[Done]:
        """Return what the background runs of these spawns have done."""
        return [
            replace(one, step=spawn.step, label=f"{one.label} ({spawn.label})", child=spawn.child)
            for spawn in spawns
            for one in (await self.tree_of(spawn)).effects
        ]

    async def _read_once(self, run: str) -> tuple[RunState, list[Done]]:
        """Read a run as it stands now, and not again until it has changed."""
        client = self._journal.client
        head = (await client.row(run)).head
        known = self._below.get(run)
        if known is None or known[0].head != head:
            state, effects, _ = await _read_run(client, run, cut=0)
            self._below[run] = known = (state, effects)
        return known

    @property
    def repeating(self) -> frozenset[Earlier]:
        """The effects that a step at work may take over."""
        return frozenset(self._repeating)

    @contextmanager
    def repeats(self, place: Earlier) -> Iterator[None]:
        """While inside, no other step may take this effect over."""
        self._repeating.add(place)
        try:
            yield
        finally:
            self._repeating.discard(place)


async def _read_line(journal: RunJournal) -> list[Done]:
    state = journal.state
    found: list[Done] = []
    run, cut = state.fork_of, state.fork_at
    while run:
        there, effects, snapshot = await _read_run(journal.client, run, cut)
        effects += [
            replace(spawn_of(effect, run), inherited=effect.position < cut)
            for effect in there.effects.values()
            if effect.child and effect.position > snapshot and not effect.undone
        ]
        found = [*effects, *found]
        if snapshot:  # what came before it is in the state that the fork began from
            break
        run, cut = there.fork_of, there.fork_at
    return found


async def _read_run(journals: Journals, run: str, cut: int) -> tuple[RunState, list[Done], int]:
    """One run of the line as it stands now; ``cut`` is where the next one was forked from it."""
    state, heard, snapshot = empty_state(run), Cursor(), 0
    assert isinstance(state, RunState)
    async for found in _records(journals, run):
        advance(state, found)
        if isinstance(found.event, e.StateSaved):
            snapshot = found.position if found.position < cut else snapshot
        else:
            heard.hear(found)
    effects = [
        _done(heard.begun(effect.position), effect, heard.outcomes.get(effect.position), run)
        for effect in state.effects.values()
        if effect.position > snapshot and not effect.child and _happened(state, effect)
    ]

    def is_inherited(one: Done) -> bool:
        return one.record is not None and one.record.position < cut

    marked = [replace(one, inherited=True) if is_inherited(one) else one for one in effects]
    return state, marked, snapshot


async def _records(journals: Journals, run: str) -> AsyncIterator[Recorded]:
    after = 0
    while page := await journals.read(run, after=after):
        for found in page:
            yield found
        after = page[-1].position


# ── a fork and its past ──────────────────────────────────────────────────────────────────────


async def created_by_fork(
    journals: Journals, old: RunState, at: int, *, who: Actor, key: str = "", brief: str = ""
) -> e.RunCreated:
    """The first event of a fork of ``old`` at a position."""
    if not 1 < at <= old.head + 1:
        raise InvalidRequest(
            f"run {old.journal} cannot be forked at position {at}: choose one from 2 to "
            f"{old.head + 1}. Nothing was changed."
        )
    first = (await journals.read(old.journal, limit=1))[0].event
    assert isinstance(first, e.RunCreated)
    taken = taken_over(await state_at(journals, old.journal, at))
    made = [old.effects[position].label for position in taken if not old.effects[position].undone]
    return msgspec.structs.replace(
        first,
        who=who,
        key=key,
        brief=brief or old.brief,
        limits=old.limits,
        profile=old.profile,
        parent="",
        fork_of=old.journal,
        fork_at=at,
        inherited=(*old.inherited, *made),
    )


def taken_over(then: RunState) -> list[int]:
    """Return the effects whose results a fork from there has; it would do all others anew."""
    return [p for p, effect in then.effects.items() if effect.outcome is Outcome.DONE]


async def state_at(journals: Journals, run: str, at: int) -> RunState:
    """A run as it was before a position."""
    then = empty_state(run)
    assert isinstance(then, RunState)
    async for record in _before(journals, run, at):
        advance(then, record)
    return then


def place_of(records: list[Recorded], step: str) -> int:
    """Return where a step was first begun or recorded, by its name or identity."""
    for record in records:
        event = record.event
        if isinstance(event, e.AttemptStarted | e.StepSettled) and step in (event.name, event.step):
            return record.position
    events = (record.event for record in records)
    names = {found.name for found in events if isinstance(found, e.AttemptStarted | e.StepSettled)}
    known = ", ".join(sorted(names)[:FEW]) or "none"
    raise InvalidRequest(
        f"the run has no step {step!r} on record; its steps are: {known}. Nothing was changed."
    )


async def check_line(journals: Journals, old: RunState) -> None:
    """Refuse a fork of a run that has lost what it took over: it could only fail, too."""
    source = old.fork_of
    try:
        while source:
            first = (await journals.read(source, limit=1))[0].event
            source = first.fork_of if isinstance(first, e.RunCreated) else ""
    except JournalNotFound as gone:
        raise InvalidRequest(
            f"run {old.journal} cannot be forked: it builds on work of run {gone.journal}, which "
            "is not in this store any more, because it was purged, or the store comes from a "
            "backup without it. Start a new run instead. Nothing was changed."
        ) from gone


async def _inherited(journals: Journals, run: str, at: int) -> AsyncIterator[Recorded]:
    """Everything before a fork's place, from the first run of its line on."""
    if not run:
        return
    first = (await journals.read(run, limit=1))[0].event
    if isinstance(first, e.RunCreated):
        async for record in _inherited(journals, first.fork_of, first.fork_at):
            yield record
    async for record in _before(journals, run, at):
        yield record


async def _before(journals: Journals, run: str, at: int) -> AsyncIterator[Recorded]:
    after = 0
    while after < at - 1:
        page = await journals.read(run, after=after)
        if not page:
            return
        for record in page:
            if record.position < at:
                yield record
        after = page[-1].position
