"""A fork: a new run on the same thread, from a place in another one.

It takes over what that run had found out by then and owns none of its effects. What the other run
did after that place is asked about, one by one: undo it, or keep it?
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from midflight.errors import InvalidRequest, JournalNotFound
from midflight.executor import values
from midflight.executor.caps import give_notice
from midflight.executor.details import attempt_in_words
from midflight.executor.doubt import choice_of
from midflight.executor.heard import Answered
from midflight.executor.line import spawn_of, tree_of
from midflight.kernel import events as e
from midflight.kernel.decide import Known, decide, scopes
from midflight.kernel.fold import advance
from midflight.kernel.phases import ENDS, Outcome, Phase
from midflight.kernel.record import Actor, Event, Recorded
from midflight.kernel.state import Attempt, RunState
from midflight.kernel.thread import FrontChanged, ThreadState
from midflight.stores.lookup import Journals, until
from midflight.stores.protocol import RUN_PREFIX, Draft, Submit, View, empty_state

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

FEW: Final = 8  # names in a line that a person reads
CHOICES: Final = {"undo": "Undo it", "keep": "Keep it"}


async def created_by_fork(
    journals: Journals, old: RunState, at: int, *, who: Actor, key: str = "", brief: str = ""
) -> e.RunCreated:
    """The first event of a fork of ``old`` at a position."""
    if not 1 < at <= old.head + 1:
        raise InvalidRequest(
            f"run {old.journal} has no place {at}; it goes from 2 to {old.head + 1}. "
            "Nothing was changed."
        )
    first = (await journals.read(old.journal, limit=1))[0].event
    assert isinstance(first, e.RunCreated)
    taken = _taken_over(await _state_at(journals, old.journal, at))
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


def _taken_over(then: RunState) -> list[int]:
    """Return the effects whose results a fork from there has; it would do all others anew."""
    return [p for p, effect in then.effects.items() if effect.outcome is Outcome.DONE]


async def _state_at(journals: Journals, run: str, at: int) -> RunState:
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
    raise InvalidRequest(f"no step {step!r} is on record, but {known}. Nothing was changed.")


async def fork_and_stop(
    driver: Driver, answer: Answered, question: int, place: tuple[str, int]
) -> None:
    """The answer to a stale question: the new run begins, and this one ends without undoing."""
    assert answer.who is not None
    run, key = driver.run, f"answer:{question}"
    state, (source, at) = driver.log.state, place
    old = state if source == run else await driver.journals.load(source)
    assert isinstance(old, RunState)
    new = f"{RUN_PREFIX}{values.digest(f'{run}:{question}'.encode(), values.RUN_BYTES)}"
    created = await created_by_fork(
        driver.journals, old, max(at, 2), who=answer.who, key=key, brief=state.brief
    )
    stop = e.CancelRequested(who=answer.who, key=key, now=True, scope="this")

    def decided(view: View) -> Draft:
        begun = decide(view.states[new], created, switches=view.switches)
        stopped = decide(view.states[run], stop)
        if isinstance(begun, Known) or isinstance(stopped, Known):
            return Draft()
        talk = view.states[thread]
        in_front = isinstance(talk, ThreadState) and talk.front == run
        fronted = {thread: (FrontChanged(run=new),)} if in_front else {}
        return Draft({new: begun, run: stopped, **fronted})

    covered, thread = scopes(state.agent, state.thread), state.thread
    both = (run, new, thread)
    await driver.log.submit(Submit(driver.ids(), both, decided, scopes=covered, new=(new, thread)))
    await driver.ensure(new)


async def take_over(
    journals: Journals, created: e.RunCreated, hear: Callable[[Recorded], None]
) -> str:
    """Have a fork hear of its past; names the run of its line that is not there any more."""
    try:
        async for record in _inherited(journals, created.fork_of, created.fork_at):
            hear(record)
    except JournalNotFound as gone:  # a purge spares it today, and did not always
        return gone.journal
    return ""


async def check_line(journals: Journals, old: RunState) -> None:
    """Refuse a fork of a run that has lost what it took over: it could only fail, too."""
    source = old.fork_of
    try:
        while source:
            first = (await journals.read(source, limit=1))[0].event
            source = first.fork_of if isinstance(first, e.RunCreated) else ""
    except JournalNotFound as gone:
        raise InvalidRequest(
            f"run {gone.journal}, from which run {old.journal} takes over what was done, is not in "
            "this store any more: it was purged, or a backup lacks it. A fork could only fail; "
            "start a new run. Nothing was changed."
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


# ── what the other run did after the place ───────────────────────────────────────────────────


async def settle_with_the_past(driver: Driver) -> None:
    """Before a fork's function is called: guards are taken over, later effects are asked about."""
    state = driver.log.state
    then = await _state_at(driver.journals, state.fork_of, state.fork_at)
    await _take_guards(driver, then)
    old = await driver.journals.load(state.fork_of)
    assert isinstance(old, RunState)
    taken = set(_taken_over(then))
    later = [a for p, a in old.effects.items() if a.can_be_undone and p not in taken]
    unwanted: dict[int, Actor] = {}
    did = [(effect, await _deed(driver, effect)) for effect in later]
    async with anyio.create_task_group() as asking:
        for effect, deed in did:
            if deed:
                asking.start_soon(_undo_or_keep, driver, effect, deed, unwanted)
    if unwanted:
        await _undo(driver, unwanted)


