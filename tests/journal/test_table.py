"""The table: what each phase takes, and that what it does not take changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

import pytest

from journal.histories import MAKERS, RUN_EVENTS, Chance, accepts
from journal.journals import ANN, OLGA, Run, Thread, queued, running
from journal.situations import beginnings, in_phase
from midflight.errors import ENDED, IllegalEvent, IllegalSignal
from midflight.journal import events as e
from midflight.journal import transition_table
from midflight.journal.event_types import EVENTS
from midflight.journal.fold import advance
from midflight.journal.phases import ENDS, IN_MOTION, Phase
from midflight.journal.record import Event, Limits, Recorded, Request
from midflight.journal.state import RunState
from midflight.journal.threads import thread as t
from midflight.journal.threads.thread import ThreadState
from midflight.journal.transition_table import FACTS, OUTCOMES, STARTS, TRANSITIONS, VERBS

UNREACHABLE = {
    # Nothing has begun in a run that was never entered, so nothing of it can end.
    (Phase.QUEUED, e.LateOutcome),
    (Phase.QUEUED, e.UndoSettled),
    (Phase.QUEUED, e.ChildSettled),
    # A run waits only when no undo is under way, and a redirect ends its waiting at once.
    (Phase.WAITING, e.UndoSettled),
    (Phase.WAITING, e.RedirectDelivered),
    # A cancel withdraws every question by itself.
    (Phase.CANCELLING, e.QuestionClosed),
}

PRESSES: dict[str, Request] = {
    "pause": e.PauseRequested(who=ANN),
    "resume": e.ResumeRequested(who=ANN),
    "redirect": e.RedirectRequested(who=ANN, text="Elsewhere"),
    "cancel": e.CancelRequested(who=ANN),
    "answer": e.QuestionAnswered(who=ANN, question=1),
    "stop effect": e.EffectStopRequested(who=ANN, attempt=1),
    "raise limits": e.LimitsRaised(who=ANN, limits=Limits(usd=9.0)),
    "take over": e.TakenOver(who=ANN),
    "hand back": e.HandedBack(who=ANN),
    "undo": e.UndoRequested(who=ANN),
    "recover": e.Recovered(who=OLGA),
}

REFUSED = [(p, verb) for p in Phase for verb, kind in VERBS.items() if kind not in TRANSITIONS[p]]

every_phase = pytest.mark.parametrize("phase", list(Phase))


def fitting(state: RunState, kind: type[Event]) -> Iterator[Event]:
    """Events of a kind, with fields that could fit this state and some that do not."""
    return (MAKERS[kind](state, Chance(number)) for number in range(96))


@every_phase
def test_a_phase_takes_what_its_row_names_and_nothing_else(phase: Phase) -> None:
    states = [run.state for run in in_phase(phase)]

    taken = {
        kind
        for kind in RUN_EVENTS
        if any(accepts(state, event) for state in states for event in fitting(state, kind))
    }

    row = {kind for kind in TRANSITIONS[phase] if (phase, kind) not in UNREACHABLE}
    assert taken == row


@every_phase
def test_to_ask_the_table_changes_nothing_whatever_it_answers(phase: Phase) -> None:
    for run in in_phase(phase):
        before = deepcopy(run.state)
        for kind in RUN_EVENTS:
            for event in fitting(run.state, kind):
                accepts(run.state, event)
        assert run.state == before


@every_phase
def test_what_is_taken_leads_where_its_cell_says(phase: Phase) -> None:
    for run in in_phase(phase):
        for kind, cell in TRANSITIONS[phase].items():
            event = next((x for x in fitting(run.state, kind) if accepts(run.state, x)), None)
            if event is None:
                continue
            after = deepcopy(run.state)
            advance(after, Recorded("r-1", after.head + 1, after.at + 1, event))
            assert after.phase in (cell if isinstance(cell, tuple) else (cell,))


def test_every_event_of_the_catalogue_is_in_the_table_or_a_thread_takes_it() -> None:
    of_runs = {kind for row in TRANSITIONS.values() for kind in row} | {e.RunCreated}
    of_threads = {kind for kind in EVENTS.values() if kind.__module__ == t.__name__}

    assert set(EVENTS.values()) == of_runs | of_threads
    assert of_runs == set(RUN_EVENTS)


def test_every_phase_has_a_row_and_every_row_a_phase() -> None:
    assert set(TRANSITIONS) == set(Phase)


@pytest.mark.parametrize(("phase", "verb"), REFUSED)
def test_a_verb_the_phase_does_not_take_is_refused_in_words_that_help(
    phase: Phase, verb: str
) -> None:
    run = in_phase(phase)[0]
    before = deepcopy(run.state)

    with pytest.raises(IllegalSignal) as refusal:
        run.decide(PRESSES[verb])

    error = refusal.value
    accepted = tuple(v for v, kind in VERBS.items() if kind in TRANSITIONS[phase])
    assert (error.run, error.phase, error.signal, error.accepts) == ("r-1", phase, verb, accepted)
    for words in ("run r-1", ENDED.get(phase, f"is {phase}"), verb, *accepted, "not changed"):
        assert words in str(error)
    assert run.state == before


def test_a_driver_that_tries_what_the_phase_does_not_take_has_a_bug_and_is_not_merely_refused() -> (
    None
):
    run = in_phase(Phase.PAUSED)[0]

    with pytest.raises(IllegalEvent, match=r"r-1: run\.entered .* the run is paused"):
        run.enter()


# ── what the rows must say, whatever else is changed in them ─────────────────────────────────


@pytest.mark.parametrize("phase", [Phase.PAUSING, Phase.PAUSED])
def test_a_held_run_starts_nothing(phase: Phase) -> None:
    assert not set(STARTS) & set(TRANSITIONS[phase])


def test_a_waiting_run_starts_nothing_but_a_look_at_its_messages() -> None:
    assert set(STARTS) & set(TRANSITIONS[Phase.WAITING]) == {e.AttemptStarted}
    for run in in_phase(Phase.WAITING):
        begun = [event for event in beginnings(run) if accepts(run.state, event)]
        assert begun == []
        if not run.state.open:
            run.triage()


def test_a_cancelling_run_starts_nothing_but_undoing() -> None:
    assert set(STARTS) & set(TRANSITIONS[Phase.CANCELLING]) == {e.UndoStarted}


@every_phase
def test_every_phase_takes_knowledge(phase: Phase) -> None:
    assert set(FACTS) <= set(TRANSITIONS[phase])


@pytest.mark.parametrize("phase", sorted(IN_MOTION))
def test_what_is_in_motion_takes_outcomes_and_can_be_killed(phase: Phase) -> None:
    assert {*OUTCOMES, e.Killed} <= set(TRANSITIONS[phase])


@pytest.mark.parametrize("phase", sorted(set(Phase) - ENDS))
def test_whatever_lives_can_be_cancelled(phase: Phase) -> None:
    assert TRANSITIONS[phase][e.CancelRequested] is Phase.CANCELLING


@pytest.mark.parametrize("phase", sorted(ENDS))
def test_an_end_stays_an_end_except_that_a_killed_run_can_be_recovered(phase: Phase) -> None:
    ways_out = {kind for kind, cell in TRANSITIONS[phase].items() if cell is not phase}

    assert ways_out == ({e.Recovered} if phase is Phase.KILLED else set())


@pytest.mark.parametrize("phase", sorted(ENDS))
def test_an_ended_run_takes_knowledge_undoing_and_drivers_for_it(phase: Phase) -> None:
    undoing = {*transition_table.DRIVERS, e.DriverRevoked, e.UndoRequested, e.UndoStarted}

    assert set(TRANSITIONS[phase]) - {e.Recovered} == {*FACTS, *undoing}


@pytest.mark.parametrize("phase", sorted(set(Phase) - ENDS - {Phase.CANCELLING}))
def test_a_question_may_be_answered_in_any_live_phase_but_cancelling(phase: Phase) -> None:
    assert e.QuestionAnswered in TRANSITIONS[phase]


# ── how a journal begins ─────────────────────────────────────────────────────────────────────


def test_a_journal_begins_once() -> None:
    run = queued()

    with pytest.raises(IllegalEvent, match="begins once"):
        run.append(e.RunCreated(who=ANN, agent="trip", thread="t-1", brief="Again"))


def test_nothing_comes_before_the_beginning() -> None:
    with pytest.raises(IllegalEvent, match="begins once"):
        transition_table.check(RunState("r-1"), e.PauseRequested(who=ANN))


def test_a_run_does_not_begin_as_a_thread_nor_a_thread_as_a_run() -> None:
    with pytest.raises(IllegalEvent, match=r"with run\.created"):
        transition_table.check(RunState("r-1"), t.ThreadCreated(who=ANN))
    with pytest.raises(IllegalEvent, match=r"with thread\.created"):
        transition_table.check(
            ThreadState("t-1"), e.RunCreated(who=ANN, agent="trip", thread="t-1", brief="Go")
        )


def test_a_run_takes_no_event_of_a_thread() -> None:
    with pytest.raises(IllegalSignal):
        running().append(t.MessageSent(who=ANN, text="hello"))
    with pytest.raises(IllegalEvent):
        running().append(t.TodoAdded(kind="deferred", text="later"))


@pytest.mark.parametrize("kind", sorted(set(RUN_EVENTS) - {e.MessagesTaken}, key=str))
def test_a_thread_takes_no_event_of_a_run(kind: type[Event]) -> None:
    run: Run = queued()

    with pytest.raises(IllegalEvent):
        Thread().append(next(fitting(run.state, kind)))
