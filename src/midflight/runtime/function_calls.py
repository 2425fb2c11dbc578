"""The calls of an agent's function on its run: how it is told things, and its calls to people.

The function can be told things at every call that it makes, and while that call waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn

import anyio
import msgspec

from midflight.conversation import Message, Spoken
from midflight.errors import InvalidRequest
from midflight.journal import events as e
from midflight.journal.record import Actor
from midflight.journal.requests import ASKED, HANDED_OVER
from midflight.journal.state import KEYED, UNTRUSTED
from midflight.run import Answer, ApprovalAnswer, Redirected, Signal
from midflight.runtime import values
from midflight.runtime.host import Host
from midflight.runtime.in_flight import Waiting
from midflight.runtime.replay.cursor import question_name
from midflight.runtime.replay.step_records import Answered
from midflight.runtime.steps import preconditions
from midflight.runtime.steps.tool_call import refuse_inside_a_step
from midflight.runtime.threads import thread_messages
from midflight.runtime.threads.recollection import earlier
from midflight.runtime.threads.succession import cancel_itself
from midflight.schemas import check_schema, plain_data

PATIENCE: Final = 3  # signals raised before a function that catches them all waits for ever
CALLED: Final = {"approval": "approve", HANDED_OVER: "hand_over"}
"""The name of the call that asks a question of this kind."""


class FunctionCalls:
    """The calls of one function on its run: each of them goes through here."""

    __slots__ = ("_signals", "host")

    def __init__(self, host: Host) -> None:
        self.host = host
        self._signals = 0

    def what(self, key: str, unkeyed: str, reusable: bool = True) -> str:
        """Return what the identity of a call is made of: its key, or what it is about."""
        return f"{KEYED}{key}" if key else self.host.history.scoped(unkeyed, reusable=reusable)

    def count(self) -> bool:
        """Count a call of which nothing need be told; False if it has to ``listen``."""
        signals, history = self.host.signals, self.host.history
        told = signals.told is not None or signals.heard != signals.number
        if told or signals.delivering or history.entry.tells:
            return False
        history.calls += 1
        return True

    async def listen(self) -> None:
        """Raise what has to be told; a function that will not hear it waits for ever."""
        host = self.host
        if self._signals >= PATIENCE and host.signals.told is not None:
            await anyio.sleep_forever()
        if host.signals.delivering or host.history.tells:
            await host.signals.note_call()
        else:
            host.history.count_call()
        try:
            host.signals.raise_if_told(host.signals.heard)  # layer cancelled-function-told-again
        except Signal:
            self.note()
            raise

    @asynccontextmanager
    async def turn(self, what: str, called: str) -> AsyncIterator[tuple[str, int]]:
        """Make one call that may wait and is not a step; give its identity and its course."""
        host = self.host
        await host.journal.flush()  # layer known-on-record-before-call
        identity = host.history.identity(what)
        async with self.waiting(identity, called) as call:
            await host.journal.until(
                lambda: not host.history.is_told(identity) or host.signals.is_told(call.course)
            )
            host.signals.raise_if_told(call.course)
            yield identity, call.course
            if not host.history.is_done(identity):  # told of a redirect it has not looked for
                host.signals.raise_if_told(call.course)

    @asynccontextmanager
    async def waiting(self, identity: str, called: str) -> AsyncIterator[Waiting]:
        """While a call waits it can be told things."""
        host = self.host
        with host.in_flight.call(Waiting(identity, called, host.signals.heard)) as call:
            try:
                yield call
            except Signal as signal:
                if isinstance(signal, Redirected):
                    host.history.turn_away(identity, signal)
                self.note()
                raise

    def note(self) -> None:
        """Count one more stop that the function was told: it may ignore them, but not for ever."""
        self._signals += self.host.signals.told is not None


class People:
    """The part of a run that is about people: its plan, questions, messages, its own end."""

    __slots__ = ("_calls", "_host", "_inbox")

    def __init__(self, calls: FunctionCalls) -> None:
        self._calls = calls
        self._host = calls.host
        self._inbox = thread_messages.Inbox(calls.host)

    async def plan(self, *steps: str) -> None:
        """See ``Run.plan``."""
        refuse_inside_a_step("run.plan")
        values.check_names("run.plan", "a step", steps)
        await self._calls.listen()
        host = self._host
        planned = e.PlanSet(epoch=host.journal.epoch, steps=steps)
        async with self._calls.turn("plan", "a plan") as (_, course):
            while host.journal.state.plan != steps and not host.history.unfinished:
                await host.gate.wait(course)
                await host.journal.decide(
                    lambda s: (
                        [*host.journal.wait_over(s), planned] if host.gate.may_start(course) else []
                    )
                )

    async def ask(
        self,
        message: str,
        *,
        schema: type | dict[str, Any] | None = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> Answer:
        """See ``Run.ask``."""
        wanted = _schema_of(schema) if isinstance(schema, type) else schema
        answered = await self._ask(ASKED, message, wanted, expires_in, answerers)
        payload = values.decode(bytes(answered.payload))
        if isinstance(schema, type) and answered.by:
            payload = msgspec.convert(payload, schema)
        return Answer(payload, answered.by)

    async def approve(
        self,
        message: str,
        *,
        details: Any = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> ApprovalAnswer:
        """See ``Run.approve``."""
        plain_data("details= of run.approve", details, values.NOTHING_RECORDED)
        schema = preconditions.schema(details, edited={})
        answered = await self._ask("approval", message, schema, expires_in, answerers)
        match values.decode(bytes(answered.payload)):
            case ("approve" | "reject") as decision:
                return ApprovalAnswer(decision, answered.by)
            case {"edit": edited}:
                return ApprovalAnswer("edit", answered.by, edit=edited)
            case {"respond": text}:
                return ApprovalAnswer("respond", answered.by, respond=text)
            case _:
                return ApprovalAnswer("")

    async def hand_over(self, message: str, *, to: Sequence[str] = ()) -> Answer:
        """See ``Run.hand_over``."""
        answered = await self._ask(HANDED_OVER, message, None, None, to)
        return Answer(values.decode(bytes(answered.payload)), answered.by)

    async def cancel(self, why: str, *, by: str = "") -> NoReturn:
        """See ``Run.cancel``."""
        refuse_inside_a_step("run.cancel")
        values.check_text("run.cancel", "why", why)
        values.check_name("run.cancel", "by=", by)
        await self._calls.listen()
        host = self._host
        async with self._calls.turn("cancel", "its own end") as (_, course):
            await host.gate.wait(course)
            who = Actor(by=by or host.agent.name, channel="agent")
            request = e.CancelRequested(who=who, why=why)
            await cancel_itself(host, request)
            await host.journal.until(lambda: host.signals.told is not None)
            host.signals.raise_if_told(course)
        raise AssertionError("a run that cancels itself is told so")

    async def _ask(
        self,
        kind: str,
        message: str,
        schema: dict[str, Any] | None,
        expires_in: float | None,
        answerers: Sequence[str],
    ) -> Answered:
        called = f"run.{CALLED.get(kind, kind)}"
        refuse_inside_a_step(called)
        values.check_text(called, "a message", message)
        values.check_names(called, "who may answer", answerers)
        values.check_seconds(called, "expires_in=", expires_in)
        if schema is not None:
            check_schema(schema)
        await self._calls.listen()
        host = self._host
        stored = values.encode(kind, "its schema", schema)
        what = self._calls.what("", question_name(host.history, kind, message, stored))
        expires_at = None if expires_in is None else host.journal.clock.now() + expires_in
        async with self._calls.turn(what, f"the question {message!r}") as (step, course):
            return await host.questions.ask(
                step,
                kind,
                message,
                schema=schema,
                expires_at=expires_at,
                answerers=tuple(answerers),
                course=course,
            )

    async def inbox(self) -> list[Message]:
        """See ``Run.inbox``."""
        refuse_inside_a_step("run.inbox")
        await self._calls.listen()
        what = self._calls.what("", "inbox", reusable=False)
        async with self._calls.turn(what, "the inbox") as (step, course):
            return await self._inbox.take(step, course)

    async def earlier(self) -> list[Spoken]:
        """See ``Run.earlier``."""
        await self._calls.listen()
        host = self._host
        await host.journal.flush()  # layer known-on-record-before-thread
        return await earlier(host.journal.client, host.journal.state, host.history.begun_for)

    async def say(self, text: str) -> None:
        """See ``Run.say``."""
        refuse_inside_a_step("run.say")
        values.check_text("run.say", "what it says", text)
        await self._calls.listen()
        size = self._host.history.digest_bytes
        what = self._calls.what("", f"say:{values.digest(text.encode(), size)}")
        async with self._calls.turn(what, "something to say") as (step, course):
            await thread_messages.say(self._host, step, text, course)

    async def distrust(self, source: str) -> None:
        """See ``Run.distrust``."""
        values.check_text("run.distrust", "its source", source)
        if not self._host.journal.state.untrusted:
            told = f"It reads words of others who may not direct it: {source}."
            await self._host.journal.give_notice(UNTRUSTED, told)

    def notices(self) -> list[str]:
        """See ``Run.notices``."""
        history = self._host.history
        return [text for at, text in history.notices if at <= history.now]


def _schema_of(kind: type) -> dict[str, Any]:
    try:
        return msgspec.json.schema(kind)
    except TypeError as error:
        why = str(error).strip().splitlines()[-1]
        raise InvalidRequest(
            f"schema= of run.ask cannot be {kind.__qualname__}: it has no JSON Schema ({why}). Use "
            "another type, such as a dataclass, or write the schema as a dict. Nothing was asked."
        ) from error
