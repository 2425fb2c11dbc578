"""Starting runs: anew, as the next turn of a conversation, or from a step of one that has ended."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from midflight.agents import Agent
from midflight.control import turns
from midflight.control.ack import Ack, Turn
from midflight.control.audit_trail import asked_for, submitting
from midflight.control.messages import Messages
from midflight.control.recorder import Recorder
from midflight.errors import InvalidRequest
from midflight.kernel import events as e
from midflight.kernel.decide import Known, decide, scopes
from midflight.kernel.front import is_free
from midflight.kernel.limits import validate
from midflight.kernel.phases import ENDS, Mode
from midflight.kernel.record import Actor, Limits
from midflight.kernel.state import RunState
from midflight.kernel.thread import FrontChanged, MessageSent, ThreadCreated, ThreadState
from midflight.runtime.replay.lineage import check_line, created_by_fork, place_of
from midflight.runtime.threads.succession import finder, thread_of, to_front
from midflight.schemas import plain_data
from midflight.stores.lookup import run_state
from midflight.stores.protocol import RUN_PREFIX, THREAD_PREFIX, Draft, Query, Submit, View

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
            raise InvalidRequest(f"{thread!r} is no thread: its id begins with {THREAD_PREFIX}.")
        name = agent.name if isinstance(agent, Agent) else agent
        if not isinstance(name, str):
            raise InvalidRequest(f"{name!r:.80} is no agent, and no name of one. Nothing changed.")
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
            return turns.take(view, created, said, to_front=to_front(run, agent), beside=front)

        done = await submitting(self.record.store, asked_for("converse", run, created))(
            Submit(
                self.record.ids(),
                tuple(filter(None, (run, thread, front))),
                decided,
                scopes=scopes(agent.name, thread),
                new=(run, thread),
            )
        )
        taken: turns.Taken = done.note
        if taken.how == turns.STARTED:
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
        await check_line(self.record.store, old)
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
