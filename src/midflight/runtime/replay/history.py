"""The journal's knowledge of a function's steps, by their identity.

It hears every event of the run in order, and those of the run that it was forked from. ``cursor``
shows how the function finds its way through all this again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Raw

from midflight.inputs import steady
from midflight.journal import events as e
from midflight.journal import transition_table
from midflight.journal.phases import Effect, Outcome
from midflight.journal.record import NULL, Earlier, Event, Recorded
from midflight.journal.requests import HANDED_OVER, WITHDRAWN
from midflight.journal.state import KEYED, LOST, SETTLE, UNTRUSTED
from midflight.runtime.replay.step_records import (
    ABORTED,
    Answered,
    Begun,
    Circles,
    Cut,
    Entry,
    Moment,
    Record,
    Told,
)
from midflight.runtime.values import DIGEST_BYTES

REDIRECTED: Final = "redirected"
TOUCHING: Final = {e.LateOutcome, e.StepReused, e.UndoStarted, e.UndoSettled}
"""Events that may change what is known of earlier attempts; some others may, too."""
OF_THE_FUNCTION: Final = ("ask:", "approval:")  # questions that a fork need not ask again
ASKED_BY_IT: Final = (*OF_THE_FUNCTION, f"{HANDED_OVER}:")  # all questions of the function itself


@dataclass(slots=True, eq=False)
class History:
    """The history of one run. It has dicts, because an empty set weighs three times as much.

    The function changes two parts of it on its way: the steps that it has still to ask for, and the
    signals that it was told.
    """

    records: dict[str, Record] = field(default_factory=dict)
    outcomes: dict[int, Record] = field(default_factory=dict)  # of attempts done, all of them
    undoing: dict[int, None] = field(default_factory=dict)  # effects whose undo may have done some
    unclaimed: set[str] = field(default_factory=set)
    left_over: dict[str, None] = field(default_factory=dict)  # on record, need not be asked for
    taken_over: dict[Earlier, str] = field(default_factory=dict)  # effects, by which step
    brief: str = ""
    profile: str = ""
    input: Raw = field(default_factory=lambda: NULL)
    begun_for: tuple[int, ...] = ()  # messages of the thread
    now: float = 0.0  # the time of the last thing the function has learnt
    state: e.StateSaved | None = None
    questions: dict[str, int] = field(default_factory=dict)  # by the step that asks
    asked: dict[int, e.QuestionOpened] = field(default_factory=dict)
    answers: dict[int, Answered] = field(default_factory=dict)
    entry: Entry = field(default_factory=Entry)
    guards_inherited: bool = False
    guarded_at: dict[str, tuple[str, int]] = field(default_factory=dict)  # where first noted
    stale_question: int | None = None
    given_before: dict[str, Answered] = field(default_factory=dict)  # that a fork has taken over
    taken: dict[str, e.MessagesTaken] = field(default_factory=dict)
    spawned: dict[str, e.ChildSpawned] = field(default_factory=dict)
    children_ended: dict[str, tuple[float, str]] = field(default_factory=dict)  # when and how
    timers: dict[str, int] = field(default_factory=dict)  # how often each was set
    set_at: dict[str, Moment] = field(default_factory=dict)  # when each timer was set last
    asked_at: dict[int, Moment] = field(default_factory=dict)  # questions that expire
    texts: dict[str, str] = field(default_factory=dict)  # the words of steps that have no record
    circles: Circles = field(default_factory=Circles)
    asked_before: dict[str, e.QuestionOpened] = field(default_factory=dict)  # those questions
    calls: int = 0  # that the function has made since its start
    notices: list[tuple[float, str]] = field(default_factory=list)
    scope: int = 0  # the last snapshot
    redirected_at: int = 0  # the last time it was entered again with another brief
    digest_bytes: int = DIGEST_BYTES  # in the identities of steps; shorter in older journals
    seed: str = ""  # of the chances that the function begins with
    new_seeds: dict[str, str] = field(default_factory=dict)  # after another run's last step: next
    _entered: bool = False
    _unlike: int = 0  # from here on what is not reusable is another step than before
    _forked: bool = False
    _latest: str = ""
    _latest_profile: str = ""
    _doubts: dict[str, int] = field(default_factory=dict)
    _undos: dict[int, int] = field(default_factory=dict)
    _begun: dict[int, Begun] = field(default_factory=dict)
    unknown_at: dict[int, Moment] = field(default_factory=dict)  # attempts that are in doubt
    cuts: dict[int, Cut] = field(default_factory=dict)  # attempts that a person has stopped
    _by_step: dict[str, list[int]] = field(default_factory=dict)
    _occurrences: dict[str, int] = field(default_factory=dict)
    _free: dict[str, list[int]] = field(default_factory=dict)  # turns that were taken and not used
    packed_to: int = 0  # records and attempts up to here are in the parts of a stored fold
    unpacked: frozenset[int] = frozenset()  # attempts that were under way then, and are in none
    touched: bool = False  # an attempt of a part is not as it was
    changed: dict[str, Record] = field(default_factory=dict)  # of those the ones that have changed
    pack_at: float = math.inf  # the position at which a stored fold is due
    pack: Callable[[], object] = bool  # begins to store it
    older: dict[str, None] = field(default_factory=dict)  # steps in parts that have no record

    def hear(self, found: Recorded) -> None:  # noqa: C901, PLR0915 - one arm an event
        """Note what an event says about the function's way."""
        event, position = found.event, found.position
        if position >= self.pack_at:
            self.pack_at = math.inf
            self.pack()
        self.touched |= type(event) in TOUCHING
        match event:
            case e.StepSettled():
                before = self.records.get(event.step)  # a read that was repeated keeps its place
                at, again = (before.position, position) if before else (position, 0)
                result, blob, error = event.result, event.blob, event.error
                record = Record(at, found.at, event.name, result, blob, error, repeated_at=again)
                self._keep(event.step, record)
                self._doubts.pop(event.step, None)
                self.touched |= event.earlier is not None
                if event.earlier is None:
                    self.circles.note(event, event.step, bool(event.error))
                else:
                    self.taken_over[msgspec.structs.replace(event.earlier, label="")] = event.step
                self.texts.pop(event.step, None)
            case e.AttemptStarted(tool=transition_table.TRIAGE):  # layer replay-knows-nothing
                pass  # beside the function, which never learns of it
            case e.AttemptStarted():
                self._begun[position] = Begun(position, found.at, event)
                self._attempted(event.step, position)
            case e.AttemptSettled() | e.LateOutcome():
                self._settled(found, event)
            case e.TextStreamed():
                text = self.texts.get(event.step, "")
                self.texts[event.step] = text[: event.offset] + event.text
            case e.StepReused():
                self.entry.reused[event.step] = None
            case e.StepLeft():
                self.entry.left[event.step] = event
            case e.Spoke():
                self._keep(event.step, Record(position, found.at, ""))
            case e.TimerSet():
                self.touched |= SETTLE in event.name  # it is about an attempt
                # layer takeover-gives-no-more-tries
                self.timers[event.name] = self.timers.get(event.name, 0) + 1
                self.set_at[event.name] = Moment(found.at, steady(), position)
            case e.MessagesTaken():
                self.taken[event.step] = event
                self._keep(event.step, Record(position, found.at, ""))
            case e.ChildSpawned():
                self.spawned[event.step] = event
                self._keep(event.step, Record(position, found.at, ""))
            case e.ChildSettled():
                self.children_ended[event.child] = (found.at, event.outcome)
            case e.GuardSet() if not event.why:
                guards = self.entry.guards
                guards[event.name] = guards.get(event.name, 0) + 1
                self.guarded_at.setdefault(event.name, (found.journal, position))
            case e.GuardSet():
                self.guards_inherited |= event.why == "inherited"
            case e.QuestionOpened() | e.QuestionAnswered() | e.QuestionClosed():
                self._hear_question(found, event)
            case _:
                self._hear_course(found)

    def _hear_course(self, found: Recorded) -> None:
        """Note where the function starts from, and what it is told on the way."""
        event, position = found.event, found.position
        match event:
            case e.RunCreated():
                self._created(event, found)
            case e.RunEntered():
                if not self._entered:
                    self._entered, self.digest_bytes = True, event.digest_bytes
                forked = self._forked and event.why != REDIRECTED
                at = self.entry.at if forked else found.at  # or it would see another time
                self.entry = Entry(position, self._latest, self._latest_profile, at)
                if event.why == REDIRECTED:
                    self.redirected_at = self._unlike = position
            case e.RedirectDelivered():
                self._latest = event.brief
                self._latest_profile = event.profile or self._latest_profile
                calls = frozenset(event.calls)
                doubts = frozenset(self._doubts)
                self.entry.redirects.append(
                    Told(position, event.brief, calls, event.after, self._latest_profile, doubts)
                )
            case e.RecordsDropped():
                self.entry.excuse(event.steps, take_over=event.take_over)
                self.unclaimed.difference_update(event.steps)
                self.left_over.update(dict.fromkeys(event.steps))
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
        self.input, self.begun_for = event.input, event.messages
        self._latest = self.brief = event.brief
        self._latest_profile = self.profile = event.profile
        self.entry = Entry(0, event.brief, event.profile, self.now)

    def _hear_undo(self, event: e.UndoStarted | e.UndoSettled, position: int) -> None:
        if isinstance(event, e.UndoStarted):
            self._undos[position] = event.effect
            self.undoing[event.effect] = None
        elif event.final and not event.undone:
            self.undoing.pop(self._undos[event.undo], None)

    def _hear_notices(self, event: Event, at: float) -> None:
        if isinstance(event, e.NoticeGiven) and event.kind != UNTRUSTED:  # that, it says itself
            self.notices.append((at, event.text))
            if event.kind.startswith("stuck"):
                self.circles.nudged()
        if isinstance(event, e.LimitsRaised):
            self.circles.forget()

    def _start_from(self, event: e.StateSaved, found: Recorded) -> None:
        carried, counting = self._not_asked_for(), self.entry.counting
        self.state, self.scope = event, found.position
        self.entry = Entry(found.position, self._latest, self._latest_profile, found.at)
        self.entry.carried, self.entry.counting = carried, counting
        self.learn(found.at)
        self.seed = f"{found.journal}@{found.position}"  # or replay would see other chances
        self.new_seeds.clear()
        if self.packed_to:
            self.older.update(dict.fromkeys(self.records))
        self.records = {k: v for k, v in self.records.items() if k.startswith(KEYED)}
        self.questions.clear()
        self.timers.clear()
        self._begin_counting()

    def _not_asked_for(self) -> dict[str, None]:
        """Effects that were left over before a snapshot: it settles nothing about them."""
        entry = self.entry
        carried = entry.carried | entry.excused
        if self.redirected_at > self.scope:
            of_the_earlier_brief = (
                step
                for step, attempts in self._by_step.items()
                if self.scope < attempts[0] < entry.position and step not in entry.reused
            )
            carried |= dict.fromkeys(of_the_earlier_brief)
        return carried

    def _hear_question(
        self,
        found: Recorded,
        event: e.QuestionOpened | e.QuestionAnswered | e.QuestionClosed,
    ) -> None:
        match event:
            case e.QuestionOpened():
                self.asked[found.position] = event
                if event.expires_at is not None:
                    self.asked_at[found.position] = Moment(found.at, steady(), found.position)
                if event.kind == "stale":
                    self.stale_question = found.position
                if event.step:
                    self.questions[event.step] = found.position
            case e.QuestionAnswered():
                at, place = found.at, found.position
                given = Answered(at, event.payload, event.who, position=place)
                none = Answered(at, closed=f"declined by {event.who.by}", position=place)
                self.answers[event.question] = none if event.declined else given
            case e.QuestionClosed():
                closed = Answered(found.at, closed=event.why, position=found.position)
                self.answers.setdefault(event.question, closed)
                asked = self.asked.get(event.question)
                if asked is not None and event.why.startswith(WITHDRAWN):
                    self.questions.pop(asked.step, None)
                    self.unclaimed.discard(asked.step)

    def _settled(self, found: Recorded, event: e.AttemptSettled | e.LateOutcome) -> None:
        begun = self._begun.get(event.attempt)
        if begun is None:
            return
        name, step, done = begun.event.name, begun.event.step, event.outcome is Outcome.DONE
        # layer after-crash-function-sees-time
        at = (isinstance(event, e.AttemptSettled) and event.told) or found.at
        record = Record(found.position, at, name, event.result, event.blob, event.error, event.left)
        if done:
            self.outcomes[begun.position] = record
        if event.outcome is Outcome.UNKNOWN:
            self.unknown_at[begun.position] = Moment(found.at, steady(), found.position)
        if step in self.records:
            return
        self._doubts.pop(step, None)
        thought = done and begun.event.effect is Effect.MODEL  # no two are the same
        late = isinstance(event, e.LateOutcome) and not done
        lost = late or event.error in LOST  # that is nothing the function has done
        if event.outcome not in {Outcome.NOT_STARTED, Outcome.ABORTED} and not (thought or lost):
            self.circles.note(event, step, not done)
        if done:
            self.records[step] = record
            self.texts.pop(step, None)
        elif event.outcome is Outcome.UNKNOWN:
            self._doubts[step] = begun.position
            if event.error.startswith(ABORTED):
                text = self.texts.get(step, "")
                self.cuts[begun.position] = Cut(event.error, found.at - begun.at, text)
        else:
            # layer lost-worker-tells-late
            self.unclaimed.discard(step)  # told late: there is nothing any more to be asked for

    def _attempted(self, step: str, position: int) -> None:
        attempts = self._by_step.get(step)  # layer earlier-attempts-unpacked
        if attempts is None:
            self._by_step[step] = [position]
        else:
            attempts.append(position)

    def _keep(self, step: str, record: Record) -> None:
        before = self.records.get(step)
        if before is not None and before.position <= self.packed_to:
            self.changed[step] = record  # the one in a part is out of date
        self.records[step] = record

    def inherit(self, run: str) -> None:
        """Take what was heard so far as another run's: keep its results, and forget its doubts."""
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
        taken_over = {
            step: question
            for step, question in self.questions.items()
            if step.startswith(OF_THE_FUNCTION)
            and question in self.answers
            and self.answers[question].by
        }
        self.given_before |= {step: self.answers[at] for step, at in taken_over.items()}
        self.asked_before |= {step: self.asked[at] for step, at in taken_over.items()}
        for heard in (
            *(self.questions, self.asked, self.answers, self._doubts, self._begun),
            *(self.unknown_at, self.cuts, self.asked_at, self.set_at, self._by_step),
            *(self.texts, self.outcomes, self.left_over, self.taken_over),
            *(self.notices, self.timers, self.undoing, self._undos),
        ):
            heard.clear()
        self._forked, self.guards_inherited = True, False
        self.stale_question = None
        self.circles.forget()
        self.redirected_at = 0
        self.now = self.entry.at

    def let_go(self) -> None:
        """Forget the attempts, and what would unpack them: that knows this history."""
        self.pack = bool
        for heard in (self._begun, self.outcomes, self._by_step):
            heard.clear()

    def _begin_counting(self) -> None:
        self.calls = 0
        self._occurrences.clear()
        self._free.clear()

    def child_ended(self, child: str, at: float, outcome: str) -> None:
        """Note the end of a child of the run that this one was forked from."""
        self.children_ended[child] = (at, outcome)

    def learn(self, at: float) -> None:
        """The function has learnt something that happened at this time."""
        self.now = max(self.now, at)
