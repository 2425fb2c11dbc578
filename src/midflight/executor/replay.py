"""What the journal already knows of a function's steps, by their identity.

After a crash or an eviction the function is called again and asks for its steps as before; those
that have an outcome on record get it, in any order. What is not on record waits until everything
on record was asked for: only then is it certain that the function is where it was. A redirect that
it was told of is told again at the same place.

A function that did not catch a redirect was *entered again*, with the new brief: from there on the
earlier records are at hand, and none of them must be asked for.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from midflight.executor import values
from midflight.kernel import events as e
from midflight.kernel.limits import Call
from midflight.kernel.phases import Outcome
from midflight.kernel.record import NULL, Blob, Event, Recorded, Who

REDIRECTED: Final = "redirected"
WITHDRAWN: Final = "withdrawn"
HISTORY: Final = 256  # calls in which circles are looked for
OF_THE_FUNCTION: Final = ("ask:", "approval:")  # questions that a fork need not ask again
KEYED: Final = "key="  # identities that a user chose; a snapshot does not forget them


class Record(Struct, frozen=True, gc=False):
    """The outcome of a step: a value, or the words of its failure."""

    position: int
    at: float
    name: str
    result: Raw = NULL
    blob: Blob | None = None
    error: str = ""
    left: str = ""


class Answered(Struct, frozen=True):
    """How a question ended: with a person's payload, or closed without one."""

    at: float
    payload: Raw = NULL
    who: Who | None = None
    closed: str = ""

    @property
    def by(self) -> str:
        """Who answered; empty when nobody did."""
        return self.who.by if self.who else ""


class Begun(Struct, frozen=True):
    """An attempt that is on record, and when it began."""

    position: int
    at: float
    event: e.AttemptStarted


class Told(Struct, frozen=True):
    """A redirect that was delivered to the calls that waited."""

    position: int
    brief: str
    calls: frozenset[str]


