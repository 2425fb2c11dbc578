"""A run and its thread, decided together: how a run ends, and what comes next in its thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final

from midflight.agents import Agent
from midflight.conversation import REPORT
from midflight.errors import JournalNotFound
from midflight.inputs import Ids
from midflight.journal import events as e
from midflight.journal.facts import record_all
from midflight.journal.phases import Mode
from midflight.journal.record import Event, Fact
from midflight.journal.requests import Known, decide, scopes
from midflight.journal.state import RunState
from midflight.journal.threads.front import Find, Moves, after_end, go_on, is_spoken_to
from midflight.journal.threads.thread import FrontChanged, Said, ThreadState
from midflight.runtime import values
from midflight.runtime.foreign import text
from midflight.runtime.host import Host
from midflight.runtime.journal_client import JournalClient
from midflight.stores.lookup import end_of, result_of
from midflight.stores.protocol import RUN_PREFIX, Committed, Draft, Submit, View, Widen

REPORT_MAX: Final = 500  # characters of a result that are shown in the thread
REPORT_READ_MAX: Final = 16_000  # and that are read by the run which has begun it
ASIDE_MAX: Final = 100_000  # characters of an answer to a side question
CUT: Final = "…"


Submitting = Callable[[Submit], Awaitable[Committed]]


def finder(view: View) -> Find:
    """Look a run up under lock; the store locks those that it has not locked yet."""

    def find(run: str) -> RunState | None:
        if run not in view.states:
            raise Widen(run)
        state = view.states[run]
        assert isinstance(state, RunState)
        return state if state.head else None

    return find


def to_front(run: str, agent: Agent | None) -> FrontChanged:
    """A run comes to the front; if its agent converses, that is the thread's host from now on."""
    if agent is None or not agent.converses:
        return FrontChanged(run=run)
    return FrontChanged(
        run=run,
        agent=agent.name,
        mode=Mode(agent.mode),
        limits=agent.limits,
        asides=agent.aside is not None,
    )


def thread_of(view: View, thread: str) -> ThreadState:
    """The thread, as of this moment under lock."""
    talk = view.states[thread]
    assert isinstance(talk, ThreadState)
    return talk


