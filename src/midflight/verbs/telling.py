"""Records a request to a thread, in one transaction with what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypedDict

from midflight.audit.flood import Flood
from midflight.engines.base import Engine
from midflight.errors import InvalidRequest, JournalNotFound
from midflight.inputs import Ids
from midflight.kernel import front
from midflight.kernel import thread as t
from midflight.kernel.decide import Known, decide
from midflight.kernel.record import Actor, Request
from midflight.runtime.threads.succession import begun_in, drafted, thread_of, transact
from midflight.stores.codec import check_readable
from midflight.stores.lookup import thread_state
from midflight.stores.protocol import THREAD_PREFIX, Draft, Query, Store, View
from midflight.verbs.auditing import asked_for, submitting
from midflight.verbs.covering import Ack

Then = Callable[[View, t.ThreadState, front.Moves], dict[str, Any]]
"""Decides what follows from a request, in the same transaction; returns fields of its receipt."""


class By(TypedDict, total=False):
    """Arguments of every verb: the caller, and a key under which the verb can be repeated."""

    who: Actor | None
    key: str


class RunBy(By, total=False):
    """Arguments of a verb over a run; ``expect`` is the position that the caller decided on.

    The verb is refused as outdated if that position does not hold any more.
    """

    expect: int | None


TAKEN: Final = tuple(By.__annotations__)
TAKEN_OF_RUNS: Final = tuple(RunBy.__annotations__)


def refuse_unknown(unknown: Iterable[str], taken: Iterable[str]) -> None:
    """Refuse a slip of the pen in words that name nothing private."""
    for name in unknown:
        raise TypeError(
            f"there is no argument {name}=; besides its own this verb takes "
            f"{', '.join(f'{one}=' for one in taken)}. Nothing was changed."
        )


class Telling:
    """The part of ``Control`` that records what is asked of threads."""

    store: Store
    _engine: Engine
    _who: Actor
    _ids: Ids
    _floods: Flood

    def _asks(self, who: Actor | None) -> Actor:
        """Return the caller, or this control's own; refuse a bare name, which has no role."""
        if who is not None and not isinstance(who, Actor):
            raise InvalidRequest(f"who={who!r:.80} is no Who: write Who(name). Nothing changed.")
        return who or self._who

    def _by(self, kind: type[Request], *, who: Actor | None = None, **asked: Any) -> Any:
        refuse_unknown([name for name in asked if name not in kind.__struct_fields__], TAKEN)
        return kind(who=self._asks(who), **asked)

    async def _thread(self, thread: str) -> t.ThreadState:
        return await thread_state(self.store, thread)

    async def _tell(
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
        done = await transact(submit, self._ids, (thread,), decided, thread=thread, agent=agent)
        for run in begun_in(done):
            await self._engine.ensure(run)
        accepted: Ack = done.note
        return accepted

    async def _front(self, talk: t.ThreadState) -> str:
        """The run that a thread is about; the newest that nobody has spawned, if none is named."""
        if talk.front:
            return talk.front
        runs = await self.store.rows(Query(thread=talk.journal))
        return next((row.journal for row in runs if not row.parent), "")


def bring_along(moves: front.Moves, draft: Draft) -> None:
    """Add the events that were decided about a run to those that are decided about its thread."""
    for journal, events in draft.events.items():
        moves.add(journal, *events)
