"""The table: the events that each phase takes, and the phase to which each of them leads.

A cell is one phase, or several: then ``rest`` chooses, by what still holds or asks, and its choice
must be one of the cell's. An event that is not in a row is illegal; there is no default row. The
diagram in ``ARCHITECTURE.md`` is drawn from this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from midflight.errors import IllegalEvent, IllegalSignal
from midflight.journal import events as e
from midflight.journal.phases import ENDS, Cause, Effect, Outcome, Phase
from midflight.journal.record import Decision, Event, Fact, Request
from midflight.journal.state import Attempt, RunState
from midflight.journal.threads.thread import ThreadCreated, ThreadState
from midflight.journal.threads.thread import check as check_thread

Q, R, PG, PD, W, C = (
    Phase.QUEUED,
    Phase.RUNNING,
    Phase.PAUSING,
    Phase.PAUSED,
    Phase.WAITING,
    Phase.CANCELLING,
)
TRIAGE: Final = "midflight.triage"
"""Under this name a model is asked what to do about messages, beside whatever the run does."""

Cell = Phase | tuple[Phase, ...]
Row = Mapping[type[Event], Cell]
State = RunState | ThreadState


def _stay(phase: Phase, *kinds: type[Event]) -> dict[type[Event], Cell]:
    return dict.fromkeys(kinds, phase)


DRIVERS: Final = (e.DriverClaimed, e.DriverReleased)
FACTS: Final = (e.LateOutcome, e.UndoSettled, e.ChildSettled, e.UsageSpent)
OUTCOMES: Final = (e.AttemptSettled, e.StepSettled, e.StepReused, e.TextStreamed)
ASKING: Final = (e.QuestionOpened, e.QuestionAnswered, e.QuestionClosed)
TIMERS: Final = (e.TimerSet, e.TimerCleared)
STEERING: Final = (e.RedirectRequested, e.RedirectDelivered, e.LimitsRaised, e.HoldLifted)
STARTS: Final = (e.AttemptStarted, e.ChildSpawned, e.UndoStarted, e.WindowOpened, e.RunEntered)
NOTES: Final = (
    e.PlanSet,
    e.StateSaved,
    e.MessagesTaken,
    e.InboxOpened,
    e.WorkSaved,
    e.NoticeGiven,
    e.Spoke,
)
WORLD: Final = (e.GuardSet, e.RecordsDropped)  # a person has said that the changed world is fine

_end = {
    phase: _stay(phase, *DRIVERS, *FACTS, e.DriverRevoked, e.UndoRequested, e.UndoStarted)
    for phase in ENDS
}

TRANSITIONS: Final[Mapping[Phase, Row]] = {  # layer paused-run-starts-nothing
    Q: _stay(Q, *DRIVERS, *FACTS, *STEERING, e.DriverRevoked)
    | _stay(Q, e.QuestionAnswered, e.QuestionClosed)  # asked while it was held before its start
    | {
        e.RunEntered: R,
        e.PauseRequested: PD,
        e.HoldPlaced: PD,
        e.TakenOver: PD,
        e.CancelRequested: C,
        e.RunFinished: Phase.FAILED,  # nobody here knows the agent
    },
    R: _stay(R, *DRIVERS, *FACTS, *OUTCOMES, *ASKING, *TIMERS, *STEERING, *STARTS, *NOTES, *WORLD)
    | _stay(R, e.StepLeft)
    | {
        e.WaitBegan: W,
        e.PauseRequested: PG,
        e.HoldPlaced: PG,
        e.TakenOver: PG,
        e.CancelRequested: C,
        e.Killed: Phase.KILLED,
        e.RunFinished: (Phase.DONE, Phase.FAILED),
    },
    # Nothing of STARTS: from the acknowledgement of a pause on, nothing begins.
    PG: _stay(
        PG, *DRIVERS, *FACTS, *OUTCOMES, *ASKING, *TIMERS, *NOTES, *WORLD, e.RedirectDelivered
    )
    | _stay(PG, e.PauseRequested, e.HoldPlaced, e.TakenOver, e.EffectStopRequested, e.StepLeft)
    | {
        e.Paused: PD,
        e.ResumeRequested: (R, PG),
        e.HoldLifted: (R, PG),
        e.HandedBack: (R, PG),
        e.RedirectRequested: (R, PG),
        e.LimitsRaised: (R, PG),
        e.CancelRequested: C,
        e.Killed: Phase.KILLED,
        e.RunFinished: (Phase.DONE, Phase.FAILED),  # the last effect finished, and was the last
    },
    PD: _stay(PD, *DRIVERS, *FACTS, *ASKING, *TIMERS, *WORLD, e.RedirectDelivered, e.DriverRevoked)
    | _stay(PD, e.PauseRequested, e.HoldPlaced, e.TakenOver, e.StepLeft)
    | {
        e.ResumeRequested: (Q, R, W, PD),
        e.HoldLifted: (Q, R, W, PD),
        e.HandedBack: (Q, R, W, PD),
        e.RedirectRequested: (Q, R, W, PD),
        e.LimitsRaised: (Q, R, W, PD),
        e.CancelRequested: C,  # nothing in flight, but effects to undo
    },
    W: _stay(W, *DRIVERS, *FACTS, *TIMERS, *STEERING, e.QuestionOpened, e.DriverRevoked, e.StepLeft)
    | _stay(W, e.AttemptStarted, e.AttemptSettled)  # of a triage: see its rule
    | {
        e.QuestionAnswered: (R, W),
        e.QuestionClosed: (R, W),
        e.WaitEnded: R,
        e.PauseRequested: PD,
        e.HoldPlaced: PD,
        e.TakenOver: PD,
        e.CancelRequested: C,
    },
    C: _stay(C, *DRIVERS, *FACTS, *OUTCOMES, *TIMERS, e.QuestionClosed)
    | _stay(C, e.CancelRequested, e.UndoStarted, e.WorkSaved, e.NoticeGiven)
    | {e.RunFinished: Phase.CANCELLED, e.Killed: Phase.KILLED},
    Phase.DONE: _end[Phase.DONE],
    Phase.FAILED: _end[Phase.FAILED],
    Phase.CANCELLED: _end[Phase.CANCELLED],
    Phase.KILLED: _end[Phase.KILLED] | {e.Recovered: PD},
}

_KINDS: Final = {kind for row in TRANSITIONS.values() for kind in row}
DECISIONS: Final = {kind for kind in _KINDS if issubclass(kind, Decision)}
EPOCHAL: Final = DECISIONS | {kind for kind in _KINDS if issubclass(kind, Fact)}
"""Sets: every append is asked, and ``isinstance`` has to ask a struct's metaclass first."""

