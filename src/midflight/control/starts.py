"""Starts runs: anew, as the next turn of a conversation, or from a step of one that has ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from midflight.agents import Agent
from midflight.control.ack import Ack, Turn
from midflight.control.audit_trail import asked_for, submitting
from midflight.control.messages import Messages
from midflight.control.recorder import Recorder
from midflight.errors import InvalidRequest
from midflight.journal import events as e
from midflight.journal.limits import validate
from midflight.journal.phases import ENDS, Cause, Mode, Role
from midflight.journal.record import Actor, Event, Limits, key_of
from midflight.journal.requests import Known, decide, scopes
from midflight.journal.state import RunState
from midflight.journal.threads.front import is_free
from midflight.journal.threads.thread import FrontChanged, MessageSent, ThreadCreated, ThreadState
from midflight.runtime.replay.lineage import check_line, created_by_fork, place_of
from midflight.runtime.threads.succession import finder, thread_of, to_front
from midflight.schemas import plain_data
from midflight.stores.lookup import run_state
from midflight.stores.protocol import RUN_PREFIX, THREAD_PREFIX, Draft, Query, Submit, View, Widen

BUSY: Final = "busy"
STARTED: Final = "started"
IDLE: Final = "idle"


class Taken(Struct, frozen=True):
    """The run a turn belongs to: it was ``started`` for it, is ``busy`` already, or there is none.

    ``new`` are the messages that the thread did not have yet, with their positions where they were
    written down here; where the run is ``busy``, the caller sends them afterwards.
    """

    run: str
    how: str
    new: tuple[MessageSent, ...] = ()
    positions: tuple[int, ...] = ()


def take(
    view: View,
    created: e.RunCreated,
    messages: Sequence[MessageSent],
    *,
    to_front: FrontChanged,
    beside: str,
) -> Draft:
    """Begin a run for what is unread, unless something is in front already.

    ``to_front`` names the new run; if that is there already it was begun by this same turn.
    ``beside`` is a run of the thread that may live, in case that the thread does not name it.
    """
    run, talk = to_front.run, view.states[created.thread]
    assert isinstance(talk, ThreadState)
    # layer message-known-by-sender-key-only
    new = tuple(message for message in messages if key_of(message) not in talk.keys)
    if view.states[run].head:
        return Draft(note=Taken(run, BUSY, new))
    if (busy := _busy(view, talk, beside)) is not None:
        _same_agent(busy, created)
        return Draft(note=Taken(busy.journal, BUSY, new))
    waiting = [m for m in talk.unread.values() if m.who.role is not Role.VIEWER]
    if not waiting and not new:
        return Draft(note=Taken("", IDLE))
    opening: tuple[Event, ...] = () if talk.head else (ThreadCreated(who=created.who),)
    before = talk.head + len(opening)
    positions = tuple(range(before + 1, before + 1 + len(new)))
    taken = (*(message.position for message in waiting), *positions)
    brief = "\n".join([*(m.text for m in waiting), *(m.text for m in new)])
    begun = replace(created, brief=brief, messages=taken, thread_at=talk.head)
    verdict = decide(view.states[run], begun, switches=view.switches)
    assert not isinstance(verdict, Known)
    read = e.MessagesTaken(run=run, upto=max(taken), messages=taken)
    said = (*opening, *new, to_front, read)
    return Draft({run: verdict, talk.journal: said}, Taken(run, STARTED, new, positions))


def _busy(view: View, talk: ThreadState, front: str) -> RunState | None:
    """The run that answers in this thread now: one that is parked does not."""
    named = [run for run in dict.fromkeys((talk.front, front)) if run]
    if missing := [run for run in named if run not in view.states]:
        raise Widen(*missing)
    for state in (view.states[run] for run in named):
        if isinstance(state, RunState) and state.alive and Cause.PARKED not in state.holds:
            return state
    return None


def _same_agent(busy: RunState, created: e.RunCreated) -> None:
    if busy.agent != created.agent:
        raise InvalidRequest(
            f"{created.thread} is busy with run {busy.journal} of agent {busy.agent}, so "
            f"{created.agent} cannot answer there now: wait until that run has ended, or use "
            "another thread. Nothing was changed."
        )


_ID: Final = re.compile(r"[0-9a-f]{28}")  # as ``new_id`` makes them


class Starts:
    """Makes runs: anew, for a turn of a conversation, or from a step of one that has ended."""

    def __init__(self, record: Recorder, messages: Messages) -> None:
        self.record = record
        self.messages = messages

    async def start(
        self,
        agent: Agent | str,
        brief: str,
        *,
        thread: str,
        input: Any,  # noqa: A002 - what people call it
        limits: Limits | None,
        title: str,
        who: Actor,
        key: str,
    ) -> str:
        """Start a run and give its id. Repeated under the same key it gives the same run."""
        if limits is not None:
            validate(limits)
        if thread and not thread.startswith(THREAD_PREFIX):
            raise InvalidRequest(
                f"{thread!r} is not the id of a thread, which begins with {THREAD_PREFIX}. Nothing "
                "was changed."
            )
        name = agent.name if isinstance(agent, Agent) else agent
        if not isinstance(name, str):
            raise InvalidRequest(
                f"{name!r:.80} is neither an agent nor the name of one. Nothing was changed."
            )
        known = agent if isinstance(agent, Agent) else self.record.engine.agent(name)
        run = run_named(who, key) if key else self.record.new_run()
        on = thread or THREAD_PREFIX + run.removeprefix(RUN_PREFIX)
        declared = known.limits if known else Limits()
        created = e.RunCreated(
            who=who,
            key=key,
            agent=name,
            thread=on,
            brief=brief,
            title=title,
            input=Raw(plain_data("the input", input)),
            mode=Mode(known.mode) if known else Mode.IMMEDIATE,
            limits=limits.over(Limits(repeats=declared.repeats)) if limits else declared,
            converses=known is not None and known.converses,
            asides=known is not None and known.aside is not None,
        )

        def decided(view: View) -> Draft:
            talk = thread_of(view, on)
            begun = replace(created, thread_at=talk.head)
            verdict = decide(view.states[run], begun, switches=view.switches)
            if isinstance(verdict, Known):
                return Draft()
            opening = () if talk.head else (ThreadCreated(who=who, title=title),)
            return Draft({run: verdict, on: (*opening, *_fronted(view, talk, run, known))})

        await submitting(self.record.store, asked_for("start", run, created))(
            Submit(self.record.ids(), (run, on), decided, scopes=scopes(name, on), new=(run, on))
        )
        await self.record.engine.ensure(run)
        return run

    async def converse(
        self,
        thread: str,
        agent: Agent,
        messages: Iterable[tuple[str, str]],
        *,
        who: Actor,
        key: str,
    ) -> Turn:
        """Have a run in front hear what somebody says in a conversation, or start one."""
        run = f"{RUN_PREFIX}{_digest('converse', who.by, thread, key)}"
        said = [MessageSent(who=who, key=name, text=text) for name, text in messages]
        created = e.RunCreated(
            who=who,
            key=key,
            agent=agent.name,
            thread=thread,
            brief="",
            mode=Mode(agent.mode),
            limits=agent.limits,
            converses=agent.converses,
            asides=agent.aside is not None,
        )
        rows = await self.record.store.rows(Query(thread=thread))
        living = (row.journal for row in rows if not row.parent and row.phase not in ENDS)
        front = next(living, "")

        def decided(view: View) -> Draft:
            return take(view, created, said, to_front=to_front(run, agent), beside=front)

        done = await submitting(self.record.store, asked_for("converse", run, created))(
            Submit(
                self.record.ids(),
                tuple(filter(None, (run, thread, front))),
                decided,
                scopes=scopes(agent.name, thread),
                new=(run, thread),
            )
        )
        taken: Taken = done.note
        if taken.how == STARTED:
            await self.record.engine.ensure(run)
            heard = tuple(Ack(thread, "send", at) for at in taken.positions)
            return Turn(run, heard, started=True)
        sent = [await self.messages.send(thread, m.text, who=who, key=m.key) for m in taken.new]
        return Turn(taken.run, tuple(sent))

    async def fork(self, run: str, at: int | str, *, brief: str, who: Actor, key: str) -> str:
        """Begin a run that takes over what another one had recorded before a step."""
        old = await run_state(self.record.store, run)
        known = self.record.engine.agent(old.agent)
        if old.alive:
            raise InvalidRequest(
                f"run {run} is {old.phase}; only a run that has ended can be forked. Cancel it, or "
                "redirect it. Nothing was changed."
            )
        await check_line(self.record.store, old)  # layer run-has-lost-what-took-over
        place = at if isinstance(at, int) else place_of(await self.record.records(run), at)
        created = await created_by_fork(
            self.record.store, old, place, who=who, key=key, brief=brief
        )
        new = _fork_named(who, key) if key else self.record.new_run()
        on = old.thread

        def decided(view: View) -> Draft:
            there = view.states[new]
            assert isinstance(there, RunState)
            if there.fork_of == run and there.fork_at == place:
                return Draft()  # asked before; what the old run has undone since does not matter
            verdict = decide(there, created, switches=view.switches)
            if isinstance(verdict, Known):
                return Draft()
            talk = thread_of(view, on)
            fronted = _fronted(view, talk, new, known) if talk.head else ()
            return Draft({new: verdict, on: fronted})

        covered = scopes(old.agent, on)
        # layer forks-run-holds-against-purge
        await submitting(self.record.store, asked_for("fork", new, created))(
            Submit(self.record.ids(), (run, new, on), decided, scopes=covered, new=(new, on))
        )  # with the run, or it could be purged before its fork is there
        await self.record.engine.ensure(new)
        return new


def run_named(who: Actor, key: str) -> str:
    """The id of the run that a caller starts under a key: the same whenever they repeat it.

    A key that is an id of ours begins with the time; so does its run's id, which keeps its place
    among the others. No two callers get the same id: where a name holds a hyphen it could not be
    told from the key, so both are given by their digest.
    """
    given: object = key
    if not isinstance(given, str):
        raise InvalidRequest(f"key={given!r:.60} is not a text. Nothing was changed.")
    if not _ID.fullmatch(key):
        plain = "-" not in who.by
        return f"{RUN_PREFIX}{f'{who.by}-{key}' if plain else _digest('start', who.by, key)}"
    whose = blake2b(f"{who.by} {key}".encode(), digest_size=8).hexdigest()
    return f"{RUN_PREFIX}{key[:12]}{whose}"


def _fork_named(who: Actor, key: str) -> str:
    """Return the id of a fork that is made under a key; see ``run_named``."""
    whose = _digest("fork", who.by, key)
    return f"{RUN_PREFIX}{key[:12]}{whose[:16]}" if _ID.fullmatch(key) else f"{RUN_PREFIX}{whose}"


def _digest(*parts: str) -> str:
    """Return a name for all the parts, in which none runs into the next."""
    return blake2b(msgspec.json.encode(parts), digest_size=14).hexdigest()


def _fronted(
    view: View, talk: ThreadState, run: str, agent: Agent | None
) -> tuple[FrontChanged, ...]:
    """Bring a run that is started to the front if that is free; else it works beside it."""
    return (to_front(run, agent),) if is_free(talk, finder(view)) else ()
