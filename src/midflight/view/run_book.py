"""Views of a run and of a thread, folded from their records one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from midflight.control.recorder import offers
from midflight.control.todos import TodoOffer
from midflight.control.transcript import Line, Lines
from midflight.journal import events as e
from midflight.journal.events import QuestionOpened
from midflight.journal.fold import SIGNS_OF_LIFE, advance
from midflight.journal.limits import meters
from midflight.journal.phases import ENDS, Cause, Phase
from midflight.journal.preview import NOT_AT_HAND, Below
from midflight.journal.record import NULL, Event, Recorded
from midflight.journal.requests import HANDED_OVER
from midflight.journal.state import Attempt, RunState, Spent, needs_driver, seconds_in_motion
from midflight.journal.status import Receipt, receipt, status, undoing
from midflight.journal.threads.thread import ThreadState
from midflight.stores.hints import Delta
from midflight.stores.protocol import Row
from midflight.view.control_bar import bar
from midflight.view.data import (
    Asked,
    Background,
    Change,
    InFlight,
    Mark,
    RunNews,
    RunSheet,
    StepSheet,
    ThreadSheet,
    UnreadMessage,
)
from midflight.view.question_form import all_facts, ways
from midflight.view.shown_values import CAP, cap_in, short, summary
from midflight.view.step_list import Steps, fork_from, mark_of
from midflight.view.step_status import without_driver

STEP_FAILED: Final = re.compile(r"^StepFailed: step (['\"]).*?\1 failed: ", re.DOTALL)
"""The beginning of a run's error that names its step. A journal keeps the error as one text."""

SETTLED_BY: Final = {CAP: "raise limits", HANDED_OVER: "hand back"}
"""Kinds of questions that take no answer -> the verb that settles them."""


def accounted(state: RunState, below: Below = NOT_AT_HAND) -> dict[str, Any]:
    """The two fields of ``RunView`` for which every effect of the run is looked at."""
    return {"preview": offers(state, below), "receipt": receipt(state)}


def viewed(
    state: RunState, now: float, questions: list[Asked], undriven_since: float | None = None
) -> dict[str, Any]:
    """The other fields of ``RunView``, as of a time."""
    alone = undriven_since is not None
    return {
        "run": state.journal,
        "head": state.head,
        "thread": state.thread,
        "agent": state.agent,
        "title": state.title,
        "brief": state.brief,
        "profile": state.profile,
        "parent": state.parent,
        "fork_of": state.fork_of,
        "mode": state.mode,
        "phase": state.phase,
        "status": status(state, now, alone=alone),
        "holds": sorted(state.holds),
        "human": state.human,
        "created_at": state.created_at,
        "updated_at": state.at,
        "plan": state.plan,
        "limits": state.limits,
        "spent": _spent(state, now, alone),
        "meters": meters(state, now, alone=alone),
        "questions": questions,
        "in_flight": [_in_flight(attempt) for attempt in state.open.values()],
        "children": dict(state.children),
        "notices": list(state.notices),
        "error": state.error,
        "undriven_since": undriven_since,
        "reads_messages": state.reads_messages,
        "parked_for": state.parked_for if Cause.PARKED in state.holds else "",
        "undoing": undoing(state),
        "cause": STEP_FAILED.sub("", state.error),
    }


def _spent(state: RunState, now: float, alone: bool) -> Spent:
    """Return what the run has spent, with its seconds in motion counted up to now."""
    spent = state.spent
    return Spent(
        spent.steps,
        spent.tool_calls,
        spent.tokens,
        spent.usd,
        spent.unpriced,
        seconds_in_motion(state, now, alone=alone),
    )


def asked(position: int, event: QuestionOpened) -> Asked:
    """A question with its schema, which is in the journal only."""
    cap, why = cap_in(event) if event.kind == CAP else ("", "")
    schema = msgspec.json.decode(event.schema or NULL)
    verb = SETTLED_BY.get(event.kind, "answer")
    return Asked(
        cap=cap,
        why=why,
        question=position,
        kind=event.kind,
        message=event.message,
        schema=event.schema or NULL,
        about=event.about,
        expires_at=event.expires_at,
        answerers=event.answerers,
        facts=tuple(all_facts(schema)),
        verb=verb,
        ways=ways(schema) if verb == "answer" else (),
        skip="It goes on without an answer" if event.kind == "ask" else "",
    )


def _in_flight(attempt: Attempt) -> InFlight:
    return InFlight(
        position=attempt.position,
        name=attempt.name,
        noun=attempt.label,
        effect=attempt.effect,
        irreversible=attempt.irreversible,
        can_be_stopped=attempt.can_be_stopped,
    )


