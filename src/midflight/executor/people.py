"""What a function says to people and asks of them, as the driver implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from midflight.conversation import Message, Spoken
from midflight.executor import approval, talk, values
from midflight.executor.calls import refuse_inside_a_step
from midflight.executor.earlier import earlier
from midflight.executor.heard import Answered
from midflight.executor.listening import Listening
from midflight.kernel import events as e
from midflight.kernel.decide import ASKED, HANDED_OVER
from midflight.kernel.record import Who
from midflight.run import Answer, Approval
from midflight.schemas import check_schema


class People(Listening):
    """The part of a run that is about people: its plan, questions, messages, its own end."""

    __slots__ = ()

    async def plan(self, *steps: str) -> None:
        """See ``Run.plan``."""
        refuse_inside_a_step("run.plan")
        await self._listen()
        driver = self._driver
        planned = e.PlanSet(epoch=driver.epoch, steps=steps)
        async with self._turn("plan", "a plan") as (_, course):
            while driver.log.state.plan != steps and not driver.replay.unfinished:
                await driver.gate.wait(course)
                await driver.log.decide(
                    lambda s: (
                        [*driver.wait_over(s), planned] if driver.gate.may_start(course) else []
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
        await self._listen()
        driver = self._driver
        async with self._turn("cancel", "its own end") as (_, course):
            await driver.gate.wait(course)
            who = Who(by=by or driver.agent.name, channel="agent")
            await driver.cancel(e.CancelRequested(who=who, why=why))
            await driver.log.until(lambda: driver.course.told is not None)
            driver.course.raise_if_told(course)
        raise AssertionError("a run that cancels itself is told so")

    async def _ask(
        self,
        kind: str,
        message: str,
        schema: dict[str, Any] | None,
        expires_in: float | None,
        answerers: Sequence[str],
    ) -> Answered:
        refuse_inside_a_step(f"run.{kind}")
        await self._listen()
        if schema is not None:
            check_schema(schema)
        driver = self._driver
        about = values.digest(bytes(values.encode(kind, "its schema", schema)))
        what = self._what("", f"{kind}:{message}:{about}")
        expires_at = None if expires_in is None else driver.clock() + expires_in
        async with self._turn(what, f"the question {message!r}") as (step, course):
            return await driver.questions.ask(
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
        await self._listen()
        what = self._what("", "inbox", reusable=False)
        async with self._turn(what, "the inbox") as (step, course):
            return await talk.take_messages(self._driver, step, course)

    async def earlier(self) -> list[Spoken]:
        """See ``Run.earlier``."""
        await self._listen()
        driver = self._driver
        return await earlier(driver.store, driver.log.state, driver.begun_for)

    async def say(self, text: str) -> None:
        """See ``Run.say``."""
        refuse_inside_a_step("run.say")
        await self._listen()
        what = self._what("", f"say:{values.digest(text.encode())}")
        async with self._turn(what, "something to say") as (step, course):
            await talk.say(self._driver, step, text, course)

    def notices(self) -> list[str]:
        """See ``Run.notices``."""
        replay = self._driver.replay
        return [text for at, text in replay.notices if at <= replay.now]
