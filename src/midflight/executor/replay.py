"""What the journal already knows of a function's steps, by their identity.

After a crash or an eviction the function is called again and asks for its steps as before; those
that have an outcome on record get it, in any order. What is not on record waits until everything
on record was asked for: only then is it certain that the function is where it was.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Raw, Struct

from midflight.kernel import events as e
from midflight.kernel.decide import WITHDRAWN
from midflight.kernel.phases import Outcome
from midflight.kernel.record import NULL, Blob, Recorded


class Record(Struct, frozen=True):
    """The outcome of a step: a value, or the words of its failure."""

    position: int
    name: str
    result: Raw
    blob: Blob | None
    error: str
    at: float


class Answered(Struct, frozen=True):
    """How a question ended: with a person's payload, or closed without one."""

    payload: Raw
    by: str
    closed: str = ""


class Replay:
    """Fed with every event of the run, in order; asked by its steps."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.unclaimed: set[str] = set()
        self.state: e.StateSaved | None = None
        self.saved = (0, 0.0)  # where and when
        self.questions: dict[str, int] = {}  # by the step that asks
        self.answers: dict[int, Answered] = {}
        self.timers: Counter[str] = Counter()  # how often each was set
        self._passed: set[str] = set()  # on record under an earlier brief
        self._told: set[str] = set()  # calls that were told of the last redirect
        self._asked: dict[int, e.QuestionOpened] = {}
        self._started: dict[int, e.AttemptStarted] = {}
        self._occurrences: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()  # the highest occurrence on record of each step
        self._before: Counter[str] = Counter()  # and what it was at the last snapshot

    def hear(self, found: Recorded) -> None:
        """Note what an event says about a step."""
        event = found.event
        match event:
            case e.AttemptStarted():
                self._started[found.position] = event
                self._see(event.step)
            case e.AttemptSettled() | e.LateOutcome():
                self._settled(found, event)
            case e.StepSettled():
                self._see(event.step)
                self.records[event.step] = Record(
                    found.position, event.name, event.result, event.blob, event.error, found.at
                )
            case e.QuestionOpened() | e.QuestionAnswered() | e.QuestionClosed():
                self._questioned(found.position, event)
            case e.RedirectDelivered():
                self._passed = set(self.records)
                self._told = set(event.calls)
            case e.TimerSet():
                self.timers[event.name] += 1
            case e.StateSaved():
                self.state, self.saved = event, (found.position, found.at)
                self.records.clear()
                self.questions.clear()
                self.timers.clear()
                self._before = Counter(self._seen)
                self._occurrences = Counter(self._before)  # the same here as after a crash
            case _:
                pass

    def _questioned(
        self, position: int, event: e.QuestionOpened | e.QuestionAnswered | e.QuestionClosed
    ) -> None:
        match event:
            case e.QuestionOpened():
                self._asked[position] = event
                if event.step:
                    self._see(event.step)
                    self.questions[event.step] = position
            case e.QuestionAnswered():
                self.answers[event.question] = Answered(event.payload, event.who.by)
            case e.QuestionClosed() if event.why.startswith(WITHDRAWN):
                step = self._asked[event.question].step
                self.questions.pop(step, None)  # whoever still wants to know asks anew
            case e.QuestionClosed():
                self.answers.setdefault(event.question, Answered(NULL, "", event.why))

    def _settled(self, found: Recorded, event: e.AttemptSettled | e.LateOutcome) -> None:
        started = self._started.get(event.attempt)
        if started is None or started.step in self.records:
            return
        if event.outcome is Outcome.DONE:
            self.records[started.step] = Record(
                found.position, started.name, event.result, event.blob, "", found.at
            )

    def enter(self) -> None:
        """The function is called (again): it must ask for everything that is on record.

        After a redirect it need not ask for what was done under the earlier brief.
        """
        self._occurrences = Counter(self._before)
        self.unclaimed = self.records.keys() - self._passed

    def redirected(self, step: str) -> bool:
        """Whether this call was told of a redirect, and the function then went on by itself."""
        if step not in self._told or not self.unclaimed:
            return False
        self._told.discard(step)
        self.forget_turn(step)
        return True

    def identity(self, what: str) -> str:
        """The n-th time that this is asked for since the function was entered."""
        self._occurrences[what] += 1
        number = self._occurrences[what]
        return what if number == 1 else f"{what}#{number}"

    def _see(self, step: str) -> None:
        what, number = _turn(step)
        self._seen[what] = max(self._seen[what], number)

    def forget_turn(self, step: str) -> None:
        """A call that was told of a redirect has not used up its turn."""
        what, _ = _turn(step)
        self._occurrences[what] -= 1

    def claim(self, step: str) -> Record | None:
        """The record of a step, if there is one."""
        self.unclaimed.discard(step)
        return self.records.get(step)

    def attempts_of(self, step: str) -> list[int]:
        """Where attempts at a step began."""
        return [position for position, started in self._started.items() if started.step == step]

    def started(self, position: int) -> e.AttemptStarted:
        """What was begun at a position."""
        return self._started[position]


def _turn(step: str) -> tuple[str, int]:
    """What an identity is about, and the how manieth time."""
    what, mark, number = step.rpartition("#")
    return (what, int(number)) if mark and number.isdecimal() else (step, 1)
