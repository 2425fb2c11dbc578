"""Questions to people: opened once under a step's name, found again, and waited for."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from midflight.executor import values
from midflight.executor.gate import Gate
from midflight.executor.heard import Answered
from midflight.executor.in_flight import InFlight
from midflight.executor.logbook import RunJournal
from midflight.executor.signals import Signals
from midflight.kernel import events as e
from midflight.kernel.decide import HANDED_OVER, WITHDRAWN
from midflight.kernel.phases import Cause
from midflight.kernel.record import Event
from midflight.kernel.state import RunState


class Questions:
    """The questions that a run asks while it is driven here."""

    __slots__ = ("_gate", "_in_flight", "_journal", "_signals")

    def __init__(
        self, journal: RunJournal, signals: Signals, gate: Gate, in_flight: InFlight
    ) -> None:
        self._journal = journal
        self._signals = signals
        self._gate = gate
        self._in_flight = in_flight

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
        journal = self._journal
        if (before := journal.history.given_before.get(step)) is not None:
            return before
        journal.history.ask_for_question(step)
        asked = e.QuestionOpened(
            epoch=journal.epoch,
            kind=kind,
            message=message,
            schema=values.encode(step, "its schema", schema),
            step=step,
            about=about,
            expires_at=expires_at,
            answerers=answerers,
        )
        course = self._signals.number if course is None else course
        with self._in_flight.asking(step):
            return await self._answer(asked, course, replaces)

    async def _answer(self, asked: e.QuestionOpened, course: int, replaces: str) -> Answered:
        journal, signals, step, question = self._journal, self._signals, asked.step, None
        history = journal.history
        within = None if asked.expires_at is None else asked.expires_at - journal.clock.now()
        while question is None or history.question_of(step) != question:  # or it was withdrawn
            while (question := history.question_of(step)) is None:
                await journal.until(lambda: signals.is_told(course) or self._gate.may_ask(course))
                signals.raise_if_told(course)
                await journal.decide(partial(self._opened, asked, within, course, replaces))
            await journal.until(partial(self._hears, question, course))
            signals.raise_if_told(course)
        answer = history.answers[question]
        history.learn(answer.at)
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
        questions = self._journal.history.questions
        if asked.step in questions or not self._gate.may_ask(course):
            return []
        closed = [
            e.QuestionClosed(question=position, why="what it asked about has changed")
            for old, position in questions.items()
            if replaces and old.startswith(replaces) and position in state.questions
        ]
        held = e.HoldPlaced(cause=Cause.HUMAN, why=asked.message)
        if within is not None:
            asked = msgspec.structs.replace(asked, expires_at=self._journal.clock.now() + within)
        return [*closed, asked, held] if asked.kind == HANDED_OVER else [*closed, asked]

    def _hears(self, question: int, course: int) -> bool:
        return question in self._journal.history.answers or self._signals.is_told(course)

    async def withdraw(self, step: str) -> None:
        """Close the question of a step: nobody waits for the answer any more."""
        question = self._journal.history.questions.get(step)
        why = f"{WITHDRAWN}: not waited for any more"

        def closed(state: RunState) -> list[Event]:
            asked = question in state.questions and not self._journal.lost
            return [e.QuestionClosed(question=question, why=why)] if question and asked else []

        await self._journal.decide(closed)

    def unasked(self, state: RunState) -> list[int]:
        """Questions that the function asked before it came back, and does not ask any more."""
        asked = self._journal.history.asked
        steps = {position: asked[position].step for position in state.questions}
        return [p for p, step in steps.items() if step and not self._in_flight.is_asking(step)]
