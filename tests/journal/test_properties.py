"""What holds for every run that can be reached, whatever people, drivers and crashes did to it."""

from __future__ import annotations

from copy import deepcopy
from random import Random

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from journal.histories import (
    MAKERS,
    NUMBERS,
    RUN_EVENTS,
    Chance,
    accepts,
    grants,
    grown,
    histories,
    some_event,
)
from journal.journals import ANN, OLGA, Run
from midflight.errors import IllegalEvent
from midflight.journal import events as e
from midflight.journal.facts import record
from midflight.journal.fold import advance, fold
from midflight.journal.limits import meters
from midflight.journal.phases import ENDS, IN_MOTION, Cause, Effect, Outcome, Phase
from midflight.journal.preview import preview
from midflight.journal.record import Decision, Event, Fact, Limits, Request
from midflight.journal.requests import Known
from midflight.journal.state import RunState
from midflight.journal.status import receipt
from midflight.journal.transition_table import FACTS, STARTS, TRANSITIONS, VERBS

numbers = st.lists(st.integers(0, NUMBERS - 1), min_size=10, max_size=10)


def every_event(state: RunState, number: int) -> list[Event]:
    """One of each kind, with fields as the number says."""
    return [MAKERS[kind](state, Chance(number)) for kind in RUN_EVENTS]


@pytest.mark.slow
def test_the_generated_runs_see_every_phase_and_every_event() -> None:
    random = Random(0)
    phases, kinds = set(), set()
    for _ in range(300):
        run = grown([random.randrange(NUMBERS) for _ in range(60)])
        for state, entry in run.replay():
            phases.add(state.phase)
            kinds.add(type(entry.event))

    assert phases == set(Phase)
    assert kinds == set(RUN_EVENTS)


# ── stopping ─────────────────────────────────────────────────────────────────────────────────


@given(histories(ends=False))
def test_a_cancel_ends_the_run_once_everything_in_flight_has_an_outcome(run: Run) -> None:
    assume(not run.state.never_begun)  # or it is over at once
    run.cancel()
    run.claim("d-9")
    while run.state.open:
        with pytest.raises(IllegalEvent, match="in flight"):
            run.finish("cancelled")
        position, attempt = next(iter(run.state.open.items()))
        ends_as = Outcome.UNKNOWN if attempt.effect.touches_world else Outcome.ABORTED
        run.settle(position, ends_as)
    for undo in list(run.state.undos):
        run.append(e.UndoSettled(epoch=run.state.epoch, undo=undo, undone=True))
    run.finish("cancelled")

    assert run.state.phase is Phase.CANCELLED
    assert not run.state.pending


@given(histories(ends=False), numbers)
def test_after_a_cancel_nothing_begins_but_undoing(run: Run, later: list[int]) -> None:
    run.cancel()

    for number in later:
        begun = [x for x in every_event(run.state, number) if isinstance(x, STARTS)]
        assert {type(x) for x in begun if accepts(run.state, x)} <= {e.UndoStarted}


@given(histories(ends=False), numbers)
def test_after_a_cancel_that_skips_undoing_nothing_begins_but_what_must_be_released(
    run: Run, later: list[int]
) -> None:
    run.cancel(now=True)

    for number in later:
        for event in every_event(run.state, number):
            if isinstance(event, STARTS) and accepts(run.state, event):
                assert isinstance(event, e.UndoStarted)
                assert run.state.effects[event.effect].release_always


@given(histories())
def test_from_a_pause_to_the_resume_nothing_begins(run: Run) -> None:
    held = False
    for state, entry in run.replay():
        event = entry.event
        if isinstance(event, e.PauseRequested):
            held = True
        elif isinstance(event, e.ResumeRequested | e.CancelRequested | e.RunFinished | e.Killed):
            held = False  # a cancel, an end and a kill have rules of their own
        elif isinstance(event, e.RedirectRequested) and event.resume:
            held = False
        assert not (held and isinstance(event, STARTS))
        assert not held or state.phase in {Phase.PAUSING, Phase.PAUSED}


@given(histories(ends=False), numbers)
def test_after_a_kill_there_are_facts_undoing_and_recovery_only(run: Run, later: list[int]) -> None:
    assume(run.state.phase in IN_MOTION)
    run.kill()
    run.claim("d-9")  # the table has to hold also against somebody who may decide

    driving = {e.DriverClaimed, e.DriverReleased, e.DriverRevoked}
    undoing = {e.UndoRequested, e.UndoStarted, e.Recovered}
    for number in later:
        for event in every_event(run.state, number):
            if accepts(run.state, event):
                assert type(event) in {*FACTS, *driving, *undoing}


@given(histories(), numbers)
def test_an_ended_run_begins_nothing_but_an_undo_that_somebody_asked_for(
    run: Run, later: list[int]
) -> None:
    assume(not run.state.alive)
    run.claim("d-9")

    for number in later:
        for event in every_event(run.state, number):
            if isinstance(event, STARTS) and accepts(run.state, event):
                assert isinstance(event, e.UndoStarted)
                assert event.effect in run.state.undo_wanted