async def _take_guards(driver: Driver, then: RunState) -> None:
    """Rely on what the other run relied on by then, as that looked at the time."""

    def taken(state: RunState) -> list[Event]:
        missing = {k: v for k, v in then.guards.items() if k not in state.guards}
        if driver.lost or state.phase not in {Phase.RUNNING, Phase.PAUSING, Phase.PAUSED}:
            return []
        return [
            e.GuardSet(epoch=driver.epoch, name=name, kind=kind, fingerprint=look, why="inherited")
            for name, (kind, look) in missing.items()
        ]

    if not driver.replay.guards_inherited and await driver.log.decide(taken):
        driver.guards.look_again()


async def _deed(driver: Driver, effect: Attempt) -> str:
    """Return what was done, in words; nothing of a background run with nothing to be undone."""
    if not effect.child:
        return effect.label
    tree = await tree_of(driver, spawn_of(effect, driver.log.state.fork_of))
    return f"{effect.label} ({tree.words})" if tree.can_be_undone else ""


async def _undo_or_keep(
    driver: Driver, effect: Attempt, deed: str, unwanted: dict[int, Actor]
) -> None:
    step = f"inherited:{effect.position}"
    did = f"The run that this is a fork of went on and did: {deed}."
    text = f"{did} Undo it or keep it?"
    begun = (await driver.journals.read(driver.log.state.fork_of, effect.position - 1, 1))[0].event
    shown = attempt_in_words(begun) if isinstance(begun, e.AttemptStarted) else {}
    schema = choice_of(CHOICES) | shown
    answer = await driver.questions.ask(step, "inherited", text, schema=schema)
    if answer.who is not None and values.decode(answer.payload) == "undo":
        unwanted[effect.position] = answer.who


async def _undo(driver: Driver, unwanted: dict[int, Actor]) -> None:
    """Have it undone where it was done, newest first, before anything is done anew."""
    old = driver.log.state.fork_of
    await until(driver.journals, old, lambda state: state.phase in ENDS)

    def decided(view: View) -> Draft:
        state = view.states[old]
        assert isinstance(state, RunState)
        there = [p for p in sorted(unwanted) if state.effects[p].undone is None]
        able = [p for p in there if state.effects[p].can_be_undone and p not in state.undo_wanted]
        if not able:
            return Draft()
        key = f"fork:{driver.run}:{able[0]}"
        request = e.UndoRequested(who=unwanted[able[-1]], key=key, effects=tuple(able))
        verdict = decide(state, request)
        return Draft() if isinstance(verdict, Known) else Draft({old: verdict})

    await driver.journals.submit(Submit(driver.ids(), (old,), decided), unless=driver.is_stopped)
    await driver.ensure(old)
    state = await until(
        driver.journals, old, lambda state: not state.still_to_undo & unwanted.keys()
    )
    for effect in (state.effects[position] for position in sorted(unwanted)):
        if effect.undone is False:
            words = f"{effect.label} of run {old} could not be undone: {effect.undo_why}"
            await give_notice(driver, f"inherited:{effect.position}", words)
