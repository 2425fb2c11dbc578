"""A run's clock counts only the time in which a living driver drove it."""

from __future__ import annotations

from journal.journals import ANN, OLGA, Run
from midflight.journal import events as e
from midflight.journal.facts import claim
from midflight.journal.limits import Meter, meters
from midflight.journal.phases import Effect, Phase
from midflight.journal.record import Limits
from midflight.journal.state import seconds_in_motion, undriven_since
from midflight.journal.status import status

HOUR = 3600.0


def driven_until(at: float) -> Run:
    """A run that moves since 100; its driver wrote something at ``at`` for the last time."""
    run = Run(limits=Limits(seconds=60.0))
    run.append(e.DriverClaimed(epoch=1, driver="d-1"), at=90.0)
    run.append(e.RunEntered(epoch=1), at=100.0)
    run.append(e.PlanSet(epoch=1, steps=("Look", "Write")), at=at)
    return run


def taken_over(run: Run, at: float) -> Run:
    run.append(*claim(run.state, "d-2", lease_gone=True), at=at)
    return run


def test_the_time_between_a_drivers_death_and_the_next_claim_is_not_counted() -> None:
    run = taken_over(driven_until(110.0), at=110.0 + HOUR)

    assert meters(run.state, now=115.0 + HOUR) == [Meter("seconds", 15.0, 60.0)]


def test_a_silent_step_of_a_living_driver_is_counted() -> None:
    run = driven_until(110.0)
    assert meters(run.state, now=150.0) == [Meter("seconds", 50.0, 60.0)]

    run.append(e.PlanSet(epoch=1, steps=()), at=150.0)

    assert meters(run.state, now=150.0) == [Meter("seconds", 50.0, 60.0)]


def test_a_driver_that_takes_its_own_run_up_again_has_lived_meanwhile() -> None:
    run = driven_until(110.0)
    run.append(*claim(run.state, "d-1", lease_gone=False), at=120.0)

    assert seconds_in_motion(run.state, 125.0) == 25.0


def test_what_a_person_asks_of_a_dead_run_is_no_sign_of_life() -> None:
    run = driven_until(110.0)
    run.append(e.PauseRequested(who=ANN), at=110.0 + HOUR)
    run.append(e.ResumeRequested(who=ANN), at=120.0 + HOUR)
    taken_over(run, at=130.0 + HOUR)

    assert seconds_in_motion(run.state, 133.0 + HOUR) == 13.0


def test_a_dead_run_that_a_person_cancels_has_not_worked_until_then() -> None:
    run = driven_until(110.0)
    run.append(e.CancelRequested(who=ANN), at=110.0 + HOUR)
    assert seconds_in_motion(run.state, 111.0 + HOUR, alone=True) == 10.0

    taken_over(run, at=120.0 + HOUR)

    assert run.state.spent.seconds == 10.0


def test_a_run_that_is_resumed_while_nobody_drives_it_counts_from_its_claim() -> None:
    run = driven_until(110.0)
    run.append(e.PauseRequested(who=ANN), at=112.0)
    run.append(e.Paused(epoch=1, upto=run.state.head), at=113.0)
    run.append(e.DriverReleased(epoch=1), at=113.0)
    run.append(e.ResumeRequested(who=ANN), at=200.0)
    assert run.state.phase is Phase.RUNNING
    assert seconds_in_motion(run.state, 200.0 + HOUR, alone=True) == 13.0

    taken_over(run, at=200.0 + HOUR)

    assert seconds_in_motion(run.state, 205.0 + HOUR) == 18.0


def test_an_answer_to_a_run_whose_driver_has_died_starts_no_clock() -> None:
    run = driven_until(110.0)
    run.append(e.QuestionOpened(epoch=1, kind="ask", message="Which?"), at=111.0)
    run.append(e.WaitBegan(epoch=1), at=112.0)
    run.append(e.QuestionAnswered(who=ANN, question=5), at=200.0)
    assert seconds_in_motion(run.state, 300.0, alone=True) == 12.0

    taken_over(run, at=300.0)

    assert seconds_in_motion(run.state, 301.0) == 13.0


def test_the_clock_of_a_run_that_nobody_drives_stands_still() -> None:
    run = driven_until(110.0)

    assert seconds_in_motion(run.state, 110.0 + HOUR, alone=True) == 10.0
    assert seconds_in_motion(run.state, 110.0 + HOUR) == 10.0 + HOUR


def test_nobody_drives_a_run_since_its_driver_last_wrote_something() -> None:
    run = driven_until(110.0)
    run.append(e.PauseRequested(who=ANN), at=500.0)

    assert undriven_since(run.state, gone=False, now=600.0) is None
    assert undriven_since(run.state, gone=True, now=600.0) == 110.0


def test_a_run_that_was_just_resumed_gets_a_moment_to_be_claimed() -> None:
    run = driven_until(110.0)
    run.append(e.PauseRequested(who=ANN), at=112.0)
    run.append(e.Paused(epoch=1, upto=run.state.head), at=113.0)
    run.append(e.DriverReleased(epoch=1), at=113.0)
    assert undriven_since(run.state, gone=True, now=900.0) is None, "a paused run needs nobody"

    run.append(e.ResumeRequested(who=ANN), at=1000.0)

    assert undriven_since(run.state, gone=True, now=1001.0) is None
    assert undriven_since(run.state, gone=True, now=1010.0) == 1000.0


def test_a_run_that_has_not_begun_or_has_ended_is_not_called_undriven() -> None:
    run = Run()
    assert undriven_since(run.state, gone=True, now=HOUR) is None

    run = driven_until(110.0)
    run.append(e.Killed(who=OLGA, scope="all"), at=120.0)

    assert undriven_since(run.state, gone=True, now=HOUR) is None


def test_the_status_of_a_run_that_nobody_drives_says_so_and_what_it_was_doing() -> None:
    run = driven_until(110.0)
    run.append(
        e.AttemptStarted(
            epoch=1, step="send", name="Send", effect=Effect.ONCE, idempotency_key="k"
        ),
        at=110.0,
    )

    words = status(run.state, 110.0 + HOUR, alone=True)

    assert words == "nobody drives this, for 1 h now; it was working: Send, step 1 of 2, 0:10"
