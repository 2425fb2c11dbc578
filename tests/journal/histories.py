"""Reachable runs: every event that fits a state, and journals grown from nothing but numbers.

A number is spent choice by choice on the next event, whose fields are then taken from the state.
Events go in by the same doors as in life (requests through ``decide``, facts through ``record``),
and what the kernel refuses is left out: so everything that is generated can really happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from hypothesis import strategies as st

from journal.journals import ANN, BOB, OLGA, Run, queued, running, waiting
from midflight.errors import IllegalEvent, Refused
from midflight.journal import events as e
from midflight.journal import requests as decisions
from midflight.journal.phases import Cause, Effect, Outcome
from midflight.journal.record import Event, Fact, Limits, Request, Usage
from midflight.journal.requests import Known
from midflight.journal.state import RunState
from midflight.journal.transition_table import TRANSITIONS, TRIAGE, check

T = TypeVar("T")

NUMBERS: Final = 2**24  # larger ranges are not drawn evenly


class Chance:
    """One number, spent choice by choice."""

    def __init__(self, number: int) -> None:
        self._left = number

    def among(self, options: Sequence[T]) -> T:
        self._left, choice = divmod(self._left, len(options))
        return options[choice]

    def position(self, places: Iterable[int], state: RunState) -> int:
        """One of them, or a place where there is nothing of the kind."""
        return self.among(list(places) or [state.head])

    def epoch(self, state: RunState) -> int:
        """Mostly today's."""
        return state.epoch - self.among((0, 0, 0, 0, 0, 0, 0, 1))


Maker = Callable[[RunState, Chance], Event]


def _attempt(state: RunState, chance: Chance) -> e.AttemptStarted:
    """A look at messages is a model call, and has nothing to undo."""
    epoch, step = chance.epoch(state), chance.among(("book", "pay", "mail", "think", "triage:3"))
    looks = step == "triage:3"
    some = (Effect.WRITE, Effect.ONCE, Effect.ONCE, Effect.MODEL, Effect.READ)
    return e.AttemptStarted(
        epoch=epoch,
        step=step,
        name="tool",
        tool=TRIAGE if looks else "",
        effect=Effect.MODEL if looks else chance.among(some),
        idempotency_key="key",
        undoable=not looks and chance.among((True, True, False)),
        irreversible=not looks and chance.among((False, False, True)),
        release_always=not looks and chance.among((False, False, True)),
    )


