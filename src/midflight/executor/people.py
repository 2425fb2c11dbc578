"""The part of ``Run`` that speaks to people and asks them, as the driver implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn

from midflight.conversation import Message, Spoken
from midflight.executor import approval, given, talk, values
from midflight.executor.bound import question_name
from midflight.executor.calls import refuse_inside_a_step
from midflight.executor.earlier import earlier
from midflight.executor.heard import Answered
from midflight.executor.listening import FunctionCalls
from midflight.kernel import events as e
from midflight.kernel.decide import ASKED, HANDED_OVER
from midflight.kernel.record import Actor
from midflight.kernel.state import UNTRUSTED
from midflight.run import Answer, Approval
from midflight.schemas import check_schema, plain_data

CALLED: Final = {"approval": "approve", HANDED_OVER: "hand_over"}
"""The name of the call that asks a question of this kind."""


class People:
    """The part of a run that is about people: its plan, questions, messages, its own end."""

    __slots__ = ("_calls", "_host", "_inbox")

    def __init__(self, calls: FunctionCalls) -> None:
        self._calls = calls
        self._host = calls.host
        self._inbox = talk.Inbox(calls.host)

    async def plan(self, *steps: str) -> None:
        """See ``Run.plan``."""
        refuse_inside_a_step("run.plan")
        given.names("run.plan", "a step", steps)
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
        schema: dict[str, Any] | None = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> Answer:
        """See ``Run.ask``."""
        answered = await self._ask(ASKED, message, schema, expires_in, answerers)
        return Answer(values.decode(bytes(answered.payload)), answered.by)

    async def approve(
        self,
        message: str,
        *,
        details: Any = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> Approval:
        """See ``Run.approve``."""
        plain_data("details= of run.approve", details, given.NOTHING)
        schema = approval.schema(details, edited={})
        answered = await self._ask("approval", message, schema, expires_in, answerers)
        match values.decode(bytes(answered.payload)):
            case str(decision):
                return Approval(decision, answered.by)
            case {"edit": edited}:
                return Approval("edit", answered.by, edit=edited)
            case {"respond": text}:
                return Approval("respond", answered.by, respond=text)
            case _:
                return Approval("")

    async def hand_over(self, message: str, *, to: Sequence[str] = ()) -> Answer:
        """See ``Run.hand_over``."""
        answered = await self._ask(HANDED_OVER, message, None, None, to)
        return Answer(values.decode(bytes(answered.payload)), answered.by)

    async def cancel(self, why: str, *, by: str = "") -> NoReturn:
        """See ``Run.cancel``."""
        refuse_inside_a_step("run.cancel")
        given.text("run.cancel", "why", why)
        given.name("run.cancel", "by=", by)
        await self._calls.listen()
        host = self._host
        async with self._calls.turn("cancel", "its own end") as (_, course):
            await host.gate.wait(course)
            who = Actor(by=by or host.agent.name, channel="agent")
            request = e.CancelRequested(who=who, why=why)
            await host.journal.cancel(request, host.signals.is_stopped)
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
        given.text(called, "a message", message)
        given.names(called, "who may answer", answerers)
        given.seconds(called, "expires_in=", expires_in)
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
        return await earlier(host.journal.client, host.journal.state, host.history.begun_for)

    async def say(self, text: str) -> None:
        """See ``Run.say``."""
        refuse_inside_a_step("run.say")
        given.text("run.say", "what it says", text)
        await self._calls.listen()
        size = self._host.history.digest_bytes
        what = self._calls.what("", f"say:{values.digest(text.encode(), size)}")
        async with self._calls.turn(what, "something to say") as (step, course):
            await talk.say(self._host, step, text, course)

    async def distrust(self, source: str) -> None:
        """See ``Run.distrust``."""
        given.text("run.distrust", "its source", source)
        if not self._host.journal.state.untrusted:
            told = f"It reads words of others who may not direct it: {source}."
            await self._host.journal.give_notice(UNTRUSTED, told)

    def notices(self) -> list[str]:
        """See ``Run.notices``."""
        replay = self._host.history
        return [text for at, text in replay.notices if at <= replay.now]
