"""The operator's switch: no code of the run runs again, and what was in doubt is listed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from journal.histories import accepts
from journal.journals import (
    ANN,
    OLGA,
    VIC,
    Run,
    cancelling,
    done,
    killed,
    paused,
    pausing,
    queued,
    running,
    waiting,
)
from journal.situations import beginnings
from midflight.errors import NotAllowed, ScopeStopped
from midflight.journal import events as e
from midflight.journal.facts import claim
from midflight.journal.phases import Cause, Outcome, Phase
from midflight.journal.record import Request
from midflight.journal.requests import Switch, decide, scopes
from midflight.journal.state import RunState
from midflight.journal.status import receipt

STOPPED = Switch(scope="agent:trip", by="olga", at=9.0)


@pytest.mark.parametrize("moving", [running, pausing, cancelling])
def test_what_moves_is_ended_at_once(moving: Callable[[], Run]) -> None:
    run = moving()

    run.kill("all")

    assert (run.state.phase, run.state.driver, run.state.ended_by) == (Phase.KILLED, "", OLGA)


def test_what_is_in_flight_is_listed() -> None:
    run = running()
    run.did("book")
    invoice = run.start("create_invoice")

    (event,) = run.kill("thread:t-1")

    assert event == e.Killed(who=OLGA, scope="thread:t-1", in_flight=(invoice,))


@pytest.mark.parametrize("resting", [paused, waiting])
def test_what_rests_keeps_its_phase_and_loses_its_driver(resting: Callable[[], Run]) -> None:
    run = resting()
    phase, epoch = run.state.phase, run.state.epoch

    assert run.kill("all") == (e.DriverRevoked(scope="all"),)

    assert (run.state.phase, run.state.driver, run.state.epoch) == (phase, "", epoch + 1)


def test_what_nobody_drives_is_left_as_it_is() -> None:
    run = queued()

    assert run.kill() == ()


def test_an_ended_run_that_is_being_undone_loses_its_driver() -> None:
    run = running()
    booking = run.did("book", undoable=True)
    run.finish()
    run.ask(e.UndoRequested(who=ANN))

    run.kill()

    assert not accepts(
        run.state, e.UndoStarted(epoch=1, effect=booking, idempotency_key="book-key:undo")
    )


def test_nothing_begins_after_it() -> None:
    run = running()
    run.did("book", undoable=True)
    before = beginnings(run)
    run.kill()

    assert not any(accepts(run.state, event) for event in before + beginnings(run))


def test_it_supersedes_everything_that_was_asked() -> None:
    run = running()
    redirect, pause = run.redirect("Elsewhere"), run.pause()

    run.kill()

    assert (run.status(redirect), run.status(pause)) == ("superseded", "superseded")


def test_a_cancel_under_way_stops_and_says_what_was_left() -> None:
    run = running()
    run.did("book", noun="table", undoable=True)
    asked = run.cancel()

    run.kill()

    assert run.status(asked) == "superseded"
    assert [line.text for line in receipt(run.state).lines] == ["table: kept (undo skipped)"]


# ── the switch that stays on ─────────────────────────────────────────────────────────────────


def test_a_run_is_covered_by_the_switches_of_everything_its_agent_and_its_thread() -> None:
    assert scopes("trip", "t-1") == ("all", "agent:trip", "thread:t-1")


@pytest.mark.parametrize(
    "request_",
    [
        e.ResumeRequested(who=ANN),
        e.RedirectRequested(who=ANN, text="Elsewhere", resume=True),
    ],
)
def test_nothing_moves_until_it_is_released(request_: Request) -> None:
    run = paused()

    with pytest.raises(ScopeStopped, match=r"operator olga has stopped all runs of agent trip"):
        run.ask(request_, switches=[STOPPED])

    run.ask(request_)
    assert run.state.phase is Phase.RUNNING


def test_nothing_is_started_until_it_is_released() -> None:
    created = e.RunCreated(who=ANN, agent="trip", thread="t-1", brief="Go")

    with pytest.raises(ScopeStopped):
        decide(RunState("r-2"), created, switches=[STOPPED])

    assert decide(RunState("r-2"), created) == (created,)


def test_nothing_is_claimed_until_it_is_released() -> None:
    with pytest.raises(ScopeStopped, match="Nothing was changed"):
        claim(queued().state, "d-1", lease_gone=True, switches=[STOPPED])


@pytest.mark.parametrize(
    "request_",
    [
        e.PauseRequested(who=ANN),
        e.CancelRequested(who=ANN),
        e.RedirectRequested(who=ANN, text="Elsewhere"),
    ],
)
def test_a_person_may_still_stop_and_steer_what_rests(request_: Request) -> None:
    assert paused().decide(request_, switches=[STOPPED])


# ── recovery ─────────────────────────────────────────────────────────────────────────────────


def test_a_recovered_run_is_held_until_someone_resumes_it() -> None:
    run = killed()

    asked = run.ask(e.Recovered(who=OLGA))

    assert (run.state.phase, run.state.holds) == (Phase.PAUSED, {Cause.USER})
    assert (run.status(asked), run.state.ended_by) == ("applied", None)

    run.resume()
    run.claim("d-2")
    run.enter()
    assert run.state.phase is Phase.RUNNING


def test_a_run_that_was_held_for_another_cause_is_recovered_with_it() -> None:
    run = pausing()
    run.append(e.HoldPlaced(cause=Cause.CAP))
    run.kill()

    run.ask(e.Recovered(who=OLGA))

    assert run.state.holds == {Cause.USER, Cause.CAP}


def test_a_recovered_run_has_forgotten_the_cancel_it_was_killed_in() -> None:
    run = running()
    run.did("book", noun="table", undoable=True)
    run.cancel(now=True)
    run.kill()
    run.ask(e.Recovered(who=OLGA))
    run.resume()
    run.claim("d-2")

    asked = run.cancel()

    assert run.state.cancel_at == asked
    assert [line.word for line in receipt(run.state).lines] == ["to be undone"]


def test_what_was_in_flight_at_the_kill_is_in_doubt_before_its_step_begins_again() -> None:
    run = running()
    invoice = run.start("create_invoice")
    run.kill()
    run.ask(e.Recovered(who=OLGA))
    run.resume()
    run.claim("d-2")

    assert run.state.effects[invoice].outcome is Outcome.UNKNOWN
    run.start("create_invoice")


def test_what_a_driver_from_before_the_kill_reports_after_a_recovery_is_late() -> None:
    """Its epoch is over although nobody has claimed the run since."""
    run = running()
    invoice = run.start("create_invoice")
    run.kill()
    run.ask(e.Recovered(who=OLGA))
    run.resume()

    (event,) = run.report(e.AttemptSettled(epoch=1, attempt=invoice, outcome=Outcome.DONE))

    assert isinstance(event, e.LateOutcome)
    assert run.report(e.StepSettled(epoch=1, step="look", name="look")) == ()


def test_only_an_operator_recovers() -> None:
    for who in (ANN, VIC):
        with pytest.raises(NotAllowed, match="recover needs the role operator"):
            killed().decide(e.Recovered(who=who))


def test_only_an_operator_kills() -> None:
    with pytest.raises(NotAllowed):
        running().decide(e.Killed(who=ANN, scope="all"))


def test_no_other_end_can_be_recovered() -> None:
    assert not accepts(done().state, e.Recovered(who=OLGA))