# ── drivers ──────────────────────────────────────────────────────────────────────────────────


@given(histories(), numbers)
def test_an_old_epoch_decides_nothing(run: Run, later: list[int]) -> None:
    old = run.state.epoch
    run.claim("d-9")

    for number in later:
        for event in every_event(run.state, number):
            if isinstance(event, Decision):
                late = msgspec.structs.replace(event, epoch=old)
                assert not accepts(run.state, late)


@given(histories())
def test_every_decision_was_made_by_the_driver_of_its_day(run: Run) -> None:
    driver, epoch = "", 0
    for state, entry in run.replay():
        if isinstance(entry.event, e.DriverClaimed):
            assert entry.event.epoch == epoch + 1
        elif isinstance(entry.event, Decision):
            assert driver
            assert entry.event.epoch == epoch
        driver, epoch = state.driver, state.epoch


@given(histories(), numbers)
def test_whatever_a_driver_of_any_age_reports_is_stored_or_known_already(
    run: Run, later: list[int]
) -> None:
    for number in later:
        for event in every_event(run.state, number):
            if isinstance(event, e.AttemptSettled | e.LateOutcome):
                attempt = run.state.open.get(event.attempt)
                if attempt is None or attempt.effect is not Effect.ONCE:
                    continue
                event = msgspec.structs.replace(event, outcome=Outcome.DONE)
                assert all(accepts(run.state, x) for x in record(run.state, event))
                run.report(event)
                assert attempt.outcome is Outcome.DONE


# ── started and settled stay paired ──────────────────────────────────────────────────────────


@given(histories())
def test_every_attempt_settles_at_most_once_and_none_is_open_at_an_end_but_a_kill(
    run: Run,
) -> None:
    outcomes: dict[int, Outcome | None] = {}
    found: set[int] = set()  # said to be not done by who has only looked
    for state, entry in run.replay():
        match entry.event:
            case e.AttemptStarted():
                outcomes[entry.position] = None
            case e.AttemptSettled(attempt=attempt, outcome=outcome):
                assert outcomes[attempt] is None
                outcomes[attempt] = outcome
            case e.LateOutcome(attempt=attempt, outcome=outcome):
                after_all = attempt in found and outcome is Outcome.DONE
                assert outcomes[attempt] in {None, Outcome.UNKNOWN} or after_all
                outcomes[attempt] = outcome
                found = (found | {attempt}) if outcome is Outcome.NOT_DONE else (found - {attempt})
            case e.RunFinished():
                assert None not in outcomes.values()
            case _:
                pass
        assert set(state.open) == {p for p, outcome in outcomes.items() if outcome is None}


@given(histories())
def test_every_undo_settles_once_and_only_one_is_under_way(run: Run) -> None:
    under_way: set[int] = set()
    for state, entry in run.replay():
        match entry.event:
            case e.UndoStarted():
                assert not under_way
                under_way.add(entry.position)
            case e.UndoSettled(undo=undo):
                under_way.remove(undo)
            case e.RunFinished():
                assert not under_way
            case _:
                pass
        assert set(state.undos) == under_way


# ── the fold ─────────────────────────────────────────────────────────────────────────────────


@given(histories(longest=30))
def test_a_state_kept_and_advanced_equals_one_folded_from_the_start(run: Run) -> None:
    for length in range(len(run.records) + 1):
        state = fold(RunState("r-1"), run.records[:length])
        for entry in run.records[length:]:
            advance(state, entry)
        assert state == run.state


@given(histories(), numbers)
def test_to_ask_changes_nothing(run: Run, later: list[int]) -> None:
    before = deepcopy(run.state)
    for number in later:
        event = some_event(run.state, number)
        accepts(run.state, event)
        if isinstance(event, Request):
            grants(run.state, event)
        if isinstance(event, Fact):
            record(run.state, event)
    preview(run.state)
    receipt(run.state)
    meters(run.state, now=100.0)

    assert run.state == before


@given(histories())
def test_the_phase_after_every_event_is_in_its_cell(run: Run) -> None:
    before = None
    for state, entry in run.replay():
        if before is not None:
            cell = TRANSITIONS[before][type(entry.event)]
            assert state.phase in (cell if isinstance(cell, tuple) else (cell,))
        before = state.phase


@given(histories())
def test_the_phase_tells_the_truth_about_what_holds_and_what_asks(run: Run) -> None:
    for state, entry in run.replay():
        quiet = not state.open and not state.undos
        if state.alive:
            assert bool(state.holds) == (state.phase in {Phase.PAUSING, Phase.PAUSED})
        if isinstance(entry.event, e.Paused | e.RedirectDelivered | e.RunFinished):
            assert quiet
        if state.phase is Phase.WAITING:
            assert quiet
            assert state.questions
        if state.phase is Phase.CANCELLING or state.phase in ENDS:
            assert not state.questions
        if state.phase in ENDS:
            assert state.due_at is None


