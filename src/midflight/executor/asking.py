"""Questions to people: opened once under a step's name, found again, and waited for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from midflight.executor import values
from midflight.executor.heard import Answered
from midflight.kernel import events as e
from midflight.kernel.decide import HANDED_OVER, WITHDRAWN
from midflight.kernel.phases import Cause
from midflight.kernel.record import Event
from midflight.kernel.state import RunState

if TYPE_CHECKING:
    from midflight.executor.drive import Driver


class Questions:
    """The questions that a run asks while it is driven here."""

    __slots__ = ("_driver", "_waiting")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._waiting: list[str] = []  # steps whose answer is waited for

    @property
    def any(self) -> bool:
        """True while an answer is waited for."""
        return bool(self._waiting)

    async def ask(
        self,
        step: str,
        kind: str,
        message: str,
        *,
        schema: dict[str, Any] | None = None,
        expires_at: float | None = None,
        answerers: tuple[str, ...] = (),
        about: int = 0,
        replaces: str = "",
        course: int | None = None,
    ) -> Answered:
        """Open a question under a step's name, or find it again; wait for its answer.

        Questions whose step begins with ``replaces`` were about something else, and are closed.
        """
        driver = self._driver
        if (before := driver.replay.given_before.get(step)) is not None:
            return before
        driver.replay.ask_for_question(step)
        asked = e.QuestionOpened(
            epoch=driver.epoch,
            kind=kind,
            message=message,
            schema=values.encode(step, "its schema", schema),
            step=step,
            about=about,
            expires_at=expires_at,
            answerers=answerers,
        )
        self._waiting.append(step)
        driver.log.stir()
        try:
            return await self._answer(
                asked, driver.course.number if course is None else course, replaces
            )
        finally:
            self._waiting.remove(step)
            driver.log.stir()

    async def _answer(self, asked: e.QuestionOpened, course: int, replaces: str) -> Answered:
        driver, step, question = self._driver, asked.step, None
        replay, log = driver.replay, driver.log
        within = None if asked.expires_at is None else asked.expires_at - driver.time_of_the_store()
        while question is None or replay.question_of(step) != question:  # or it was withdrawn
            while (question := replay.question_of(step)) is None:
                await log.until(
                    lambda: driver.course.is_told(course) or driver.gate.may_ask(course)
                )
                driver.course.raise_if_told(course)
                await log.decide(partial(self._opened, asked, within, course, replaces))
            await log.until(partial(self._hears, question, course))
            driver.course.raise_if_told(course)
        answer = replay.answers[question]
        replay.learn(answer.at)
        return answer

    def _opened(
        self,
        asked: e.QuestionOpened,
        within: float | None,
        course: int,
        replaces: str,
        state: RunState,
    ) -> list[Event]:
        """Open the question. People have the whole of ``within`` from when they can see it."""
        questions = self._driver.replay.questions
        if asked.step in questions or not self._driver.gate.may_ask(course):
            return []
        closed = [
            e.QuestionClosed(question=position, why="what it asked about has changed")
            for old, position in questions.items()
            if replaces and old.startswith(replaces) and position in state.questions
        ]
        held = e.HoldPlaced(cause=Cause.HUMAN, why=asked.message)
        if within is not None:
            asked = msgspec.structs.replace(
                asked, expires_at=self._driver.time_of_the_store() + within
            )
        return [*closed, asked, held] if asked.kind == HANDED_OVER else [*closed, asked]

    def _hears(self, question: int, course: int) -> bool:
        return question in self._driver.replay.answers or self._driver.course.is_told(course)

    async def withdraw(self, step: str) -> None:
        """Close the question of a step: nobody waits for the answer any more."""
        question = self._driver.replay.questions.get(step)
        why = f"{WITHDRAWN}: not waited for any more"

        def closed(state: RunState) -> list[Event]:
            asked = question in state.questions and not self._driver.lost
            return [e.QuestionClosed(question=question, why=why)] if question and asked else []

        await self._driver.log.decide(closed)

    def unasked(self, state: RunState) -> list[int]:
        """Questions that the function asked before it came back, and does not ask any more."""
        asked = self._driver.replay.asked
        steps = {position: asked[position].step for position in state.questions}
        return [p for p, step in steps.items() if step and step not in self._waiting]