MAKERS: Final[dict[type[Event], Maker]] = {
    e.RunCreated: lambda s, c: e.RunCreated(who=ANN, agent="trip", thread="t-1", brief="Again"),
    e.DriverClaimed: lambda s, c: e.DriverClaimed(
        epoch=c.epoch(s) + 1,
        driver="d-2",
        driven_until=s.driven_at if s.entered and s.driver != "d-2" else None,
    ),
    e.DriverReleased: lambda s, c: e.DriverReleased(epoch=c.epoch(s)),
    e.DriverRevoked: lambda s, c: e.DriverRevoked(scope="all"),
    e.RunEntered: lambda s, c: e.RunEntered(epoch=c.epoch(s)),
    e.RunFinished: lambda s, c: e.RunFinished(
        epoch=c.epoch(s), outcome=c.among(("done", "failed", "cancelled"))
    ),
    e.PlanSet: lambda s, c: e.PlanSet(epoch=c.epoch(s), steps=("Book",)),
    e.StepSettled: lambda s, c: e.StepSettled(epoch=c.epoch(s), step="look", name="look"),
    e.StepLeft: lambda s, c: e.StepLeft(epoch=c.epoch(s), step="book", name="book", waited=1.0),
    e.StepReused: lambda s, c: e.StepReused(epoch=c.epoch(s), step=c.among(("book", "pay"))),
    e.RecordsDropped: lambda s, c: e.RecordsDropped(epoch=c.epoch(s), steps=("look",)),
    e.AttemptStarted: lambda s, c: _attempt(s, c),
    e.AttemptSettled: lambda s, c: e.AttemptSettled(
        epoch=c.epoch(s),
        attempt=c.position([*s.open, *s.open, *s.effects], s),
        outcome=c.among((Outcome.DONE, Outcome.UNKNOWN, *Outcome)),
        usage=c.among((Usage(), Usage(tokens=10, usd=0.5), Usage(tokens=10))),
    ),
    e.LateOutcome: lambda s, c: e.LateOutcome(
        epoch=c.epoch(s),
        attempt=c.position([*s.open, *s.effects], s),
        outcome=c.among((Outcome.DONE, Outcome.NOT_DONE, *Outcome)),
    ),
    e.TextStreamed: lambda s, c: e.TextStreamed(epoch=c.epoch(s), step="think", offset=0, text="a"),
    e.UsageSpent: lambda s, c: e.UsageSpent(epoch=c.epoch(s), usage=Usage(tokens=1)),
    e.WindowOpened: lambda s, c: e.WindowOpened(
        epoch=c.epoch(s), step="mail", noun="email", until=s.at + 10
    ),
    e.TimerSet: lambda s, c: e.TimerSet(epoch=c.epoch(s), name="retry", until=s.at + 10),
    e.TimerCleared: lambda s, c: e.TimerCleared(epoch=c.epoch(s), name="retry"),
    e.StateSaved: lambda s, c: e.StateSaved(epoch=c.epoch(s)),
    e.GuardSet: lambda s, c: e.GuardSet(
        epoch=c.epoch(s), name="menu.txt", kind="file", fingerprint="abc"
    ),
    e.NoticeGiven: lambda s, c: e.NoticeGiven(epoch=c.epoch(s), kind="cap", text="80 % of steps"),
    e.InboxOpened: lambda s, c: e.InboxOpened(epoch=c.epoch(s)),
    e.Spoke: lambda s, c: e.Spoke(epoch=c.epoch(s), step="say:1"),
    e.QuestionOpened: lambda s, c: e.QuestionOpened(
        epoch=c.epoch(s), kind="approval", message="Pay?", about=c.position(s.open, s)
    ),
    e.QuestionAnswered: lambda s, c: e.QuestionAnswered(
        who=c.among((ANN, BOB)), question=c.position([*s.questions, *s.answered], s)
    ),
    e.QuestionClosed: lambda s, c: e.QuestionClosed(
        question=c.position([*s.questions, *s.answered], s), why="expired"
    ),
    e.WaitBegan: lambda s, c: e.WaitBegan(epoch=c.epoch(s)),
    e.WaitEnded: lambda s, c: e.WaitEnded(epoch=c.epoch(s)),
    e.PauseRequested: lambda s, c: e.PauseRequested(who=c.among((ANN, BOB))),
    e.ResumeRequested: lambda s, c: e.ResumeRequested(who=c.among((ANN, BOB)), diff="a =b="),
    e.RedirectRequested: lambda s, c: e.RedirectRequested(
        who=c.among((ANN, BOB)), text="Elsewhere", resume=c.among((False, True))
    ),
    e.CancelRequested: lambda s, c: e.CancelRequested(
        who=c.among((ANN, BOB)), now=c.among((False, False, True))
    ),
    e.EffectStopRequested: lambda s, c: e.EffectStopRequested(
        who=ANN, attempt=c.position(s.open, s)
    ),
    e.UndoRequested: lambda s, c: e.UndoRequested(
        who=ANN, effects=c.among(((), tuple(s.effects)[-1:]))
    ),
    e.LimitsRaised: lambda s, c: e.LimitsRaised(who=ANN, limits=Limits(usd=9.0)),
    e.TakenOver: lambda s, c: e.TakenOver(who=ANN),
    e.HandedBack: lambda s, c: e.HandedBack(who=ANN, note="refunded"),
    e.HoldPlaced: lambda s, c: e.HoldPlaced(cause=c.among(tuple(Cause))),
    e.HoldLifted: lambda s, c: e.HoldLifted(cause=c.among((*sorted(s.holds), *Cause))),
    e.Paused: lambda s, c: e.Paused(epoch=c.epoch(s), upto=s.head - c.among((0, 0, 0, 1, -1))),
    e.RedirectDelivered: lambda s, c: e.RedirectDelivered(
        epoch=c.epoch(s), upto=s.head - c.among((0, 0, 0, 1, -1)), brief="Elsewhere"
    ),
    e.Killed: lambda s, c: e.Killed(who=OLGA, scope="all"),
    e.Recovered: lambda s, c: e.Recovered(who=OLGA),
    e.MessagesTaken: lambda s, c: e.MessagesTaken(run=s.journal, upto=1),
    e.UndoStarted: lambda s, c: e.UndoStarted(
        epoch=c.epoch(s),
        effect=c.position([p for p, a in s.effects.items() if a.can_be_undone] or s.effects, s),
        idempotency_key="key:undo",
    ),
    e.UndoSettled: lambda s, c: e.UndoSettled(
        epoch=c.epoch(s),
        undo=c.position(s.undos, s),
        undone=c.among((True, False)),
        final=c.among((True, False)),
    ),
    e.WorkSaved: lambda s, c: e.WorkSaved(epoch=c.epoch(s), what=("the draft",)),
    e.ChildSpawned: lambda s, c: e.ChildSpawned(
        epoch=c.epoch(s), child=f"r-{s.head}", agent="scout", brief="Look around"
    ),
    e.ChildSettled: lambda s, c: e.ChildSettled(
        epoch=c.epoch(s), child=c.among((*s.children, "nobody")), outcome="done"
    ),
}
"""How to make an event of each kind that a run's journal knows, from a state and some chance."""

