"""A fork: a new run on the same thread, from a place in another one.

It takes over what that run had found out by then and owns none of its effects. What the other run
did after that place is asked about, one by one: undo it, or keep it?
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from midflight.errors import InvalidRequest
from midflight.executor import values
from midflight.executor.doubt import choice_of
from midflight.executor.replay import Answered
from midflight.kernel import events as e
from midflight.kernel.decide import Known, decide, scopes
from midflight.kernel.fold import advance
from midflight.kernel.phases import ENDS, Outcome, Phase
from midflight.kernel.record import Event, Recorded, Who
from midflight.kernel.state import Attempt, RunState
from midflight.stores.base import RUN_PREFIX, Draft, Store, Submit, View, empty_state

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

CHOICES: Final = {"undo": "Undo it", "keep": "Keep it"}


async def created_by_fork(
    store: Store, old: RunState, at: int, *, who: Who, key: str = "", brief: str = ""
) -> e.RunCreated:
    """The first event of a fork of ``old`` at a position."""
    if not 1 < at <= old.head + 1:
        raise InvalidRequest(
            f"run {old.journal} has no place {at}; it goes from 2 to {old.head + 1}. "
            "Nothing was changed."
        )
    first = (await store.read(old.journal, limit=1))[0].event
    assert isinstance(first, e.RunCreated)
    made = [effect.noun for effect in _settled(old) if effect.position < at]
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
        inherited=tuple(made),
    )


def place_of(records: list[Recorded], step: str) -> int:
    """Where a step was first begun or recorded, by its name or identity."""
    for record in records:
        event = record.event
        if isinstance(event, e.AttemptStarted | e.StepSettled) and step in (event.name, event.step):
            return record.position
    raise InvalidRequest(f"no step {step!r} is on record. Nothing was changed.")


async def fork_and_stop(driver: Driver, answer: Answered, question: int, at: int) -> None:
    """The answer to a stale question: the new run begins, and this one ends without undoing."""
    assert answer.who is not None
    run, key = driver.run, f"answer:{question}"
    state = driver.log.state
    new = f"{RUN_PREFIX}{values.digest(f'{run}:{question}'.encode())}"
    created = await created_by_fork(driver.store, state, max(at, 2), who=answer.who, key=key)
    stop = e.CancelRequested(who=answer.who, key=key, now=True, scope="this")

    def decided(view: View) -> Draft:
        begun = decide(view.states[new], created, switches=view.switches)
        stopped = decide(view.states[run], stop)
        if isinstance(begun, Known) or isinstance(stopped, Known):
            return Draft()
        return Draft({new: begun, run: stopped})

    covered = scopes(state.agent, state.thread)
    await driver.store.submit(Submit(driver.ids(), (run, new), decided, scopes=covered, new=(new,)))
    await driver.log.catch_up()
    await driver.ensure(new)


async def inherited(store: Store, run: str, at: int) -> AsyncIterator[Recorded]:
    """What a fork takes over: everything before its place."""
    after = 0
    while after < at - 1:
        page = await store.read(run, after=after)
        if not page:
            return
        for record in page:
            if record.position < at:
                yield record
        after = page[-1].position


async def settle_with_the_past(driver: Driver) -> None:
    """Before a fork's function is called: guards are taken over, later effects are asked about."""
    state = driver.log.state
    old = await driver.store.load(state.fork_of)
    assert isinstance(old, RunState)
    await _take_guards(driver)
    later = [effect for effect in _settled(old) if effect.position >= state.fork_at]
    async with anyio.create_task_group() as asking:
        for effect in [effect for effect in later if effect.can_be_undone and not effect.child]:
            asking.start_soon(_undo_or_keep, driver, effect)


def _settled(state: RunState) -> list[Attempt]:
    happened = {Outcome.DONE, Outcome.UNKNOWN}
    return [a for a in state.effects.values() if a.outcome in happened and not a.undone]


async def _take_guards(driver: Driver) -> None:
    """What the other run relied on by then, this one relies on too."""
    state = driver.log.state
    then = empty_state(state.fork_of)
    assert isinstance(then, RunState)
    async for record in inherited(driver.store, state.fork_of, state.fork_at):
        advance(then, record)

    def taken(state: RunState) -> list[Event]:
        missing = {k: v for k, v in then.guards.items() if k not in state.guards}
        if driver.lost or state.phase is not Phase.RUNNING:
            return []
        return [
            e.GuardSet(epoch=driver.epoch, name=name, kind=kind, fingerprint=look, why="inherited")
            for name, (kind, look) in missing.items()
        ]

    if not driver.replay.guards_inherited:
        await driver.log.decide(taken)


async def _undo_or_keep(driver: Driver, effect: Attempt) -> None:
    old = driver.log.state.fork_of
    step = f"inherited:{effect.position}"
    text = f"{effect.noun} was done after the place where this run begins. Undo it or keep it?"
    answer = await driver.ask(step, "inherited", text, schema=choice_of(CHOICES))
    if answer.who is None or values.decode(answer.payload) != "undo":
        return
    await _when_ended(driver, old)
    request = e.UndoRequested(who=answer.who, key=f"fork:{step}", effects=(effect.position,))

    def decided(view: View) -> Draft:
        state = view.states[old]
        assert isinstance(state, RunState)
        if not state.effects[effect.position].can_be_undone:
            return Draft()
        verdict = decide(state, request)
        return Draft() if isinstance(verdict, Known) else Draft({old: verdict})

    await driver.store.submit(Submit(driver.ids(), (old,), decided))
    await driver.ensure(old)


async def _when_ended(driver: Driver, run: str) -> None:
    """The run that was forked is on its way to its end; only then can it be undone."""
    state = await driver.store.load(run)
    assert isinstance(state, RunState)
    if state.phase in ENDS:
        return
    async with driver.store.watch({run: state.head}) as news:
        async for record in news:
            advance(state, record)
            if state.phase in ENDS:
                return