class Replay:
    """Fed with every event of the run, in order; asked by its steps."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.outcomes: dict[int, Record] = {}  # of attempts that were done, also before a snapshot
        self.undoing: set[int] = set()  # effects whose undo was begun and may have done something
        self.unclaimed: set[str] = set()
        self.brief = ""
        self.now = 0.0  # the time of the last thing the function has learnt
        self.state: e.StateSaved | None = None
        self.questions: dict[str, int] = {}  # by the step that asks
        self.asked: dict[int, e.QuestionOpened] = {}
        self.answers: dict[int, Answered] = {}
        self.guards: Counter[str] = Counter()  # how often each was set since the function's start
        self.guards_inherited = False
        self.guarded_at: dict[str, tuple[str, int]] = {}  # where each was first noted
        self.stale_question: int | None = None
        self.given_before: dict[str, Answered] = {}  # answers that a fork has taken over
        self.taken: dict[str, e.MessagesTaken] = {}
        self.spawned: dict[str, e.ChildSpawned] = {}
        self.timers: Counter[str] = Counter()  # how often each was set
        self.texts: dict[str, str] = {}  # what steps without a record have said so far
        self.history: deque[Call] = deque(maxlen=HISTORY)
        self.calls_made = 0
        self.nudged_at: int | None = None
        self.scope = 0  # the last snapshot
        self.redirected_at = 0  # the last time it was entered again with another brief
        self.seed = ""  # of the chances that the function begins with
        self.new_seeds: dict[str, str] = {}  # after the last step of another run: the next chances
        self._unlike = 0  # from here on what is not reusable is another step than before
        self._base = 0
        self._began = ("", 0.0)  # brief and time where the function starts
        self._forked = False
        self._latest = ""
        self._redirects: list[Told] = []
        self._told = 0
        self._doubts: dict[str, int] = {}
        self._undos: dict[int, int] = {}
        self._reused: set[str] = set()
        self._begun: dict[int, Begun] = {}
        self._by_step: dict[str, list[int]] = {}
        self._occurrences: dict[str, int] = {}

    # ── listening ────────────────────────────────────────────────────────────────────────────

    def hear(self, found: Recorded) -> None:  # noqa: C901 - one arm an event
        """Note what an event says about the function's way."""
        event, position = found.event, found.position
        match event:
            case e.AttemptStarted():
                self._begun[position] = Begun(position, found.at, event)
                self._by_step.setdefault(event.step, []).append(position)
            case e.AttemptSettled() | e.LateOutcome():
                self._settled(found, event)
            case e.StepSettled():
                self.records[event.step] = Record(
                    position, found.at, event.name, event.result, event.blob, event.error
                )
                self._doubts.pop(event.step, None)
                self._note_call(event.step, event.result, bool(event.error))
                self.texts.pop(event.step, None)
            case e.TextStreamed():
                text = self.texts.get(event.step, "")
                self.texts[event.step] = text[: event.offset] + event.text
            case e.StepReused():
                self._reused.add(event.step)
            case e.Spoke():
                self.records[event.step] = Record(position, found.at, "")
            case e.TimerSet():
                self.timers[event.name] += 1
            case e.MessagesTaken():
                self.taken[event.step] = event
            case e.ChildSpawned():
                self.spawned[event.step] = event
            case e.GuardSet() if not event.why:
                self.guards[event.name] += 1
                self.guarded_at.setdefault(event.name, (found.journal, position))
            case e.GuardSet():
                self.guards_inherited |= event.why == "inherited"
            case e.QuestionOpened() | e.QuestionAnswered() | e.QuestionClosed():
                self._hear_question(found, event)
            case _:
                self._hear_course(found)

    def _hear_course(self, found: Recorded) -> None:
        """Where the function starts from, and what it is told on the way."""
        event, position = found.event, found.position
        match event:
            case e.RunCreated():
                self._created(event, found)
            case e.RunEntered():
                forked = self._forked and event.why != REDIRECTED
                at = self._began[1] if forked else found.at  # or it would see another time
                self._base, self._began = position, (self._latest, at)
                self._redirects.clear()
                self._told = 0
                self._reused.clear()
                self.guards.clear()
                if event.why == REDIRECTED:
                    self.redirected_at = self._unlike = position
            case e.RedirectDelivered():
                self._latest = event.brief
                self._redirects.append(Told(position, event.brief, frozenset(event.calls)))
            case e.RecordsDropped():
                for step in event.steps:
                    self.records.pop(step, None)
                    self._doubts.pop(step, None)
                    self.unclaimed.discard(step)
                self._redirects = [Told(t.position, t.brief, frozenset()) for t in self._redirects]
            case e.StateSaved():
                self._start_from(event, found)
            case e.UndoStarted() | e.UndoSettled():
                self._hear_undo(event, position)
            case _:
                self._hear_circles(event)

    def _created(self, event: e.RunCreated, found: Recorded) -> None:
        if event.fork_of:
            self.inherit(found.journal)
        else:
            self.seed, self.now = found.journal, found.at
        self._latest = self.brief = event.brief
        self._began = event.brief, self.now

    def _hear_undo(self, event: e.UndoStarted | e.UndoSettled, position: int) -> None:
        if isinstance(event, e.UndoStarted):
            self._undos[position] = event.effect
            self.undoing.add(event.effect)
        elif event.undone or event.final:
            self.undoing.discard(self._undos[event.undo])

    def _hear_circles(self, event: Event) -> None:
        if isinstance(event, e.NoticeGiven) and event.kind.startswith("stuck"):
            self.nudged_at = self.calls_made
        if isinstance(event, e.LimitsRaised):
            self.nudged_at = None
            self.history.clear()

    def _start_from(self, event: e.StateSaved, found: Recorded) -> None:
        self.state, self.scope, self._base = event, found.position, found.position
        self._began = (self._latest, found.at)
        self.seed = f"{found.journal}@{found.position}"  # or replay would see other chances
        self.new_seeds.clear()
        self.records = {k: v for k, v in self.records.items() if k.startswith(KEYED)}
        self._redirects.clear()
        self._told = 0
        self.questions.clear()
        self.timers.clear()
        self.guards.clear()
        self._occurrences.clear()

    def _hear_question(
        self,
        found: Recorded,
        event: e.QuestionOpened | e.QuestionAnswered | e.QuestionClosed,
    ) -> None:
        match event:
            case e.QuestionOpened():
                self.asked[found.position] = event
                if event.kind == "stale":
                    self.stale_question = found.position
                if event.step:
                    self.questions[event.step] = found.position
            case e.QuestionAnswered():
                self.answers[event.question] = Answered(found.at, event.payload, event.who)
            case e.QuestionClosed():
                self.answers.setdefault(event.question, Answered(found.at, closed=event.why))
                asked = self.asked.get(event.question)
                if asked is not None and event.why.startswith(WITHDRAWN):
                    self.questions.pop(asked.step, None)

    def _note_call(self, step: str, result: Raw, failed: bool) -> None:
        """Remember what came of a call, to see a run that goes in circles."""
        call = step.rpartition("#")[0] or step
        self.history.append(Call(call, values.digest(bytes(result)), failed))
        self.calls_made += 1

    def _settled(self, found: Recorded, event: e.AttemptSettled | e.LateOutcome) -> None:
        begun = self._begun.get(event.attempt)
        if begun is None:
            return
        name, step, done = begun.event.name, begun.event.step, event.outcome is Outcome.DONE
        record = Record(
            found.position, found.at, name, event.result, event.blob, event.error, event.left
        )
        if done:
            self.outcomes[begun.position] = record
        if step in self.records:
            return
        self._doubts.pop(step, None)
        if event.outcome is not Outcome.NOT_STARTED:
            self._note_call(step, event.result, not done)
        if done:
            self.records[step] = record
            self.texts.pop(step, None)
        elif event.outcome is Outcome.UNKNOWN:
            self._doubts[step] = begun.position

    def inherit(self, run: str) -> None:
        """What was heard so far is another run's: its results are at hand, its doubts its own."""
        own = {step: record.position for step, record in self.records.items() if record.position}
        if own:
            self.new_seeds[max(own, key=own.__getitem__)] = run
        elif self.new_seeds:
            self.new_seeds[list(self.new_seeds)[-1]] = run
        else:
            self.seed = run
        self.records = {
            step: msgspec.structs.replace(record, position=0)
            for step, record in self.records.items()
        }
        self.given_before |= {
            step: self.answers[question]
            for step, question in self.questions.items()
            if step.startswith(OF_THE_FUNCTION)
            and question in self.answers
            and self.answers[question].by
        }
        for forgotten in (self.questions, self.asked, self.answers, self._doubts, self._begun):
            forgotten.clear()
        for heard in (self._by_step, self.texts, self.history, self._redirects, self.outcomes):
            heard.clear()
        self.timers.clear()
        self.undoing.clear()
        self._undos.clear()
        self._forked, self.guards_inherited = True, False
        self.stale_question, self.nudged_at = None, None
        self.redirected_at = self._base = 0
        self.now = self._began[1]

    # ── the function's way ───────────────────────────────────────────────────────────────────

    def enter(self) -> None:
        """The function is called (again): it must ask for everything since its start."""
        self._occurrences.clear()
        self._told = 0
        self.brief, self.now = self._began
        on_record = {step: record.position for step, record in self.records.items()}
        self.unclaimed = {
            step
            for step, position in (on_record | self._doubts).items()
            if position > self._base or step in self._reused
        }

    @property
    def unfinished(self) -> bool:
        """Whether the function is not yet where it was."""
        return bool(self.unclaimed) or self._told < len(self._redirects)

    @property
    def _horizon(self) -> float:
        """Nothing beyond the next redirect is given out before it is told."""
        untold = self._redirects[self._told :]
        return untold[0].position if untold else math.inf

    def redirect_due(self, waiting: Iterable[str]) -> bool:
        """Whether the function has come to where the next redirect was told."""
        if self._told == len(self._redirects):
            return False
        told = self._redirects[self._told]
        missing = (self.position_of(step) < told.position for step in self.unclaimed)
        return told.calls <= set(waiting) and not any(missing)

    def redirect(self) -> None:
        """Tell the next redirect."""
        self.brief = self._redirects[self._told].brief
        self._told += 1

    def missing(self) -> list[str]:
        """What the function should have asked for and has not, in the order of its doing."""
        return sorted(self.unclaimed, key=self.position_of)

    def position_of(self, step: str) -> int:
        """Where a step was recorded, or begun if nobody knows how it ended."""
        return self.records[step].position if step in self.records else self._doubts[step]

    def name_of(self, step: str) -> str:
        """What a person calls a step."""
        record = self.records.get(step)
        if record is not None:
            return record.name or "something said"
        return self._begun[self._doubts[step]].event.name

    def identity(self, what: str) -> str:
        """The n-th time that this is asked for since the function was entered."""
        self._occurrences[what] = number = self._occurrences.get(what, 0) + 1
        return what if number == 1 else f"{what}#{number}"

    def scoped(self, what: str, *, reusable: bool = True) -> str:
        """An unkeyed identity: new after a snapshot, and after a redirect unless reusable."""
        since = self.scope if reusable else max(self.scope, self._unlike)
        return f"{what}@{since}" if since else what

    def forget_turn(self, what: str) -> None:
        """A call that was told of a redirect has not used up its turn."""
        self._occurrences[what] -= 1

    def find(self, step: str) -> Record | None:
        """The record of a step, if there is one and it is its turn."""
        record = self.records.get(step)
        return record if record is not None and record.position < self._horizon else None

    def claim(self, step: str) -> Record | None:
        """Ask for a step: its record, or None if it has to be done."""
        record = self.find(step)
        if record is not None:
            self.learn(record.at)
        if record is not None or step in self._doubts:
            self.unclaimed.discard(step)
        return record

    def learn(self, at: float) -> None:
        """The function has learnt something that happened at this time."""
        self.now = max(self.now, at)

    def is_reuse(self, step: str) -> bool:
        """Whether a record stems from before the last redirect that was not caught.

        Noted once: then it belongs to this brief too.
        """
        before = 0 < self.records[step].position < self.redirected_at
        return before and step not in self._reused

    def attempts_of(self, step: str) -> list[Begun]:
        """The attempts at a step, in order."""
        return [self._begun[position] for position in self._by_step.get(step, ())]

    def begun(self, position: int) -> Begun:
        """What was begun at a position."""
        return self._begun[position]