RUN_EVENTS: Final = tuple(MAKERS)

OFTEN: Final = (
    e.AttemptStarted,
    e.AttemptSettled,
    e.LateOutcome,
    e.UndoStarted,
    e.QuestionOpened,
    e.WaitBegan,
    e.DriverClaimed,
    e.EffectStopRequested,
)
"""Else most histories are over before anything interesting has begun."""


def some_event(state: RunState, number: int) -> Event:
    """Mostly one that the phase takes."""
    chance = Chance(number)
    row = sorted(TRANSITIONS[state.phase], key=lambda kind: kind.stored_name())
    row += [kind for kind in OFTEN if kind in row] * 3
    kinds = RUN_EVENTS if chance.among(range(16)) == 0 else row
    return MAKERS[chance.among(kinds)](state, chance)


def offer(run: Run, event: Event) -> bool:
    """Hand it in by its own door; whether the journal has grown."""
    head = run.state.head
    try:
        if isinstance(event, e.Killed):
            run.kill()
        elif isinstance(event, Request):
            run.ask(event)
        elif isinstance(event, Fact):
            run.report(event)
        else:
            run.append(event)
    except (Refused, IllegalEvent):
        assert run.state.head == head
    return run.state.head > head


def accepts(state: RunState, event: Event) -> bool:
    """Whether the very next event may be this one."""
    try:
        check(state, event)
    except (Refused, IllegalEvent):
        return False
    return True


def grants(state: RunState, request: Request) -> bool:
    """Whether asking for it now would append something."""
    try:
        verdict = decisions.decide(state, request)
    except Refused:
        return False
    return not isinstance(verdict, Known)


def grown(numbers: Sequence[int], *, ends: bool = True) -> Run:
    """A run that has lived through all that the numbers say; without ``ends`` it still lives."""
    first, *rest = numbers
    run = Chance(first).among((queued, running, running, waiting))()
    for number in rest:
        event = some_event(run.state, number)
        ending = isinstance(event, e.RunFinished) or (
            isinstance(event, e.CancelRequested) and run.state.never_begun
        )
        if ends or not ending:
            offer(run, event)
        if not ends and not run.state.alive:
            offer(run, e.Recovered(who=OLGA))
    return run


@st.composite
def histories(draw: st.DrawFn, longest: int = 60, *, ends: bool = True) -> Run:
    """A run in any state that can be reached; a failure shows its journal."""
    # Lists without a lower bound hold five numbers on average, and no run ends in five events.
    numbers = st.lists(st.integers(0, NUMBERS - 1), min_size=longest // 2, max_size=longest)
    return grown(draw(numbers), ends=ends)