VERBS: Final[Mapping[str, type[Event]]] = {
    "pause": e.PauseRequested,
    "resume": e.ResumeRequested,
    "redirect": e.RedirectRequested,
    "cancel": e.CancelRequested,
    "answer": e.QuestionAnswered,
    "stop effect": e.EffectStopRequested,
    "raise limits": e.LimitsRaised,
    "take over": e.TakenOver,
    "hand back": e.HandedBack,
    "undo": e.UndoRequested,
    "recover": e.Recovered,
}


def accepts(phase: Phase) -> tuple[str, ...]:
    """The verbs a phase takes, for error messages and previews."""
    return tuple(verb for verb, kind in VERBS.items() if kind in TRANSITIONS[phase])


def accepts_now(state: RunState) -> tuple[str, ...]:
    """Return the verbs that this run takes; no undo where nothing can be undone."""
    verbs = accepts(state.phase)
    return verbs if state.can_undo else tuple(verb for verb in verbs if verb != "undo")


def signal(event: Event) -> str:
    """Return the name that a person knows an event by: its verb, or else its stored name."""
    verbs = (verb for verb, kind in VERBS.items() if kind is type(event))
    return next(verbs, event.stored_name())


def rest(state: RunState, event: Event) -> Phase:
    """Choose among a cell's phases: the run moves only when nothing holds it."""
    if isinstance(event, e.RunFinished):
        return Phase.DONE if event.outcome == "done" else Phase.FAILED
    if state.holds:
        return state.phase
    if not state.entered:
        return Phase.QUEUED
    if state.waiting and state.questions and state.phase is not PG:
        return Phase.WAITING
    return Phase.RUNNING


