"""Verbs that need nothing of a thread's course: of one run, beside it, and of a whole scope.

Most are one request in the journal of a run. A question aside is answered in the thread, and the
run is not touched. The operator's switch stops all runs in a scope at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import msgspec
from msgspec import Raw

from midflight.control.ack import Ack
from midflight.control.any_control import scope_of
from midflight.control.audit_trail import wrote_record
from midflight.control.recorder import Recorder
from midflight.control.todos import Todos
from midflight.engines.sweep import is_alone
from midflight.errors import InvalidRequest, JournalNotFound
from midflight.journal import events as e
from midflight.journal.phases import Cause
from midflight.journal.record import Actor, Request
from midflight.journal.requests import ASIDE, check_reach, refuse_if_stopped
from midflight.journal.state import RunState
from midflight.journal.status import status
from midflight.journal.threads import front
from midflight.journal.threads import thread as t
from midflight.runtime.threads.recollection import spoken
from midflight.runtime.threads.succession import look_after
from midflight.schemas import check_answer, plain_data
from midflight.stores.lookup import question_at, run_state
from midflight.stores.protocol import THREAD_PREFIX, Killing, View

Handler = Callable[..., Awaitable[Any]]
"""Does one verb: its target first, then its arguments and options by their names."""


class RunRequests:
    """Does the verbs over one run."""

    def __init__(self, record: Recorder, todos: Todos) -> None:
        self.record = record
        self.todos = todos

    def asking(self, verb: str, kind: type[Request], **fixed: Any) -> Handler:
        """Return the handler of a verb that is one request, with its arguments as fields."""

        def ask(run: str, *, expect: int | None, **fields: Any) -> Coroutine[Any, Any, Ack]:
            return self.record.ask(run, verb, kind(**fields, **fixed), expect=expect)

        return ask

    async def resume(
        self, run: str, scope: str, *, who: Actor, key: str, expect: int | None
    ) -> Ack:
        """Let a run go on; one that is parked comes back as a todo of its thread does."""
        check_reach(scope)
        row = await self.record.store.row(run)
        if row.kind == "thread":
            raise JournalNotFound(run)
        state = (
            await run_state(self.record.store, run) if await self._has_todos(row.thread) else None
        )
        if state is not None and state.holds == {Cause.PARKED}:
            talk = await self.record.thread(row.thread)
            todo = next((x for x in talk.todos.values() if x.run == run), None)
            if todo is not None:
                return await self.todos.do_now(talk.journal, todo.position, who=who, key=key)
        request = e.ResumeRequested(who=who, key=key, scope=scope)
        return await self.record.ask(run, "resume", request, expect=expect)

    async def _has_todos(self, thread: str) -> bool:
        """Look it up in the read model: a long run is not to be folded for each resume."""
        try:
            return (await self.record.store.row(thread)).open_questions > 0
        except JournalNotFound:
            return False

    async def answer(
        self,
        run: str,
        question: int,
        payload: Any,
        *,
        who: Actor,
        key: str,
        expect: int | None,
    ) -> Ack:
        """Answer an open question, if the answer fits its schema."""
        raw = Raw(plain_data("the answer", payload))
        is_open = question in (await run_state(self.record.store, run)).questions
        asked = await question_at(self.record.store, run, question) if is_open else None
        if asked is not None:  # a question that is not open is refused below
            await check_answer(msgspec.json.decode(raw), msgspec.json.decode(asked.schema))
        request = e.QuestionAnswered(who=who, key=key, question=question, payload=raw)
        return await self.record.ask(run, "answer", request, expect=expect)


TAIL: Final = 20  # lines of the conversation that a side question is answered from


class Asides:
    """Answers questions about a run."""

    def __init__(self, record: Recorder) -> None:
        self.record = record

    async def ask_aside(self, to: str, text: str, *, who: Actor, key: str) -> Ack:
        """Ask something about a run without touching it, also while it is paused.

        Answered in the thread: by a run of the agent's ``aside``, or at once with how it stands.
        """
        about = to if not to.startswith(THREAD_PREFIX) else ""
        about = about or await self.record.front(await self.record.thread(to))
        if not about:
            raise InvalidRequest(
                f"there is nothing to ask about: no run was ever started in thread {to}. Nothing "
                "was changed."
            )
        state = await self.record.store.load(about)
        assert isinstance(state, RunState)
        asked = t.AsideAsked(who=who, key=key, text=text, run=about)
        alone = await is_alone(self.record.store, state)
        stands = status(state, await self.record.store.now(), alone=alone)
        talk = await self.record.thread(state.thread)
        hosts = talk.host is not None and front.is_host(talk, state) and talk.host.asides
        if not ((state.asides or hosts) and asked.who.role.steers):

            def answered(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
                told = t.Said(run=about, text=stands, kind="aside", untrusted=state.untrusted)
                moves.add(talk.journal, told)
                return {"status": stands}

            return await self.record.tell(state.thread, "ask aside", asked, answered)
        return await self._begin_aside(state, asked, stands)

    async def _begin_aside(self, about: RunState, asked: t.AsideAsked, stands: str) -> Ack:
        new, agent, thread = self.record.new_run(), f"{about.agent}{ASIDE}", about.thread
        said = await spoken(
            self.record.store, thread, (await self.record.store.row(thread)).head, TAIL
        )
        given = {
            "status": stands,
            "brief": about.brief,
            "plan": about.plan,
            "transcript": said,
            "untrusted": about.untrusted,
        }

        def then(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
            host = talk.host
            created = e.RunCreated(
                who=asked.who,
                agent=agent,
                thread=thread,
                brief=asked.text,
                input=Raw(msgspec.json.encode(given)),
                mode=about.mode,
                limits=host.limits if host and host.agent == about.agent else about.limits,
                aside_of=about.journal,
                thread_at=talk.head,
            )
            refuse_if_stopped(view.switches)
            moves.add(new, created)
            return {"status": stands, "did": "started", "target": new}

        return await self.record.tell(thread, "ask aside", asked, then, agent=about.agent)


class KillSwitch:
    """Does the verbs of operators over a scope."""

    def __init__(self, record: Recorder) -> None:
        self.record = record

    async def kill(self, scope: str, reason: str, *, who: Actor) -> Killing:
        """Stop everything in scope. When this returns, it has stopped."""
        scope_of(scope)
        _check_reason(reason)
        killing = await self.record.store.kill(scope, who, reason)
        wrote_record()
        return killing

    async def release(self, scope: str, *, who: Actor) -> bool:
        """Let a scope move again, and have what waits there driven. False if it was not stopped."""
        record = self.record
        scope_of(scope)
        released = await record.store.release(scope, who)
        wrote_record()
        for row in await record.store.due() if released else ():
            if row.kind == "thread":
                for run in await look_after(record.store.submit, record.ids, row.journal):
                    await record.engine.ensure(run)
            else:
                await record.engine.ensure(row.journal)
        return released


def _check_reason(reason: str) -> None:
    try:
        str.encode(reason)
    except (TypeError, UnicodeEncodeError):
        raise InvalidRequest(
            f"reason= must be a text, not {reason!r:.80}. Nothing was stopped."
        ) from None
