"""Records a request to a run or a thread, in one transaction with what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from midflight.control.ack import Ack
from midflight.control.audit_trail import asked_for, submitting
from midflight.control.descendants import cover, says
from midflight.engines.local_engine import Engine
from midflight.errors import JournalNotFound
from midflight.inputs import Ids
from midflight.journal import events as e
from midflight.journal.fold import fold
from midflight.journal.record import Recorded, Request
from midflight.journal.requests import Known, decide
from midflight.journal.state import RunState
from midflight.journal.threads import front
from midflight.journal.threads import thread as t
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
from midflight.stores.lookup import thread_state
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