@given(histories())
def test_no_acknowledged_request_is_lost(run: Run) -> None:
    """Each is still to be applied, was applied, or was superseded by something later."""
    asked: set[int] = set()
    for state, entry in run.replay():
        if isinstance(entry.event, Request) and type(entry.event) in VERBS.values():
            asked.add(entry.position)
        assert set(state.deliveries) == asked
        for position, delivery in state.deliveries.items():
            assert (delivery.status == "accepted") == (position in state.pending)
            assert delivery.status == "accepted" or position <= delivery.at <= state.head
        assert (state.redirect is not None) == ("redirect" in state.pending.values())
        if state.phase in ENDS:
            assert not state.pending


@given(histories())
def test_time_is_counted_while_somebody_drives_it_running_or_pausing(run: Run) -> None:
    """Of a driver that was lost, up to the last event that it wrote itself."""
    counted, since, unproven = 0.0, None, 0.0
    for state, entry in run.replay():
        if since is not None:
            unproven += entry.at - since
        event = entry.event
        if isinstance(event, e.DriverClaimed) and event.driven_until is not None:
            unproven = 0.0
        elif isinstance(event, Decision | Fact) and not isinstance(event, FACTS):
            counted, unproven = counted + unproven, 0.0
        since = entry.at if state.phase in {Phase.RUNNING, Phase.PAUSING} else None
    counted += unproven
    moving = run.state.moving_since
    shown = run.state.spent.seconds + (run.state.at - moving if moving is not None else 0.0)

    assert shown == counted


# ── what people are told ─────────────────────────────────────────────────────────────────────


def presses(state: RunState, verb: str) -> list[Request]:
    """The requests a control could mean in this state."""
    now = state.phase is Phase.CANCELLING  # the third slot says "Stop now" by then
    some: dict[str, list[Request]] = {
        "pause": [e.PauseRequested(who=ANN)],
        "resume": [e.ResumeRequested(who=ANN)],
        "redirect": [e.RedirectRequested(who=ANN, text="Elsewhere")],
        "cancel": [e.CancelRequested(who=ANN, now=now)],
        "answer": [e.QuestionAnswered(who=ANN, question=q) for q in state.questions],
        "stop effect": [e.EffectStopRequested(who=ANN, attempt=a) for a in state.open],
        "raise limits": [e.LimitsRaised(who=ANN, limits=Limits(usd=9.0))],
        "take over": [e.TakenOver(who=ANN)],
        "hand back": [e.HandedBack(who=ANN)],
        "undo": [e.UndoRequested(who=ANN)],
        "recover": [e.Recovered(who=OLGA)],
    }
    return some[verb]


@given(histories())
def test_a_control_is_enabled_exactly_when_the_kernel_would_act_on_it(run: Run) -> None:
    for state, _ in run.replay():
        for verb, offer in preview(state).items():
            granted = any(grants(state, press) for press in presses(state, verb))
            # Presses that are taken and pointless: what is paused is not refused a pause,
            # because two people may press it at once and neither has done anything wrong; nor
            # who has taken it over, or has asked for all to be undone, for pressing twice.
            pointless = (
                (verb == "pause" and Cause.USER in state.holds)
                or (verb == "take over" and bool(state.human))
                or (verb == "undo" and state.undo_wanted >= set(state.can_undo))
            )
            assert offer.enabled == (granted and not pointless), (verb, state.phase)
            assert offer.consequence


@given(histories())
def test_the_receipt_accounts_for_every_effect_newest_first(run: Run) -> None:
    for state, _ in run.replay():
        positions = [line.position for line in receipt(state).lines]
        told = (p for p, effect in state.effects.items() if not state.repeated(effect))
        assert positions == sorted(told, reverse=True)  # a repeat tells of what it repeats, too
        assert not (state.phase is Phase.CANCELLED and "in flight" in str(receipt(state)))


@given(histories(), st.integers(0, NUMBERS - 1))
def test_a_request_repeated_under_its_key_is_answered_with_its_first_position(
    run: Run, number: int
) -> None:
    for event in every_event(run.state, number):
        if not isinstance(event, Request) or isinstance(event, e.Killed):
            continue
        keyed = msgspec.structs.replace(event, key="again")
        if not grants(run.state, keyed):
            continue
        first = run.ask(keyed)
        run.claim("d-9")

        assert run.decide(keyed) == Known(first)
        return


@given(histories())
def test_the_read_model_wants_no_driver_for_a_run_that_rests(run: Run) -> None:
    for state, _ in run.replay():
        if state.phase in {Phase.RUNNING, Phase.PAUSING, Phase.CANCELLING, Phase.QUEUED}:
            assert state.wants_driver
        if state.phase is Phase.PAUSED and not state.holds & {Cause.STALE, Cause.DRAIN}:
            assert not state.wants_driver
        if state.phase in ENDS:
            assert state.wants_driver == bool(state.undo_wanted or state.undos)
