"""Questions to people: opened once under a step's name, found again, and waited for.

Every front door shows ``x-details`` of a question's schema, one fact a line. Arguments have the
names that the tool gives them, and secrets are dots. Values are whole: people decide on them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from midflight.errors import DOTS
from midflight.journal import events as e
from midflight.journal.events import AttemptStarted
from midflight.journal.phases import Cause
from midflight.journal.record import NULL, Event
from midflight.journal.requests import HANDED_OVER, WITHDRAWN
from midflight.journal.state import RunState
from midflight.runtime import values
from midflight.runtime.in_flight import InFlight
from midflight.runtime.replay.step_records import Answered
from midflight.runtime.run_journal import RunJournal
from midflight.runtime.signals import Gate, Signals
from midflight.tools.declaration import REGISTRY, Tool
from midflight.tools.labels import in_words, named, written


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
        if within is not None:  # layer time-for-answer-begins
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


def choice_of(choices: dict[str, str]) -> dict[str, Any]:
    """The schema of a question with a few answers, and their words."""
    return {"enum": list(choices), "x-labels": choices}


def call_in_words(tool: Tool, given: Raw, *, before: Raw = NULL) -> dict[str, Any]:
    """The part of a schema that says what a call is; ``before`` are arguments of an earlier one.

    Where there is an earlier one, arguments that differ are shown as they were and as they are.
    """
    now = arguments_in_words(tool, given)
    if bytes(before) == bytes(NULL):
        return {"x-tool": tool.name, "x-details": {"tool": tool.name, **now}}
    was = arguments_in_words(tool, before)
    return {
        "x-tool": tool.name,
        "x-details": {"tool": tool.name, "earlier": _line(was), "now": _line(now)},
    }


def attempt_in_words(begun: AttemptStarted) -> dict[str, Any]:
    """The same for an attempt on record, whose tool may not be known here any more."""
    tool = REGISTRY.get(begun.tool)
    shown = arguments_in_words(tool, begun.input)
    return {"x-tool": begun.tool, "x-details": {"tool": begun.tool, **shown}}


def arguments_in_words(tool: Tool | None, given: Raw) -> dict[str, str]:
    """The arguments of a call by their names."""
    return in_words(_named(tool, given))


def differences(tool: Tool | None, before: Raw, now: Raw) -> dict[str, tuple[str, str]]:
    """The arguments in which two calls differ: as they were, and as they are."""
    old, new = _named(tool, before), _named(tool, now)
    changed = [name for name in dict.fromkeys([*old, *new]) if not _equal(name, old, new)]
    found = {}
    for name in changed:
        was, is_now = (written(call[name]) if name in call else "nothing" for call in (old, new))
        hides = DOTS in was or was != is_now
        found[name] = (was, is_now if hides else f"{is_now} (differs further on)")
    return found


def _named(tool: Tool | None, given: Raw) -> dict[str, Any]:
    plain = values.decode(bytes(given)) or {}
    return named(tool and tool.function, plain.get("args", []), plain.get("kwargs", {}))


def _equal(name: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    return name in old and name in new and old[name] == new[name]


def _line(arguments: dict[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in arguments.items()) or "no arguments"
