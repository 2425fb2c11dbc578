"""A run is held for a set of causes. It moves when the set is empty; each has one owner."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from journal.journals import ANN, Run, paused, pausing, queued, running, waiting
from midflight.errors import IllegalEvent, InvalidRequest, NotAllowed
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from midflight.journal.record import Actor, Limits

OTHERS = sorted(set(Cause) - {Cause.USER, Cause.CAP})


@pytest.mark.parametrize("cause", [*OTHERS, Cause.CAP])
def test_a_hold_stops_a_running_run_as_a_pause_does(cause: Cause) -> None:
    run = running()

    run.append(e.HoldPlaced(cause=cause))
    assert run.state.phase is Phase.PAUSING

    run.hold()
    assert (run.state.phase, run.state.holds) == (Phase.PAUSED, {cause})


@pytest.mark.parametrize("cause", OTHERS)
def test_its_owner_lets_the_run_go(cause: Cause) -> None:
    run = running()
    run.append(e.HoldPlaced(cause=cause))
    run.hold()

    run.append(e.HoldLifted(cause=cause))

    assert (run.state.phase, run.state.holds) == (Phase.RUNNING, set())


def test_a_hold_lifted_while_pausing_is_taken_back() -> None:
    run = running()
    run.append(e.HoldPlaced(cause=Cause.DRAIN))

    run.append(e.HoldLifted(cause=Cause.DRAIN))

    assert run.state.phase is Phase.RUNNING


def test_the_run_moves_only_when_the_last_cause_is_gone() -> None:
    run = paused()
    run.append(e.HoldPlaced(cause=Cause.CAP), e.HoldPlaced(cause=Cause.PARKED))

    run.resume()
    assert (run.state.phase, run.state.holds) == (Phase.PAUSED, {Cause.CAP, Cause.PARKED})

    run.append(e.HoldLifted(cause=Cause.PARKED))
    assert (run.state.phase, run.state.holds) == (Phase.PAUSED, {Cause.CAP})

    run.raise_limits(Limits(usd=5.0))
    assert (run.state.phase, run.state.holds) == (Phase.RUNNING, set())


def test_the_same_holds_while_pausing() -> None:
    run = pausing()
    run.append(e.HoldPlaced(cause=Cause.CAP))

    run.resume()
    assert (run.state.phase, run.state.holds) == (Phase.PAUSING, {Cause.CAP})

    run.raise_limits(Limits(usd=5.0))
    assert run.state.phase is Phase.RUNNING


@pytest.mark.parametrize("cause", [*OTHERS, Cause.CAP])
def test_resume_lifts_the_persons_hold_only(cause: Cause) -> None:
    run = running()
    run.append(e.HoldPlaced(cause=cause))
    run.hold()

    with pytest.raises(InvalidRequest, match=rf"another reason \({cause}\).*not changed"):
        run.resume()


@pytest.mark.parametrize("held", [paused, pausing])
def test_nobody_else_lifts_the_persons_hold(held: Callable[[], Run]) -> None:
    run = held()

    with pytest.raises(IllegalEvent, match="only a resume lifts it"):
        run.append(e.HoldLifted(cause=Cause.USER))
    run.raise_limits(Limits(usd=5.0))

    assert run.state.holds == {Cause.USER}


def test_nobody_else_places_the_persons_hold() -> None:
    with pytest.raises(IllegalEvent, match="only a pause places"):
        running().append(e.HoldPlaced(cause=Cause.USER))


def test_the_cap_is_lifted_by_raising_it_only() -> None:
    run = running()
    run.append(e.HoldPlaced(cause=Cause.CAP))

    with pytest.raises(IllegalEvent, match="only raising the cap lifts it"):
        run.append(e.HoldLifted(cause=Cause.CAP))


def test_an_owner_lifts_no_cause_but_its_own() -> None:
    run = running()
    run.append(e.HoldPlaced(cause=Cause.STALE), e.HoldPlaced(cause=Cause.DRAIN))
    run.hold()

    run.append(e.HoldLifted(cause=Cause.DRAIN))

    assert (run.state.phase, run.state.holds) == (Phase.PAUSED, {Cause.STALE})


@pytest.mark.parametrize(("rests", "phase"), [(queued, Phase.QUEUED), (waiting, Phase.WAITING)])
def test_a_run_that_rests_is_held_at_once_and_goes_back_to_where_it_was(
    rests: Callable[[], Run], phase: Phase
) -> None:
    run = rests()

    run.append(e.HoldPlaced(cause=Cause.DRAIN))
    assert run.state.phase is Phase.PAUSED

    run.append(e.HoldLifted(cause=Cause.DRAIN))
    assert run.state.phase is phase


def test_the_same_cause_twice_is_one_cause() -> None:
    run = running()
    run.append(e.HoldPlaced(cause=Cause.DRAIN), e.HoldPlaced(cause=Cause.DRAIN))

    run.append(e.HoldLifted(cause=Cause.DRAIN))

    assert run.state.phase is Phase.RUNNING


def test_a_run_that_nothing_holds_does_not_come_to_rest() -> None:
    run = pausing()
    run.settle(next(iter(run.state.open)))
    run.resume()

    with pytest.raises(IllegalEvent, match="the run is running"):
        run.hold()


def test_a_run_that_came_back_to_a_changed_world_wants_a_driver_once_it_has_its_answer() -> None:
    run = running()
    run.append(
        e.HoldPlaced(cause=Cause.STALE),
        e.QuestionOpened(epoch=1, kind="stale", message="prices.csv has changed. Go on?"),
    )
    run.hold()
    assert not run.state.wants_driver

    run.ask(e.QuestionAnswered(who=ANN, question=5))
    assert run.state.wants_driver


@pytest.mark.parametrize("cause", sorted(set(OTHERS) - {Cause.DRAIN, Cause.STALE}))
def test_a_held_run_wants_no_driver(cause: Cause) -> None:
    run = running()
    run.append(e.HoldPlaced(cause=cause))
    assert run.state.wants_driver

    run.hold()
    assert not run.state.wants_driver


def test_a_run_held_for_a_drain_wants_the_driver_of_the_next_start() -> None:
    run = running()
    run.append(e.HoldPlaced(cause=Cause.DRAIN))
    run.hold()

    assert run.state.wants_driver


# ── a person takes it over ───────────────────────────────────────────────────────────────────

BOB = Actor("bob")


def handed_over(*to: str) -> Run:
    """A run that has given itself to a person."""
    run = running()
    asked = e.QuestionOpened(epoch=run.state.epoch, kind="human", message="Angry", answerers=to)
    run.append(asked, e.HoldPlaced(cause=Cause.HUMAN))
    run.hold()
    return run


def test_who_takes_a_run_over_holds_it_until_they_hand_it_back() -> None:
    run = running()
    run.ask(e.TakenOver(who=ANN))
    run.hold()
    assert (run.state.phase, run.state.holds, run.state.human) == (
        Phase.PAUSED,
        {Cause.HUMAN},
        "ann",
    )

    with pytest.raises(InvalidRequest, match="held for another reason"):
        run.resume()
    run.ask(e.HandedBack(who=ANN))

    assert (run.state.phase, run.state.human) == (Phase.RUNNING, "")


def test_to_hand_back_answers_why_it_was_handed_over() -> None:
    run = handed_over()
    (question,) = run.state.questions

    run.ask(e.HandedBack(who=ANN, note="I have called her"))

    assert (run.state.phase, run.state.answered) == (Phase.RUNNING, {question: "ann"})


def test_it_is_not_answered_but_handed_back() -> None:
    run = handed_over()
    (question,) = run.state.questions

    with pytest.raises(InvalidRequest, match=r"takes no answer, .* hand it back instead"):
        run.ask(e.QuestionAnswered(who=ANN, question=question))


def test_only_who_is_named_may_take_it_over_or_hand_it_back() -> None:
    run = handed_over("ann")

    for press in (e.TakenOver(who=BOB), e.HandedBack(who=BOB)):
        with pytest.raises(NotAllowed, match="ann"):
            run.ask(press)


def test_what_one_person_has_another_does_not_take() -> None:
    run = handed_over()
    run.ask(e.TakenOver(who=ANN))

    with pytest.raises(InvalidRequest, match="over already"):
        run.ask(e.TakenOver(who=BOB))


def test_what_nobody_has_is_not_handed_back() -> None:
    with pytest.raises(InvalidRequest, match="nobody has taken it over"):
        paused().ask(e.HandedBack(who=ANN))


def test_to_take_over_lets_what_is_in_flight_end_first_and_says_so_in_its_receipt() -> None:
    run = running()
    pay = run.start("pay")
    at = run.ask(e.TakenOver(who=ANN))
    assert run.state.deliveries[at].status == "accepted"

    run.settle(pay)
    run.hold()

    assert run.state.deliveries[at].status == "applied"
