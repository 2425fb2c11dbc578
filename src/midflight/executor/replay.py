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
from collections.abc import Collection
from typing import Final

import msgspec
from msgspec import Raw, Struct

from midflight.executor import values
from midflight.kernel import events as e
from midflight.kernel import machine
from midflight.kernel.decide import WITHDRAWN
from midflight.kernel.limits import Call
from midflight.kernel.phases import Effect, Outcome
from midflight.kernel.record import NULL, Blob, Event, Recorded, Who

REDIRECTED: Final = "redirected"
HISTORY: Final = 256  # calls in which circles are looked for
OF_THE_FUNCTION: Final = ("ask:", "approval:")  # questions that a fork need not ask again
KEYED: Final = "key="  # identities that a user chose; a snapshot does not forget them


Settled = e.StepSettled | e.AttemptSettled | e.LateOutcome


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
    """A redirect that was delivered to the calls that waited, or else to the next one."""

    position: int
    brief: str
    calls: frozenset[str] = frozenset()
    after: int = 0
    profile: str = ""


class Waiting:
    """A call of the function that waits and is no step; ``course`` is the one it is made on."""

    def __init__(self, identity: str, called: str, course: int) -> None:
        self.identity = identity
        self.called = called
        self.course = course


class Replay:
    """Fed with every event of the run, in order; asked by its steps."""

    def __init__(self) -> None:  # noqa: PLR0915 - each a thing that the function can ask for
        self.records: dict[str, Record] = {}
        self.outcomes: dict[int, Record] = {}  # of attempts that were done, also before a snapshot
        self.undoing: set[int] = set()  # effects whose undo was begun and may have done something
        self.unclaimed: set[str] = set()
        self.brief = ""
        self.profile = ""
        self.now = 0.0  # the time of the last thing the function has learnt
        self.state: e.StateSaved | None = None
        self.questions: dict[str, int] = {}  # by the step that asks
        self.asked: dict[int, e.QuestionOpened] = {}
        self.answers: dict[int, Answered] = {}
        self.guards: Counter[str] = Counter()  # how often each was set since the function's start
        self.left: dict[str, e.StepLeft] = {}  # steps that the function gave up waiting for
        self.guards_inherited = False
        self.guarded_at: dict[str, tuple[str, int]] = {}  # where each was first noted
        self.stale_question: int | None = None
        self.given_before: dict[str, Answered] = {}  # answers that a fork has taken over
        self.taken: dict[str, e.MessagesTaken] = {}
        self.spawned: dict[str, e.ChildSpawned] = {}
        self.children_ended: dict[str, tuple[float, str]] = {}  # when and how
        self.timers: Counter[str] = Counter()  # how often each was set
        self.texts: dict[str, str] = {}  # what steps without a record have said so far
        self._calls: deque[tuple[str, Settled, bool]] = deque(maxlen=HISTORY)
        self.calls_made = 0
        self.nudged_at: int | None = None
        self.calls = 0  # that the function has made since its start
        self.notices: list[tuple[float, str]] = []
        self.scope = 0  # the last snapshot
        self.redirected_at = 0  # the last time it was entered again with another brief
        self.seed = ""  # of the chances that the function begins with
        self.new_seeds: dict[str, str] = {}  # after the last step of another run: the next chances
        self._unlike = 0  # from here on what is not reusable is another step than before
        self._base = 0
        self._order: deque[tuple[int, str]] = deque()  # records still to be given, as they came
        self._began = ("", 0.0)  # brief and time where the function starts
        self._began_as = ""  # and the profile
        self._forked = False
        self._latest = ""
        self._latest_profile = ""
        self._redirects: list[Told] = []
        self._told = 0
        self._doubts: dict[str, int] = {}
        self._undos: dict[int, int] = {}
        self._reused: set[str] = set()
        self._excused: set[str] = set()  # a person has said to go on without them
        self._begun: dict[int, Begun] = {}
        self._by_step: dict[str, list[int]] = {}
        self._occurrences: dict[str, int] = {}
        self._free: dict[str, list[int]] = {}  # turns that were taken and not used

    # ── listening ────────────────────────────────────────────────────────────────────────────

    def hear(self, found: Recorded) -> None:  # noqa: C901, PLR0915 - one arm an event
        """Note what an event says about the function's way."""
        event, position = found.event, found.position
        match event:
            case e.AttemptStarted(tool=machine.TRIAGE):
                pass  # beside the function, which never learns of it
            case e.AttemptStarted():
                self._begun[position] = Begun(position, found.at, event)
                self._by_step.setdefault(event.step, []).append(position)
            case e.AttemptSettled() | e.LateOutcome():
                self._settled(found, event)
            case e.StepSettled():
                before = self.records.get(event.step)  # a read that was repeated keeps its place
                self.records[event.step] = Record(
                    before.position if before else position,
                    found.at,
                    event.name,
                    event.result,
                    event.blob,
                    event.error,
                )
                self._doubts.pop(event.step, None)
                self._note_call(event, event.step, bool(event.error))
                self.texts.pop(event.step, None)
            case e.TextStreamed():
                text = self.texts.get(event.step, "")
                self.texts[event.step] = text[: event.offset] + event.text
            case e.StepReused():
                self._reused.add(event.step)
            case e.StepLeft():
                self.left[event.step] = event
            case e.Spoke():
                self.records[event.step] = Record(position, found.at, "")
            case e.TimerSet():
                self.timers[event.name] += 1
            case e.MessagesTaken():
                self.taken[event.step] = event
                self.records[event.step] = Record(position, found.at, "")
            case e.ChildSpawned():
                self.spawned[event.step] = event
                self.records[event.step] = Record(position, found.at, "")
            case e.ChildSettled():
                self.children_ended[event.child] = (found.at, event.outcome)
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
                self._began_as = self._latest_profile
                self._redirects.clear()
                self._told = 0
                self._reused.clear()
                self._excused.clear()
                self.left.clear()
                self.guards.clear()
                if event.why == REDIRECTED:
                    self.redirected_at = self._unlike = position
            case e.RedirectDelivered():
                self._latest = event.brief
                self._latest_profile = event.profile or self._latest_profile
                calls = frozenset(event.calls)
                self._redirects.append(
                    Told(position, event.brief, calls, event.after, self._latest_profile)
                )
            case e.RecordsDropped():
                for step in event.steps:
                    self._excused.add(step)
                    self.left.pop(step, None)
                    self.unclaimed.discard(step)
                self._redirects = [
                    Told(told.position, told.brief, profile=told.profile)
                    for told in self._redirects
                ]
            case e.StateSaved():
                self._start_from(event, found)
            case e.UndoStarted() | e.UndoSettled():
                self._hear_undo(event, position)
            case _:
                self._hear_notices(event, found.at)

    def _created(self, event: e.RunCreated, found: Recorded) -> None:
        if event.fork_of:
            self.inherit(found.journal)
        else:
            self.seed, self.now = found.journal, found.at
        self._latest = self.brief = event.brief
        self._began = event.brief, self.now
        self._latest_profile = self.profile = self._began_as = event.profile

    def _hear_undo(self, event: e.UndoStarted | e.UndoSettled, position: int) -> None:
        if isinstance(event, e.UndoStarted):
            self._undos[position] = event.effect
            self.undoing.add(event.effect)
        elif event.undone or event.final:
            self.undoing.discard(self._undos[event.undo])

    def _hear_notices(self, event: Event, at: float) -> None:
        if isinstance(event, e.NoticeGiven):
            self.notices.append((at, event.text))
            if event.kind.startswith("stuck"):
                self.nudged_at = self.calls_made
        if isinstance(event, e.LimitsRaised):
            self.nudged_at = None
            self._calls.clear()

    def _start_from(self, event: e.StateSaved, found: Recorded) -> None:
        self.state, self.scope, self._base = event, found.position, found.position
        self._began = (self._latest, found.at)
        self._began_as = self._latest_profile
        self.learn(found.at)
        self.seed = f"{found.journal}@{found.position}"  # or replay would see other chances
        self.new_seeds.clear()
        self.records = {k: v for k, v in self.records.items() if k.startswith(KEYED)}
        self._redirects.clear()
        self._told = 0
        self._reused.clear()
        self._excused.clear()
        self.left.clear()
        self.questions.clear()
        self.timers.clear()
        self.guards.clear()
        self._begin_counting()

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

    def _note_call(self, event: Settled, step: str, failed: bool) -> None:
        """Remember what came of a call, to see a run that goes in circles."""
        self._calls.append((step, event, failed))
        self.calls_made += 1

    @property
    def history(self) -> list[Call]:
        """The last calls, and what came of them."""
        return [
            Call(
                _turn(step)[0],
                event.blob.hash if event.blob else values.digest(bytes(event.result)),
                failed,
            )
            for step, event, failed in self._calls
        ]

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
        thought = done and begun.event.effect is Effect.MODEL  # no two are the same
        if event.outcome not in {Outcome.NOT_STARTED, Outcome.ABORTED} and not thought:
            self._note_call(event, step, not done)
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
        for heard in (self._by_step, self.texts, self._calls, self._redirects, self.outcomes):
            heard.clear()
        self.notices.clear()
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
        self._begin_counting()
        self._told = 0
        self.brief, self.now = self._began
        self.profile = self._began_as
        on_record = {step: record.position for step, record in self.records.items()}
        self.unclaimed = (
            {
                step
                for step, position in (on_record | self._doubts).items()
                if position > self._base or step in self._reused
            }
            - self._excused
            - self.left.keys()
        )
        waiting = (
            (record.position, step)
            for step, record in self.records.items()
            if record.position > self._base and step in self.unclaimed
        )
        self._order = deque(sorted(waiting))

    def _begin_counting(self) -> None:
        self.calls = 0
        self._occurrences.clear()
        self._free.clear()

    @property
    def unfinished(self) -> bool:
        """Whether the function is not yet where it was."""
        return bool(self.unclaimed) or self._told < len(self._redirects)

    @property
    def _horizon(self) -> float:
        """Nothing beyond the next redirect is given out before it is told."""
        untold = self._told < len(self._redirects)
        return self._redirects[self._told].position if untold else math.inf

    def given(self, step: str) -> Record | None:
        """The record of the very next step, if nothing is left to look after: the usual case."""
        if not self._order or self._order[0][1] != step or self.left or self.tells:
            return None
        self._order.popleft()
        self.unclaimed.discard(step)
        record = self.records[step]
        self.now = max(self.now, record.at)
        return record

    def is_turn_of(self, step: str) -> bool:
        """Whether a call need not wait: what is on record for it can be given, or nothing is."""
        if step in self.left or (self.tells and self.is_told(step)):
            return False
        record = self.records.get(step)
        return record is None or (record.position < self._horizon and self.is_next(step))

    def is_next(self, step: str) -> bool:
        """Whether everything that the function had learnt before this was given to it again.

        So what it does in parallel comes to its ends in the order of that time.
        """
        while self._order and self._order[0][1] not in self.unclaimed:
            self._order.popleft()
        return not self._order or self.records[step].position <= self._order[0][0]

    def give_in_any_order(self) -> bool:
        """The function asks in another order; what is on record may be given all the same."""
        kept, self._order = self._order, deque()
        return bool(kept)

    def question_of(self, step: str) -> int | None:
        """The question that a step has asked, unless that was after a redirect still to be told."""
        question = self.questions.get(step)
        return question if question is not None and question < self._horizon else None

    @property
    def tells(self) -> bool:
        """Whether there is a redirect that the function has still to be told."""
        return self._told < len(self._redirects)

    def redirect_due(self, waiting: Collection[str]) -> bool:
        """Whether the function has come to where the next redirect was told."""
        if self._told == len(self._redirects):
            return False
        told = self._redirects[self._told]
        missing = (self.position_of(step) < told.position for step in self.unclaimed)
        there = told.calls <= set(waiting) and (bool(told.calls) or self.calls >= told.after)
        return there and not any(missing)

    def redirect(self) -> Told:
        """Tell the next redirect."""
        told = self._redirects[self._told]
        self.brief, self.profile = told.brief, told.profile
        self._told += 1
        return told

    def is_told(self, step: str) -> bool:
        """Whether a call is one of those that the next redirect is told to."""
        untold = self._redirects[self._told :]
        return bool(untold) and step in untold[0].calls

    def is_done(self, step: str) -> bool:
        """Whether a call has what it waited for, and only has to give it to the function."""
        return step in self.records or step in self.spawned or step in self.taken

    def missing(self) -> list[str]:
        """What the function should have asked for and has not, in the order of its doing."""
        return sorted(self.unclaimed, key=self.position_of)

    def position_of(self, step: str) -> int:
        """Where a step was recorded, or begun if nobody knows how it ended."""
        if step in self.records:
            return self.records[step].position
        return self._doubts.get(step, self._base + 1)

    def began_at(self, step: str) -> int:
        """Where a step was begun; a plain read is where it was recorded."""
        attempts = self._by_step.get(step)
        return attempts[0] if attempts else self.position_of(step)

    def name_of(self, step: str) -> str:
        """What a person calls a step."""
        if step in self.left:
            return f"giving up {self.left[step].name}"
        record = self.records.get(step)
        if step in self.spawned:
            return f"background run: {self.spawned[step].brief}"
        if record is not None:
            return record.name or ("messages read" if step in self.taken else "something said")
        return self._begun[self._doubts[step]].event.name

    def identity(self, what: str) -> str:
        """The n-th time that this is asked for since the function was entered.

        Once needs no number, unless what follows a ``#`` of its own could be taken for one.
        """
        free = self._free.get(what)
        if free:
            number = min(free)
            free.remove(number)
        else:
            self._occurrences[what] = number = self._occurrences.get(what, 0) + 1
        return what if number == 1 and "#" not in what else f"{what}#{number}"

    def scoped(self, what: str, *, reusable: bool = True) -> str:
        """An unkeyed identity: new after a snapshot, and after a redirect unless reusable."""
        since = self.scope if reusable else max(self.scope, self._unlike)
        return f"{what}@{since}" if since else what

    def forget_turn(self, step: str) -> None:
        """A call that was told of a redirect has not used up its turn."""
        what, number = _turn(step)
        self._free.setdefault(what, []).append(number)

    def find(self, step: str) -> Record | None:
        """The record of a step, if there is one and it is its turn."""
        record = self.records.get(step)
        return record if record is not None and record.position < self._horizon else None

    def claim(self, step: str) -> Record | None:
        """Ask for a step: its record, or None if it has to be done."""
        record = self.find(step)
        if record is not None:
            self.learn(record.at)
        if record is not None or self._doubts.get(step, math.inf) < self._horizon:
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


def _turn(step: str) -> tuple[str, int]:
    """What an identity stands for, and for which time: the inverse of ``Replay.identity``."""
    what, mark, number = step.rpartition("#")
    return (what, int(number)) if mark else (step, 1)