def unread(talk: ThreadState) -> list[UnreadMessage]:
    """Return the messages of a thread that no run has read yet."""
    return [
        UnreadMessage(m.position, m.text, m.who.by, m.who.role, m.choice, m.at)
        for m in talk.unread.values()
    ]


POINTS_MAX: Final = 200  # of the curve of spending; a screen is not much wider
RESULT_WIDTH: Final = 400
Spend = tuple[float, float, int]
BESIDE: Final = {
    e.StepSettled,
    e.TextStreamed,
    e.UsageSpent,
    e.TimerSet,
    e.TimerCleared,
    e.StateSaved,
}
"""Events that change no effect and not what a verb would do, unless they take an effect over."""


class RunBook:
    """Takes the records of one run, in order, and gives its sheet."""

    def __init__(self, journal: str) -> None:
        self.state = RunState(journal)
        self._steps = Steps()
        self._asked: dict[int, Asked] = {}
        self._changes: list[Change] = []
        self._marks: list[Mark] = []
        self._curve = Curve()
        self._children: dict[str, Background] = {}
        self.texts: dict[str, Delta] = {}  # of open steps, each from its beginning
        self._accounted: dict[str, Any] = {}
        self._result = ""
        self._ended_at: float | None = None
        self._told = (0, 0)  # marks and changes that ``news`` has given
        self._undriven_since: float | None = None

    @property
    def children(self) -> tuple[str, ...]:
        """The runs that it has begun."""
        return tuple(self._children)

    def knows(self, step: str) -> bool:
        """Return whether this step has begun, as far as the journal says."""
        return self._steps.knows(step)

    def undriven(self, since: float | None) -> bool:
        """Note since when nobody drives it, which no record says; whether that is news."""
        before, self._undriven_since = self._undriven_since, since
        return before != since

    def take(self, record: Recorded) -> None:
        """Fold one more record."""
        event, state = record.event, self.state
        if type(event) in SIGNS_OF_LIFE:
            self._undriven_since = None
        mark = mark_of(record, before=state)
        self._note_change(event, record.at)
        advance(state, record)
        if type(event) not in BESIDE or getattr(event, "earlier", None) is not None:
            self._accounted = {}
        self._steps.take(record, state)
        self._curve.take(record.at, state)
        self._note(event, record)
        if mark is not None:
            self._marks.append(mark)

    def _note(self, event: Event, record: Recorded) -> None:
        match event:
            case e.QuestionOpened():
                self._asked[record.position] = asked(record.position, event)
            case e.TextStreamed():
                self.hear(event)
            case e.StepSettled():
                self.texts.pop(event.step, None)
            case e.AttemptSettled():
                self.texts = {s: d for s, d in self.texts.items() if d.attempt != event.attempt}
            case e.ChildSpawned():
                title = short(event.brief)
                child = Background(event.child, title, Phase.QUEUED, record.at, None, "")
                self._children[event.child] = child
            case e.ChildSettled() if event.child in self._children:
                ended = structs.replace(
                    self._children[event.child], phase=event.outcome, ended_at=record.at
                )
                self._children[event.child] = ended
            case e.RunFinished():
                self._result = short(summary(event.result, event.blob), RESULT_WIDTH)
            case _:
                pass
        if self.state.phase in ENDS:
            self.texts.clear()
        self._ended_at = (self._ended_at or record.at) if self.state.phase in ENDS else None

    def _note_change(self, event: Event, at: float) -> None:
        """Note a redirect; one that another replaces before the run has heard it is dropped."""
        if isinstance(event, e.RedirectRequested):
            if self._changes and not self._changes[-1].applied:
                self._changes.pop()
            change = Change(at, event.who.by, self.state.brief, event.text, applied=False)
            self._changes.append(change)
        elif isinstance(event, e.RedirectDelivered) and self._changes:
            heard = structs.replace(self._changes[-1], was=self.state.brief, now=event.brief)
            self._changes[-1] = structs.replace(heard, applied=True)

    def hear(self, said: Delta | e.TextStreamed) -> None:
        """Add a piece of text, which may come live and then from the journal, which lags behind."""
        before = self.texts.get(said.step)
        words = before.text if before is not None and before.attempt == said.attempt else ""
        text = words[: said.offset] + said.text
        if len(text) >= len(words):
            self.texts[said.step] = Delta(self.state.journal, said.step, said.attempt, 0, text)

    def news(self) -> RunNews:
        """Return what has come or changed since the last call, and every open question.

        Its cost does not grow with the length of the run, so a follower may ask after each record.
        """
        marks, changes = self._told
        ready = [change for change in self._changes[changes:] if change.applied]
        self._told = (len(self._marks), changes + len(ready))
        return RunNews(self._steps.changed(self.state), self._marks[marks:], ready, self._open())

    def outline(self) -> RunSheet:
        """Return the sheet without what grows with the run, for a picture that is drawn often.

        It has the steps that have not settled and what is planned. Settled steps, marks, the
        receipt and what each verb would do are left out.
        """
        empty = Receipt(self.state.journal, self.state.phase, (), ())
        left_out = {"preview": {}, "receipt": empty, "marks": [], "fork_from": None}
        return self._sheet({}, self._steps.unsettled(self.state), left_out)

    def sheet(self, rows: Mapping[str, Row] | None = None) -> RunSheet:
        """Make the sheet of the run as it stands; ``rows`` are those of the runs it has begun."""
        state = self.state
        self._accounted = self._accounted or accounted(state)
        steps = self._steps.sheets(state)
        forks = fork_from(state.phase, steps, self._failed())
        growing = self._accounted | {"marks": list(self._marks), "fork_from": forks}
        made = self._sheet(rows or {}, steps, growing)
        return structs.replace(made, bar=bar(made))

    def _sheet(
        self, rows: Mapping[str, Row], steps: list[StepSheet], growing: dict[str, Any]
    ) -> RunSheet:
        state = self.state
        undriven = self._undriven_since if needs_driver(state) else None
        if undriven is not None:
            steps = [without_driver(step, undriven) for step in steps]
        by = state.ended_by.by if state.ended_by is not None and not state.alive else ""
        return RunSheet(
            **viewed(state, state.at, self._open(), undriven),
            **growing,
            position=state.relevant,
            moving_since=state.moving_since,
            steps=steps,
            done=state.done,
            changes=list(self._changes),
            spend=list(self._curve.points),
            background=[_now(child, rows.get(run)) for run, child in self._children.items()],
            result=self._result if state.phase is Phase.DONE else "",
            ended_at=self._ended_at,
            ended_by=by,
            failed_step=self._failed(),
        )

    def _open(self) -> list[Asked]:
        return [self._asked[position] for position in self.state.questions]

    def _failed(self) -> str:
        return self._steps.failed if self.state.phase is Phase.FAILED else ""


