"""Effects on record that a step may repeat: of the run itself, of the line of its forks, and below.

A fork has another journal than the run before it, so what that run has done is read there, once and
only if the fork comes to an effect of its own. A background run has a journal of its own, too: its
effects are read there, and those of the runs below it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from midflight.errors import JournalNotFound
from midflight.executor.heard import Record
from midflight.executor.replay import Replay
from midflight.executor.values import DIGEST_BYTES
from midflight.kernel import events as e
from midflight.kernel.fold import advance
from midflight.kernel.identities import KEYED, turn
from midflight.kernel.phases import Outcome
from midflight.kernel.record import NULL, Earlier, Recorded
from midflight.kernel.state import Attempt, RunState
from midflight.stores.protocol import empty_state

if TYPE_CHECKING:
    from midflight.executor.drive import Driver
    from midflight.executor.heard import Begun
    from midflight.executor.steps import Step

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

    def is_same(self, step: Step) -> bool:
        """Return whether a step would do this again: the same tool with the same arguments.

        A person may have edited the arguments since, so what the function has asked for counts too.
        """
        given = bytes(self.input) == bytes(step.given) or _asked(self.step) == step.asked
        return self.tool == step.tool.name and given

    def is_surely_same(self, step: Step) -> bool:
        """Return whether nobody can have made another call look like this one.

        Short digests of earlier releases do not show that: then a person looks at both.
        """
        full = len(step.asked) == 2 * DIGEST_BYTES
        return full or bytes(self.input) == bytes(step.given)


def _asked(identity: str) -> str:
    """The digest of the arguments in an identity; empty if a user chose it."""
    what, _ = turn(identity)
    return "" if what.startswith(KEYED) else what.rpartition(":")[2].partition("@")[0]


def own(driver: Driver, step: str) -> Iterator[Done]:
    """Yield the effects of a step of this run, since its last snapshot or left over from before."""
    replay, state = driver.replay, driver.log.state
    since = 0 if step in replay.entry.carried else replay.scope
    for begun in replay.attempts_of(step):
        effect = state.effects.get(begun.position)
        if effect is not None and begun.position > since and _happened(state, effect):
            record = replay.outcomes.get(begun.position)
            yield _done(begun, effect, record, run="")


def own_spawns(driver: Driver, steps: Iterable[str]) -> list[Done]:
    """Return the spawns among steps of this run; as with ``own``, those that are not undone."""
    replay, state = driver.replay, driver.log.state
    begun = {effect.child: effect for effect in state.effects.values() if effect.child}
    found = (
        (step, begun.get(replay.spawned[step].child)) for step in steps if step in replay.spawned
    )
    return [
        spawn_of(effect, run="")
        for step, effect in found
        if effect is not None
        and effect.position > (0 if step in replay.entry.carried else replay.scope)
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


async def done_in_line(driver: Driver) -> list[Done]:
    """Return the effects of runs before a fork that it has not asked for; oldest first.

    Their spawns are among them.
    """
    if not driver.log.state.fork_of:
        return []
    if driver.line is None:
        driver.line = await _read_line(driver)
    left = driver.replay.left_over
    return [found for found in driver.line if not found.inherited or found.step in left]


async def _read_line(driver: Driver) -> list[Done]:
    state = driver.log.state
    found: list[Done] = []
    run, cut = state.fork_of, state.fork_at
    while run:
        there, effects, snapshot = await _read_run(driver, run, cut)
        spawns = [effect for effect in there.effects.values() if effect.child]
        effects += [
            replace(spawn_of(effect, run), inherited=effect.position < cut)
            for effect in spawns
            if effect.position > snapshot and not effect.undone
        ]
        found = [*effects, *found]
        if snapshot:  # what came before it is in the state that the fork began from
            break
        run, cut = there.fork_of, there.fork_at
    return found


async def _read_run(driver: Driver, run: str, cut: int) -> tuple[RunState, list[Done], int]:
    """One run of the line as it stands now; ``cut`` is where the next one was forked from it."""
    state, heard, snapshot = empty_state(run), Replay(), 0
    assert isinstance(state, RunState)
    async for found in _records(driver, run):
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


# ── background runs ──────────────────────────────────────────────────────────────────────────


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


async def tree_of(driver: Driver, spawn: Done) -> Tree:
    """Read what the background run of a spawn has done, and what the runs below it have."""
    effects: list[Done] = []
    alive = can_be_undone = False
    waiting = [spawn.child]
    try:
        created = (await driver.journals.read(spawn.child, limit=1))[0].event
        while waiting:
            state, found = await _read_once(driver, waiting.pop(0))
            effects += found
            alive |= state.alive
            can_be_undone |= any(x.can_be_undone and not x.child for x in state.effects.values())
            waiting += state.children
    except JournalNotFound:
        return Tree([])
    assert isinstance(created, e.RunCreated)
    return Tree(effects, alive, can_be_undone, created)


async def done_below(driver: Driver, spawns: Iterable[Done]) -> list[Done]:
    """Return what the background runs of these spawns have done."""
    return [
        replace(one, step=spawn.step, label=f"{one.label} ({spawn.label})", child=spawn.child)
        for spawn in spawns
        for one in (await tree_of(driver, spawn)).effects
    ]


async def _read_once(driver: Driver, run: str) -> tuple[RunState, list[Done]]:
    """Read a run as it stands now, and not again until it has changed."""
    head = (await driver.journals.row(run)).head
    known = driver.below.get(run)
    if known is None or known[0].head != head:
        state, effects, _ = await _read_run(driver, run, cut=0)
        driver.below[run] = known = (state, effects)
    return known


async def _records(driver: Driver, run: str) -> AsyncIterator[Recorded]:
    after = 0
    while page := await driver.journals.read(run, after=after):
        for found in page:
            yield found
        after = page[-1].position