def check(state: State, event: Event) -> None:
    """Raise unless ``event`` may be the next one. Changes nothing.

    Every append of every store passes here, so that a driver with a bug, or one that has lost its
    run, is stopped before the disk and not after.
    """
    kind = type(event)
    first = e.RunCreated if type(state) is RunState else ThreadCreated
    if (state.head == 0) != (kind is first):
        once = f"a journal begins once, with {first.stored_name()}"
        raise IllegalEvent(state.journal, event.stored_name(), once)
    if state.head == 0:
        return
    if type(state) is ThreadState:
        check_thread(state, event)
        return
    assert type(state) is RunState
    if kind not in TRANSITIONS[state.phase]:
        raise _illegal(state, event)
    if kind in EPOCHAL:
        _check_epoch(state, event)
    rule = _RULES.get(kind)
    why = rule(state, event) if rule is not None else None
    if why:
        raise IllegalEvent(state.journal, event.stored_name(), why)


def _illegal(state: RunState, event: Event) -> IllegalSignal | IllegalEvent:
    """A person is told what is accepted; a driver has a bug."""
    if not isinstance(event, Request):
        return IllegalEvent(state.journal, event.stored_name(), f"the run is {state.phase}")
    return IllegalSignal(state.journal, state.phase, signal(event), accepts_now(state))


def _check_epoch(state: RunState, event: Any) -> None:  # a Decision or a Fact
    kind = type(event)
    if state.opaque and kind in DECISIONS and kind is not e.DriverReleased:
        raise IllegalEvent(
            state.journal,
            event.stored_name(),
            "it holds an event of a newer version; only a newer Midflight may drive it",
        )
    expected = state.epoch
    if kind is e.DriverClaimed:
        expected += 1
    elif kind in FACTS:
        return  # a fact is taken from anybody who knows it
    elif kind in DECISIONS and not state.driver:
        raise IllegalEvent(state.journal, event.stored_name(), "nobody drives it: claim it first")
    if event.epoch != expected:  # layer older-epoch-decides-nothing
        why = f"epoch {event.epoch} is over, the run is at epoch {state.epoch}"
        raise IllegalEvent(state.journal, event.stored_name(), why)


# ── what the table cannot say: started and settled stay paired ───────────────────────────────

EFFECT_OUTCOMES: Final = {Outcome.DONE, Outcome.NOT_DONE, Outcome.NOT_STARTED, Outcome.UNKNOWN}
PLAIN_OUTCOMES: Final = {Outcome.DONE, Outcome.FAILED, Outcome.ABORTED, Outcome.NOT_STARTED}


def _attempt_started(s: RunState, event: e.AttemptStarted) -> str | None:
    if event.effect is Effect.READ:
        return "a read records its result only"
    # layer waiting-run-begins-nothing
    if s.phase is W and not (event.tool == TRIAGE and event.effect is Effect.MODEL):
        return "it waits; only messages are looked at meanwhile"
    if any(a.step == event.step for a in s.open.values()):
        return f"an attempt at {event.step} is in flight already"
    return None


def _attempt_settled(s: RunState, event: e.AttemptSettled) -> str | None:
    attempt = s.open.get(event.attempt)
    if attempt is None:
        return f"no attempt is in flight at position {event.attempt}"
    return _outcome(attempt, event.outcome)


def _outcome(attempt: Attempt, outcome: Outcome) -> str | None:
    allowed = EFFECT_OUTCOMES if attempt.effect.touches_world else PLAIN_OUTCOMES
    return None if outcome in allowed else f"{attempt.effect} cannot end as {outcome}"


def _late_outcome(s: RunState, event: e.LateOutcome) -> str | None:
    attempt = s.effects.get(event.attempt) or s.open.get(event.attempt)
    if attempt is None:
        return f"no attempt began at position {event.attempt}"
    if not may_become(attempt, event.outcome):
        return f"the attempt at {event.attempt} is known to be {attempt.outcome}"
    return _outcome(attempt, event.outcome)


def may_become(attempt: Attempt, outcome: Outcome) -> bool:
    """Return whether an outcome is news. *Done* replaces a *not done* that was only looked up."""
    if attempt.outcome is Outcome.NOT_DONE and attempt.looked_up:
        return outcome is Outcome.DONE
    return attempt.outcome is not outcome and attempt.outcome in {None, Outcome.UNKNOWN}