class Uncovered(Exception):
    """Raised where an agent would go on and its kill switch was not checked."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        super().__init__(agent)


def drafted(view: View, moves: Moves, *, covered: str, note: Any = None) -> Draft:
    """Return what the store is to append, if all that must be seen for it was seen under lock.

    That is every journal, and the switches of every agent of which something begins to move.
    """
    missing = [journal for journal in moves.events if journal not in view.states]
    if missing:
        raise Widen(*missing)
    for journal, events in moves.events.items():
        for event in events:
            if isinstance(event, e.RunCreated) and event.agent != covered and not event.aside_of:
                raise Uncovered(event.agent)  # layer switch-of-agent-would-go
            if isinstance(event, e.HoldLifted):
                run = view.states[journal]
                if isinstance(run, RunState) and run.agent != covered:
                    raise Uncovered(run.agent)
    return Draft(moves.events, note)


async def transact(
    submit: Submitting,
    ids: Ids,
    journals: tuple[str, ...],
    decided: Callable[[str, View], Draft],
    *,
    thread: str,
    agent: str = "",
    new: tuple[str, ...] = (),
) -> Committed:
    """Submit what may let a thread go on, under the kill switches that could forbid it.

    ``decided`` is told the agent whose switches are looked at.
    """
    while True:
        covered, deciding = scopes(agent, thread), partial(decided, agent)
        try:
            return await submit(Submit(ids(), journals, deciding, scopes=covered, new=new))
        except Uncovered as found:
            agent = found.agent


def begun_in(done: Committed) -> Iterable[str]:
    """The runs that a transaction has touched: somebody must drive them."""
    runs = (r.journal for r in done.records if r.journal.startswith(RUN_PREFIX))
    return dict.fromkeys(runs)


async def end(
    host: Host, ending: Callable[[RunState], list[Event]], said: Said | None = None
) -> bool:
    """End a run, and begin in the same transaction what comes next in its thread.

    What is known of the run and not on record yet comes before its end, and what it has ``said``
    before what comes next.
    """
    journal = host.journal
    run, thread = journal.run, journal.state.thread
    new = RUN_PREFIX + host.ids()

    def decided(kept: tuple[Fact, ...], agent: str, view: View) -> Draft:
        mine, talk = view.states[run], thread_of(view, thread)
        assert isinstance(mine, RunState)
        events = ending(mine) if mine.epoch == journal.epoch else []
        finished = next((x for x in events if isinstance(x, e.RunFinished)), None)
        if finished is None:
            return Draft()
        if kept:
            events = [*record_all(mine, kept), *events]  # layer outcome-on-record-before-end
        if not talk.head:
            return Draft({run: events})
        moves = Moves()
        moves.add(run, *events)
        if said is not None:
            moves.add(thread, said)
        if (words := _last_words(mine, talk, finished)) is not None:
            moves.add(thread, words)
        stopped = bool(view.switches)
        # layer end-of-run-one-decision
        after_end(moves, talk, finder(view), new=new, ended=run, stopped=stopped)
        return drafted(view, moves, covered=agent)

    async with journal.taking_along() as kept:
        done = await transact(
            partial(journal.submit, along=kept),
            host.ids,
            (run, thread),
            partial(decided, kept),
            thread=thread,
            agent=journal.state.agent,
            new=(thread,),
        )
    for begun in begun_in(done):
        if begun != run:
            await host.ensure(begun)
    return not journal.state.alive


async def cancel_itself(host: Host, request: e.CancelRequested) -> None:
    """Cancel the run, because somebody has said so to the run itself."""
    run = host.journal.run

    def decided(view: View) -> Draft:
        verdict = decide(view.states[run], request)
        return Draft() if isinstance(verdict, Known) else Draft({run: verdict})

    await host.journal.submit(Submit(host.ids(), (run,), decided), host.signals.is_stopped)


def with_what_follows(view: View, draft: Draft, *, new: str, covered: str) -> Draft:
    """Add what comes next in the threads of runs that a verb has ended by itself.

    A run that never began is over as soon as it is cancelled, and no driver ends it.
    """
    ended = {
        journal: finished
        for journal, events in draft.events.items()
        for finished in events
        if isinstance(finished, e.RunFinished)
    }
    moves = Moves()
    for journal, events in draft.events.items():
        moves.add(journal, *events)
    goes_on: set[str] = set()  # threads: each goes on once, whatever has ended there
    for journal in ended:
        state = finder(view)(journal)
        assert state is not None
        if state.thread not in view.states:
            raise Widen(state.thread)
        talk = thread_of(view, state.thread)
        if not talk.head:
            continue
        if (words := _last_words(state, talk, ended[journal])) is not None:
            moves.add(talk.journal, words)
        stopped = bool(view.switches) or talk.journal in goes_on
        goes_on.add(talk.journal)
        after_end(moves, talk, finder(view), new=new, ended=journal, stopped=stopped)
    return drafted(view, moves, covered=covered, note=draft.note) if ended else draft


async def look_after(submit: Submitting, ids: Ids, thread: str) -> Iterable[str]:
    """Do what a crash or a kill has left undone in a thread; gives the runs to be driven.

    ``submit`` is the caller's own way to the store. This function does not wait for a store that
    is away: a sweep looks again later, and a person hears of it.
    """
    new = RUN_PREFIX + ids()

    def decided(agent: str, view: View) -> Draft:
        moves, talk, find = Moves(), thread_of(view, thread), finder(view)
        if view.switches:
            return Draft()
        go_on(moves, talk, find, new=new)
        front = find(talk.front) if talk.front else None
        waits = front is not None and is_spoken_to(talk, front)
        return drafted(view, moves, covered=agent, note=talk.front if waits else "")

    done = await transact(submit, ids, (thread,), decided, thread=thread)
    return [*begun_in(done), *filter(None, [done.note])]


def _last_words(run: RunState, talk: ThreadState, ended: e.RunFinished) -> Said | None:
    """A run beside the front reports its end; an answer to a side question is an answer."""
    if run.aside_of:
        result = values.decode(bytes(ended.result))
        answer = result if isinstance(result, str) else ""
        said = f"I could not answer that: {ended.error}" if ended.error else answer
        if not said:
            return None
        words = text(said, ASIDE_MAX)
        return Said(run=run.journal, text=words, kind="aside", untrusted=run.untrusted)
    beside = talk.front not in {"", run.journal}
    if not (run.parent or beside):
        return None
    told = _report(run.brief, ended, bytes(ended.result), REPORT_MAX)
    return Said(run=run.journal, text=told, kind=REPORT, to=run.parent, untrusted=run.untrusted)


async def read_report(journals: JournalClient, said: Said) -> str:
    """A report for the run that waits for it: its end may be what matters."""
    if not said.text.endswith(CUT):
        return said.text
    try:
        state = await journals.load(said.run)
    except JournalNotFound:  # it has ended long ago, and was purged
        return said.text
    assert isinstance(state, RunState)
    ended = await end_of(journals, state)
    return _report(state.brief, ended, await result_of(journals, ended), REPORT_READ_MAX)


def _report(brief: str, ended: e.RunFinished, given: bytes, most: int) -> str:
    """Say how a run ended and what came of it, not too long; the whole of it is in its journal."""
    result = values.decode(given)
    shown = result if isinstance(result, str) else given.decode()
    told = ended.error or ("" if result is None else shown)
    cut = told if len(told) <= most else f"{told[:most]}{CUT}"
    named = text(brief, REPORT_READ_MAX)
    return f"{ended.outcome.capitalize()}: {named}." + (f" {cut}" if cut else "")
