"""The runs below a run: a verb over the run acts on them as well."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from midflight.control.ack import Ack
from midflight.errors import JournalNotFound
from midflight.journal import events as e
from midflight.journal.phases import ENDS, Cause, Mode, Phase
from midflight.journal.preview import NOT_AT_HAND, Below, Offer, preview, waits_for_step
from midflight.journal.record import Event, Request
from midflight.journal.requests import Known, decide
from midflight.journal.state import Attempt, RunState
from midflight.journal.threads.thread import ThreadState
from midflight.journal.transition_table import State
from midflight.stores.lookup import Journals, run_state
from midflight.stores.protocol import Draft, View, Widen

BELOW_MAX: Final = 100  # runs that are read for the words on one button


def offers(state: RunState, below: Below = NOT_AT_HAND) -> dict[str, Offer]:
    """Tell for each verb whether it can be pressed, and what it would do, also to those below."""
    found = preview(state, below)
    if state.holds == {Cause.PARKED}:
        back = "Comes to the front, what is there now is parked in its turn"
        found["resume"] = replace(found["resume"], enabled=True, consequence=back)
    return found


def cover(
    view: View,
    run: str,
    verb: str,
    request: Request,
    *,
    expect: int | None = None,
    thread: str = "",
) -> Draft:
    """Decide one verb over a run, and over its children where it covers them."""
    below = _for_those_below(view.states[run], request)
    alone = below is None or not getattr(view.states[run], "children", None)
    covered = [run] if alone else tree(run, view)
    talk = view.states.get(thread)
    events: dict[str, Any] = {}
    flying: list[Attempt] = []
    for journal in covered:
        state = view.states[journal]
        assert isinstance(state, RunState)
        flying += state.open.values() if state.phase not in ENDS else ()
        asked = request if journal == run or below is None else below
        if journal != run and not _concerns(state, asked):
            continue
        verdict = decide(
            state,
            asked,
            expect=expect if journal == run else None,
            switches=view.switches,
            thread=talk if journal == run and isinstance(talk, ThreadState) else None,
        )
        if isinstance(verdict, Known):
            if journal == run:
                return Draft(note=Ack(run, verb, verdict.position))
            continue
        events[journal] = verdict
    nouns = tuple(attempt.label for attempt in flying)
    said = says([view.states[journal] for journal in events], events[run][0])
    return Draft(events, Ack(run, verb, view.states[run].head + 1, nouns, said))


def says(states: Iterable[State], taken: Event) -> str:
    """Return the words of a verb's acknowledgement about these runs, besides what is in flight."""
    then = _AFTER_STEP.get(type(taken), "")
    if isinstance(taken, e.ResumeRequested):
        return taken.diff
    if not then or (isinstance(taken, e.CancelRequested) and taken.now):
        return ""
    runs = [state for state in states if isinstance(state, RunState)]
    slow = any(run.mode is Mode.BOUNDARY for run in runs)
    waits = waits_for_step(runs) if slow else ""
    return f"{waits}, then {then}" if waits else ""


_AFTER_STEP: Final[dict[type[Event], str]] = {
    e.PauseRequested: "holds",
    e.TakenOver: "holds for you",
    e.RedirectRequested: "changes course",
    e.CancelRequested: "stops",
}
"""The words for what follows where a run hears of a verb between steps only."""


def _for_those_below(state: State, request: Request) -> Request | None:
    """Return the request for a run's children when this one is made of the run; None for none.

    A redirect is not for the children. But if it ends a pause, that pause had held the children as
    well, and a parent that waits for such a child would wait for ever.
    """
    match request:
        case e.RedirectRequested(resume=True):
            held = isinstance(state, RunState) and Cause.USER in state.holds
            return e.ResumeRequested(who=request.who, key=request.key) if held else None
        case _:
            return request if getattr(request, "scope", "") == "tree" else None


def _concerns(child: RunState, request: Request) -> bool:
    """Return whether a request to a parent is to be made of this child as well."""
    match request:
        case e.ResumeRequested():
            return child.alive and Cause.USER in child.holds
        case e.CancelRequested(now=True):
            return child.alive and not child.cancel_now
        case _:
            return child.alive and child.phase is not Phase.CANCELLING


def tree(run: str, view: View) -> list[str]:
    """Return a run and its descendants; raise ``Widen`` for those that are not locked yet.

    Runs below a child that has ended are included: they may still be at work.
    """
    found, unseen = [run], [run]
    while unseen:
        state = view.states[unseen.pop()]
        assert isinstance(state, RunState)
        children = list(state.children)
        missing = [child for child in children if child not in view.states]
        if missing:
            raise Widen(*missing)
        there = [child for child in children if view.states[child].head]  # the rest are purged
        found += there
        unseen += there
    return found


def below(run: str, view: View) -> Below:
    """Return the states of all runs below a run, under lock."""
    found = {journal: view.states[journal] for journal in tree(run, view)[1:]}
    return {journal: state for journal, state in found.items() if isinstance(state, RunState)}


async def runs_below(journals: Journals, state: RunState) -> Below:
    """Read the runs that a run has begun, and theirs; not all of them, if there are very many."""
    found: dict[str, RunState] = {}
    unseen = list(state.children)
    while unseen and len(found) < BELOW_MAX:
        with suppress(JournalNotFound):  # it has ended long ago, and was purged
            below = await run_state(journals, unseen.pop())
            found[below.journal] = below
            unseen += below.children
    return found
