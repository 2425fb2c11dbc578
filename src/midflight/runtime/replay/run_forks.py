"""A fork begins: a new run on the same thread, from a place in another one.

It takes over the results of that run up to the place, and owns no effect of it. The person is asked
about each effect of the other run after that place: undo it, or keep it?
"""

from __future__ import annotations

from typing import Final

import anyio

from midflight.journal import events as e
from midflight.journal.phases import ENDS, Phase
from midflight.journal.record import Actor, Event
from midflight.journal.requests import Known, decide, scopes
from midflight.journal.state import Attempt, RunState
from midflight.journal.threads.thread import FrontChanged, ThreadState
from midflight.runtime import values
from midflight.runtime.host import Host
from midflight.runtime.questions import attempt_in_words, choice_of
from midflight.runtime.replay.lineage import created_by_fork, spawn_of, state_at, taken_over
from midflight.runtime.replay.step_records import Answered
from midflight.stores.lookup import until
from midflight.stores.protocol import RUN_PREFIX, Draft, Submit, View

CHOICES: Final = {"undo": "Undo it", "keep": "Keep it"}


async def fork_and_stop(
    host: Host, answer: Answered, question: int, place: tuple[str, int]
) -> None:
    """The answer to a stale question: the new run begins, and this one ends without undoing."""
    assert answer.who is not None
    run, key = host.journal.run, f"answer:{question}"
    state, (source, at) = host.journal.state, place
    old = state if source == run else await host.journal.client.load(source)
    assert isinstance(old, RunState)
    new = f"{RUN_PREFIX}{values.digest(f'{run}:{question}'.encode(), values.RUN_BYTES)}"
    created = await created_by_fork(
        host.journal.client, old, max(at, 2), who=answer.who, key=key, brief=state.brief
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
    await host.journal.submit(Submit(host.ids(), both, decided, scopes=covered, new=(new, thread)))
    await host.ensure(new)


# ── what the other run did after the place ───────────────────────────────────────────────────


async def settle_with_the_past(host: Host) -> None:
    """Before a fork's function is called: guards are taken over, later effects are asked about."""
    state = host.journal.state
    then = await state_at(host.journal.client, state.fork_of, state.fork_at)
    await _take_guards(host, then)
    old = await host.journal.client.load(state.fork_of)
    assert isinstance(old, RunState)
    taken = set(taken_over(then))
    later = [a for p, a in old.effects.items() if a.can_be_undone and p not in taken]
    unwanted: dict[int, Actor] = {}
    did = [(effect, await _deed(host, effect)) for effect in later]
    async with anyio.create_task_group() as asking:
        for effect, deed in did:
            if deed:
                asking.start_soon(_undo_or_keep, host, effect, deed, unwanted)
    if unwanted:
        await _undo(host, unwanted)


async def _take_guards(host: Host, then: RunState) -> None:
    """Rely on what the other run relied on by then, as that looked at the time."""

    def taken(state: RunState) -> list[Event]:
        missing = {k: v for k, v in then.guards.items() if k not in state.guards}
        if host.journal.lost or state.phase not in {Phase.RUNNING, Phase.PAUSING, Phase.PAUSED}:
            return []
        return [
            e.GuardSet(
                epoch=host.journal.epoch, name=name, kind=kind, fingerprint=look, why="inherited"
            )
            for name, (kind, look) in missing.items()
        ]

    if not host.history.guards_inherited and await host.journal.decide(taken):
        host.gate.look_again()


async def _deed(host: Host, effect: Attempt) -> str:
    """Return what was done, in words; nothing of a background run with nothing to be undone."""
    if not effect.child:
        return effect.label
    tree = await host.lineage.tree_of(spawn_of(effect, host.journal.state.fork_of))
    return f"{effect.label} ({tree.words})" if tree.can_be_undone else ""


async def _undo_or_keep(host: Host, effect: Attempt, deed: str, unwanted: dict[int, Actor]) -> None:
    step = f"inherited:{effect.position}"
    did = f"The run that this is a fork of went on and did: {deed}."
    text = f"{did} Undo it or keep it?"
    begun = (await host.journal.client.read(host.journal.state.fork_of, effect.position - 1, 1))[
        0
    ].event
    shown = attempt_in_words(begun) if isinstance(begun, e.AttemptStarted) else {}
    schema = choice_of(CHOICES) | shown
    answer = await host.questions.ask(step, "inherited", text, schema=schema)
    if answer.who is not None and values.decode(answer.payload) == "undo":
        unwanted[effect.position] = answer.who


async def _undo(host: Host, unwanted: dict[int, Actor]) -> None:
    """Have it undone where it was done, newest first, before anything is done anew."""
    old = host.journal.state.fork_of
    await until(host.journal.client, old, lambda state: state.phase in ENDS)

    def decided(view: View) -> Draft:
        state = view.states[old]
        assert isinstance(state, RunState)
        there = [p for p in sorted(unwanted) if state.effects[p].undone is None]
        able = [p for p in there if state.effects[p].can_be_undone and p not in state.undo_wanted]
        if not able:
            return Draft()
        key = f"fork:{host.journal.run}:{able[0]}"
        request = e.UndoRequested(who=unwanted[able[-1]], key=key, effects=tuple(able))
        verdict = decide(state, request)
        return Draft() if isinstance(verdict, Known) else Draft({old: verdict})

    await host.journal.client.submit(
        Submit(host.ids(), (old,), decided), unless=host.signals.is_stopped
    )
    await host.ensure(old)
    state = await until(
        host.journal.client, old, lambda state: not state.still_to_undo & unwanted.keys()
    )
    for effect in (state.effects[position] for position in sorted(unwanted)):
        if effect.undone is False:
            words = f"{effect.label} of run {old} could not be undone: {effect.undo_why}"
            await host.journal.give_notice(f"inherited:{effect.position}", words)