class Curve:
    """Spending over time in a bounded number of points; the last one is always the present."""

    def __init__(self) -> None:
        self.points: list[Spend] = []
        self._every = 1
        self._count = 0

    def take(self, at: float, state: RunState) -> None:
        """Add a point if something was spent."""
        last = self.points[-1] if self.points else (0.0, 0.0, 0)
        spent = (at, state.spent.usd, state.spent.tokens)
        if spent[1:] == last[1:]:
            return
        if self._count % self._every and self.points:
            self.points[-1] = spent
        else:
            self.points.append(spent)
        self._count += 1
        if len(self.points) > POINTS_MAX:
            self.points = self.points[1::2]
            self._every *= 2


def _now(child: Background, row: Row | None) -> Background:
    """Return a child as its own row tells of it, unless only its parent knows that it has ended."""
    if row is None or row.journal != child.run:
        return child
    if child.ended_at is not None and row.phase not in ENDS:
        return child  # the row was read before
    steps = f"{row.steps} step{'s' * (row.steps != 1)}"
    ended = child.ended_at or (row.updated_at if row.phase in ENDS else None)
    title = row.title or child.title
    return structs.replace(
        child, title=title, phase=row.phase, ended_at=ended, status=f"{row.phase}, {steps}"
    )


class ThreadBook:
    """Takes the records of one thread, in order, and gives its sheet."""

    def __init__(self, journal: str) -> None:
        self.state = ThreadState(journal)
        self._lines = Lines()

    def take(self, record: Recorded) -> None:
        """Fold one more record."""
        advance(self.state, record)
        self._lines.take(record)

    def line(self, position: int) -> Line | None:
        """Return the line that a reader sees for the record at a position, if there is one."""
        return self._lines.at(position)

    def sheet(self, rows: Iterable[Row] = (), todos: Iterable[TodoOffer] = ()) -> ThreadSheet:
        """Make the sheet of the thread as it stands; ``rows`` and ``todos`` need other journals."""
        state = self.state
        return ThreadSheet(
            thread=state.journal,
            head=state.head,
            title=state.title,
            front=state.front,
            hosted=state.host is not None,
            created_at=state.created_at,
            updated_at=state.at,
            lines=self._lines.all(),
            todos=list(todos),
            unread=unread(state),
            runs=list(rows),
        )
