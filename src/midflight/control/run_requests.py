"""Verbs over one run that are a request in its journal and nothing else, or nearly so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw

from midflight.control.ack import Ack
from midflight.control.recorder import Recorder
from midflight.control.todos import Todos
from midflight.errors import JournalNotFound
from midflight.journal import events as e
from midflight.journal.phases import Cause
from midflight.journal.record import Actor, Request
from midflight.journal.requests import check_reach
from midflight.schemas import check_answer, plain_data
from midflight.stores.lookup import question_at, run_state

Handler = Callable[..., Awaitable[Any]]
"""Does one verb: its target first, then its arguments and options by their names."""


class RunRequests:
    """Does the verbs over one run."""

    def __init__(self, record: Recorder, todos: Todos) -> None:
        self.record = record
        self.todos = todos

    def asking(self, verb: str, kind: type[Request], **fixed: Any) -> Handler:
        """Return the handler of a verb that is one request, with its arguments as fields."""

        async def ask(run: str, *, expect: int | None, **fields: Any) -> Ack:
            return await self.record.ask(run, verb, kind(**fields, **fixed), expect=expect)

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
