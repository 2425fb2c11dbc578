"""What every verb is made of: its receipt, and how far it reaches down a tree of runs."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from midflight.kernel import events as e
from midflight.kernel.decide import Known, decide
from midflight.kernel.phases import Cause, Phase
from midflight.kernel.preview import Offer, preview
from midflight.kernel.record import Request
from midflight.kernel.state import Attempt, RunState
from midflight.kernel.thread import ThreadState
from midflight.stores.base import Draft, View, Widen


class Accepted(Struct, frozen=True):
    """A verb is on record: at which position, and what was in flight at that moment.

    A message is answered with ``status``: how the run it goes to stands, in one line. ``did`` says
    what it has brought about at once, and ``target`` in which run: ``started``, ``paused`` or
    ``redirected``.
    """

    run: str
    verb: str
    position: int
    in_flight: tuple[str, ...] = ()
    status: str = ""
    did: str = ""
    target: str = ""


def offers(state: RunState) -> dict[str, Offer]:
    """For each verb: whether it can be pressed now, and what it would do."""
    found = preview(state)
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
    covered = tree(run, view) if getattr(request, "scope", "") == "tree" else [run]
    talk = view.states.get(thread)
    events: dict[str, Any] = {}
    flying: list[Attempt] = []
    for journal in covered:
        state = view.states[journal]
        assert isinstance(state, RunState)
        flying += state.open.values() if state.alive else ()
        if journal != run and not _concerns(state, request):
            continue
        verdict = decide(
            state,
            request,
            expect=expect if journal == run else None,
            switches=view.switches,
            thread=talk if journal == run and isinstance(talk, ThreadState) else None,
        )
        if isinstance(verdict, Known):
            if journal == run:
                return Draft(note=Accepted(run, verb, verdict.position))
            continue
        events[journal] = verdict
    nouns = tuple(attempt.noun for attempt in flying)
    return Draft(events, Accepted(run, verb, view.states[run].head + 1, nouns))


def _concerns(child: RunState, request: Request) -> bool:
    """Whether what is asked of a parent is to be asked of this child."""
    match request:
        case e.ResumeRequested():
            return child.alive and Cause.USER in child.holds
        case e.CancelRequested(now=True):
            return child.alive and not child.cancel_now
        case _:
            return child.alive and child.phase is not Phase.CANCELLING


def tree(run: str, view: View) -> list[str]:
    """A run and its descendants; asks the store for those it has not locked yet.

    Also below a child that has ended: those whom it has left may still be at work.
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
