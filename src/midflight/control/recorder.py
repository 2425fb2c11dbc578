"""Records a request to a run or a thread, in one transaction with what follows from it.

A verb over a run acts on the runs below it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from midflight.control.ack import Ack
from midflight.control.audit_trail import asked_for, submitting
from midflight.engines.local_engine import Engine
from midflight.errors import JournalNotFound
from midflight.inputs import Ids
from midflight.journal import events as e
from midflight.journal.fold import fold
from midflight.journal.phases import ENDS, Cause, Mode, Phase
from midflight.journal.preview import NOT_AT_HAND, Below, Offer, preview, waits_for_step
from midflight.journal.record import Event, Recorded, Request
from midflight.journal.requests import Known, decide
from midflight.journal.state import Attempt, RunState
from midflight.journal.threads import front
from midflight.journal.threads import thread as t
from midflight.journal.threads.thread import ThreadState
from midflight.journal.transition_table import State
from midflight.runtime.threads.succession import (
    Submitting,
    Uncovered,
    begun_in,
    drafted,
    thread_of,
    transact,
    with_what_follows,
)
from midflight.stores.codec import check_readable
from midflight.stores.lookup import Journals, run_state, thread_state
from midflight.stores.protocol import (
    PAGE,
    RUN_PREFIX,
    THREAD_PREFIX,
    Committed,
    Draft,
    Query,
    Store,
    Submit,
    View,
    Widen,
)

Then = Callable[[View, t.ThreadState, front.Moves], dict[str, Any]]
"""Decides what follows from a request, in the same transaction; returns fields of its receipt."""


class Recorder:
    """Records what is asked of runs and threads, and has an engine drive what begins by it."""

    def __init__(self, store: Store, engine: Engine, ids: Ids) -> None:
        self.store = store
        self.engine = engine
        self.ids = ids

    def new_run(self) -> str:
        """Return an id for a run."""
        return RUN_PREFIX + self.ids()

    async def thread(self, thread: str) -> t.ThreadState:
        """Return a thread as it is now."""
        return await thread_state(self.store, thread)

    async def front(self, talk: t.ThreadState) -> str:
        """The run that a thread is about; the newest that nobody has spawned, if none is named."""
        if talk.front:
            return talk.front
        runs = await self.store.rows(Query(thread=talk.journal))
        return next((row.journal for row in runs if not row.parent), "")

    async def records(self, journal: str) -> list[Recorded]:
        """Return the whole journal."""
        found: list[Recorded] = []
        while page := await self.store.read(journal, after=len(found)):
            found += page
        return found

    async def ask(self, run: str, verb: str, request: Request, *, expect: int | None = None) -> Ack:
        """Record one verb over a run, and over its children where it covers them."""
        check_readable(run, request)
        if run.startswith(THREAD_PREFIX):
            raise JournalNotFound(run)
        submit = submitting(self.store, asked_for(verb, run, request))

        def decided(view: View) -> Draft:
            draft = cover(view, run, verb, request, expect=expect)
            if any(isinstance(x, e.RunFinished) for own in draft.events.values() for x in own):
                raise Uncovered(run)
            return draft

        try:
            if isinstance(request, e.ResumeRequested) or getattr(request, "resume", False):
                raise Uncovered(run)
            done = await submit(Submit(self.ids(), (run,), decided))
        except Uncovered:
            done = await self._ask_in_thread(submit, run, verb, request, expect)
        for journal in dict.fromkeys([run, *(record.journal for record in done.records)]):
            if journal.startswith(RUN_PREFIX):  # what follows may stand in the thread, too
                await self.engine.ensure(journal)
        accepted: Ack = done.note
        return accepted if done.records else await self._first_answer(accepted)

    async def _ask_in_thread(
        self, submit: Submitting, run: str, verb: str, request: Request, expect: int | None
    ) -> Committed:
        """Record a verb with which a run goes on, or after which its thread may go on.

        An operator's switch forbids that. A run that never began ends as soon as it is cancelled.
        """
        row = await self.store.row(run)
        new = self.new_run()

        def decided(agent: str, view: View) -> Draft:
            draft = cover(view, run, verb, request, expect=expect, thread=row.thread)
            return with_what_follows(view, draft, new=new, covered=agent)

        reads = (row.thread,) if isinstance(request, e.ResumeRequested) else ()
        return await transact(
            submit,
            self.ids,
            (run, *reads),
            decided,
            thread=row.thread,
            agent=row.agent,
            new=reads,
        )

    async def _first_answer(self, known: Ack) -> Ack:
        """Return the acknowledgement that the first request under this key got."""
        state = RunState(known.run)
        while state.head < known.position - 1:
            left = known.position - 1 - state.head
            fold(state, await self.store.read(known.run, state.head, min(left, PAGE)))
        (taken,) = await self.store.read(known.run, state.head, 1)
        nouns = tuple(attempt.label for attempt in state.open.values())
        said = says([state], taken.event)
        return msgspec.structs.replace(known, in_flight=nouns, status=said)

    async def tell(
        self,
        thread: str,
        verb: str,
        request: Request,
        then: Then | None = None,
        *,
        agent: str = "",
        read_at_once: bool = False,
    ) -> Ack:
        """Record a request over a thread, with what follows from it."""

        def decided(covered: str, view: View) -> Draft:
            talk = thread_of(view, thread)
            verdict = decide(talk, request, read_at_once=read_at_once)
            if isinstance(verdict, Known):
                return Draft(note=Ack(thread, verb, verdict.position))
            moves = front.Moves()
            moves.add(thread, *verdict)
            told = then(view, talk, moves) if then is not None else {}
            accepted = Ack(thread, verb, talk.head + 1, **told)
            return drafted(view, moves, covered=covered, note=accepted)

        if not thread.startswith(THREAD_PREFIX):
            raise JournalNotFound(thread)
        check_readable(thread, request)
        submit = submitting(self.store, asked_for(verb, thread, request))
        done = await transact(submit, self.ids, (thread,), decided, thread=thread, agent=agent)
        for run in begun_in(done):
            await self.engine.ensure(run)
        accepted: Ack = done.note
        return accepted


def bring_along(moves: front.Moves, draft: Draft) -> None:
    """Add the events that were decided about a run to those that are decided about its thread."""
    for journal, events in draft.events.items():
        moves.add(journal, *events)


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
        case e.RedirectRequested(resume=True):  # layer redirect-resumes-lets-go-of-runs
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
