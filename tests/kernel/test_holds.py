"""A run is held for a set of causes. It moves when the set is empty; each has one owner."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kernel.journals import ANN, Run, paused, pausing, queued, running, waiting
from midflight.errors import IllegalEvent, InvalidRequest
from midflight.kernel import events as e
from midflight.kernel.phases import Cause, Phase
from midflight.kernel.record import Limits

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