def _undo_started(s: RunState, event: e.UndoStarted) -> str | None:
    effect = s.effects.get(event.effect)
    if effect is None:
        return f"there is no effect at position {event.effect}"
    if s.undos:
        return "one undo at a time"
    if not effect.can_be_undone:
        return f"the effect at {event.effect} has nothing to undo"
    if s.phase in ENDS and event.effect not in s.undo_wanted:
        return "the run has ended and nobody asked for it"
    if s.phase is C and s.cancel_now and not effect.release_always:
        return "the cancel was told to skip undoing"
    return None


def _quiet(s: RunState, _event: Event) -> str | None:
    return "something is in flight" if s.open or s.undos else None  # layer no-end-while-something


def _paused(s: RunState, event: e.Paused) -> str | None:
    return _quiet(s, event) or ("nothing holds the run" if not s.holds else _upto(s, event.upto))


def _upto(s: RunState, upto: int) -> str | None:
    return f"position {upto} is not written yet" if upto > s.head else None


def _redirect_delivered(s: RunState, event: e.RedirectDelivered) -> str | None:
    # layer redirect-delivered
    if not any(verb == "redirect" and p <= event.upto for p, verb in s.pending.items()):
        return f"no redirect waits at or before {event.upto}"
    return _quiet(s, event) or _upto(s, event.upto)


def _heard(s: RunState, _event: Event) -> str | None:
    told = "redirect" not in s.pending.values()
    return None if told else "a redirect that was acknowledged has not been delivered"


def _wait_began(s: RunState, event: e.WaitBegan) -> str | None:
    return _quiet(s, event) or _heard(s, event) or (None if s.questions else "nothing asks")


def _run_finished(s: RunState, event: e.RunFinished) -> str | None:
    if event.outcome not in {Q: {"failed"}, C: {"cancelled"}}.get(s.phase, {"done", "failed"}):
        return f"a run that is {s.phase} cannot end as {event.outcome}"
    return _heard(s, event) or _quiet(s, event)


def _effect_stopped(s: RunState, event: e.EffectStopRequested) -> str | None:
    attempt = s.open.get(event.attempt)
    if attempt is None:
        return f"the effect at position {event.attempt} is not in flight"
    if attempt.in_thread:  # layer nobody-says-thread-stopped
        name = attempt.label
        return f"{name} runs in a thread, which nobody can stop: the pause waits for its end"
    return None if attempt.can_be_stopped else f"{attempt.label} cannot be stopped once begun"


def _cancelled(s: RunState, event: e.CancelRequested) -> str | None:
    escalates = event.now and not s.cancel_now
    return "it is cancelling" if s.phase is C and not escalates else None


def _hold(_s: RunState, event: e.HoldPlaced | e.HoldLifted) -> str | None:
    if event.cause is Cause.USER:
        return "only a pause places the person's hold and only a resume lifts it"
    if event.cause is Cause.CAP and isinstance(event, e.HoldLifted):
        return "only raising the cap lifts it"
    return None


def _handed_back(s: RunState, _event: e.HandedBack) -> str | None:
    return None if Cause.HUMAN in s.holds else "nobody has taken it over"


def _open_question(s: RunState, event: e.QuestionAnswered | e.QuestionClosed) -> str | None:
    if event.question in s.questions:
        return None
    others = ", ".join(map(str, s.questions))
    but = f"only {others}" if others else "and no other is"
    return f"question {event.question} is not open, {but}"


_RULES: Final[dict[type[Event], Callable[[RunState, Any], str | None]]] = {
    e.HandedBack: _handed_back,
    e.AttemptStarted: _attempt_started,
    e.AttemptSettled: _attempt_settled,
    e.LateOutcome: _late_outcome,
    e.UndoStarted: _undo_started,
    e.UndoSettled: lambda s, x: None if x.undo in s.undos else f"no undo runs at {x.undo}",
    e.DriverReleased: lambda s, x: None if s.driver else "nobody drives it",
    e.Paused: _paused,
    e.RedirectDelivered: _redirect_delivered,
    e.RunFinished: _run_finished,
    e.WaitBegan: _wait_began,
    e.QuestionAnswered: _open_question,
    e.QuestionClosed: _open_question,
    e.EffectStopRequested: _effect_stopped,
    e.CancelRequested: _cancelled,
    e.HoldPlaced: _hold,
    e.HoldLifted: _hold,
    e.ChildSettled: lambda s, x: None if s.children.get(x.child) == "" else "no such live child",
    e.StateSaved: _quiet,
}
