"""Redirect: "wrong path". An acknowledged one is delivered, superseded, or ended with the run."""

from __future__ import annotations

import pytest

from journal.journals import ANN, BOB, paused, pausing, queued, running, waiting
from midflight.errors import IllegalEvent, InvalidRequest
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase


def test_the_brief_changes_when_the_redirect_is_delivered_and_not_before() -> None:
    run = running()

    asked = run.redirect("Osteria Verde")
    assert (run.state.brief, run.status(asked)) == ("Plan the trip", "accepted")
    assert run.state.redirect == ("Osteria Verde", "")

    run.deliver("Plan the trip to Osteria Verde")
    assert (run.state.brief, run.status(asked)) == ("Plan the trip to Osteria Verde", "applied")
    assert run.state.redirect is None


def test_the_profile_changes_with_it_and_stays_where_none_is_named() -> None:
    run = running(profile="fast")
    run.redirect("Think harder", profile="thorough")
    run.append(e.RedirectDelivered(epoch=1, upto=run.state.head, brief="Think", profile="thorough"))
    assert run.state.profile == "thorough"

    run.redirect("Go on")
    run.deliver("Go on")

    assert run.state.profile == "thorough"


def test_the_last_redirect_that_was_not_applied_wins_and_the_earlier_is_superseded() -> None:
    run = running()
    first = run.redirect("Osteria Verde")
    second = run.redirect("The garden room", BOB)

    run.deliver("The garden room")

    assert (run.status(first), run.status(second)) == ("superseded", "applied")


def test_a_redirect_that_arrives_after_upto_is_not_consumed() -> None:
    """The driver had read up to the first one; the second came while it was writing."""
    run = running()
    first = run.redirect("Osteria Verde")
    second = run.redirect("The garden room")

    with pytest.raises(IllegalEvent, match=f"no redirect waits at or before {first}"):
        run.deliver("Osteria Verde", upto=first)

    assert run.status(second) == "accepted"
    assert run.state.redirect == ("The garden room", "")


def test_one_that_arrives_after_a_delivery_waits_for_the_next() -> None:
    run = running()
    first = run.redirect("Osteria Verde")
    run.deliver("Osteria Verde")
    second = run.redirect("The garden room")

    with pytest.raises(IllegalEvent, match="no redirect waits"):
        run.deliver("Osteria Verde", upto=first)

    run.deliver("The garden room")
    assert (run.status(first), run.status(second)) == ("applied", "applied")


def test_it_is_not_delivered_for_a_position_that_is_not_written_yet() -> None:
    run = running()
    run.redirect("Osteria Verde")

    with pytest.raises(IllegalEvent, match="not written yet"):
        run.deliver("Osteria Verde", upto=run.state.head + 1)


def test_it_is_delivered_only_when_nothing_is_in_flight() -> None:
    run = running()
    invoice = run.start("create_invoice")
    run.redirect("Osteria Verde")

    with pytest.raises(IllegalEvent, match="something is in flight"):
        run.deliver("Osteria Verde")

    run.settle(invoice)
    run.deliver("Osteria Verde")


def test_nothing_is_delivered_that_nobody_asked_for() -> None:
    with pytest.raises(IllegalEvent, match="no redirect waits"):
        running().deliver("Osteria Verde")


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_a_run_does_not_end_over_a_redirect_that_was_acknowledged(outcome: str) -> None:
    run = running()
    run.redirect("Osteria Verde")

    with pytest.raises(IllegalEvent, match="acknowledged has not been delivered"):
        run.finish(outcome)


def test_a_run_does_not_begin_to_wait_over_a_redirect_that_was_acknowledged() -> None:
    """Nobody drives a waiting run: the redirect would lie there until someone answers."""
    run = running()
    run.open_question()
    run.redirect("Osteria Verde")

    with pytest.raises(IllegalEvent, match="acknowledged has not been delivered"):
        run.wait()


def test_a_redirect_needs_a_text() -> None:
    with pytest.raises(InvalidRequest, match=r"needs a text\. The run was not changed"):
        running().redirect("  ")


# ── while it is held ─────────────────────────────────────────────────────────────────────────


def test_it_does_not_resume_a_paused_run() -> None:
    run = paused()

    run.redirect("Osteria Verde")

    assert run.state.phase is Phase.PAUSED


def test_redirect_and_resume_are_one_append() -> None:
    run = paused()

    asked = run.redirect("Osteria Verde", resume=True)

    assert (run.state.phase, run.state.head) == (Phase.RUNNING, asked)
    assert run.status(asked) == "accepted"


def test_redirect_and_resume_while_pausing_takes_the_pause_back() -> None:
    run = pausing()
    pause = run.state.head

    run.redirect("Osteria Verde", resume=True)

    assert (run.state.phase, run.status(pause)) == (Phase.RUNNING, "superseded")


def test_redirect_and_resume_lifts_nobody_elses_hold() -> None:
    run = paused()
    run.append(e.HoldPlaced(cause=Cause.CAP))

    run.redirect("Osteria Verde", resume=True)

    assert (run.state.phase, run.state.holds) == (Phase.PAUSED, {Cause.CAP})


def test_a_pause_after_a_redirect_holds_the_run_before_its_first_new_step() -> None:
    run = running()
    redirect, pause = run.redirect("Osteria Verde"), run.pause()

    run.deliver("Osteria Verde")
    run.hold()

    assert run.state.phase is Phase.PAUSED
    assert (run.status(redirect), run.status(pause)) == ("applied", "applied")


def test_a_redirect_of_a_queued_run_waits_for_its_driver() -> None:
    run = queued()
    asked = run.redirect("Osteria Verde")
    run.claim()

    run.deliver("Osteria Verde")

    assert (run.state.phase, run.status(asked)) == (Phase.QUEUED, "applied")


# ── while it waits ───────────────────────────────────────────────────────────────────────────


def test_while_waiting_it_withdraws_the_open_questions() -> None:
    run = waiting()
    run.open_question("And the wine?")

    asked = run.redirect("Osteria Verde")

    assert not run.state.questions
    assert run.state.phase is Phase.RUNNING
    closed = [r.event for r in run.records[asked:]]
    assert closed == [e.QuestionClosed(question=q, why="withdrawn: redirected") for q in (4, 6)]


def test_while_work_goes_on_it_leaves_the_open_questions_alone() -> None:
    run = running()
    question = run.open_question()

    run.redirect("Osteria Verde")

    assert set(run.state.questions) == {question}


def test_a_run_that_waited_once_and_works_again_keeps_its_next_question() -> None:
    run = waiting()
    run.answer(next(iter(run.state.questions)))
    question = run.open_question("And the wine?")

    run.redirect("Osteria Verde")

    assert set(run.state.questions) == {question}


def test_a_paused_run_that_waited_loses_its_questions_and_stays_paused() -> None:
    run = waiting()
    run.pause()

    run.redirect("Osteria Verde")

    assert (run.state.phase, run.state.questions) == (Phase.PAUSED, {})


def test_redirect_and_resume_of_a_paused_run_that_waited_sets_it_running() -> None:
    run = waiting()
    run.pause()

    run.redirect("Osteria Verde", resume=True)

    assert (run.state.phase, run.state.questions) == (Phase.RUNNING, {})


def test_a_withdrawn_question_can_not_be_answered() -> None:
    run = waiting()
    question = next(iter(run.state.questions))
    run.redirect("Osteria Verde")

    with pytest.raises(InvalidRequest, match="not open"):
        run.decide(e.QuestionAnswered(who=ANN, question=question))


# ── ended with the run ───────────────────────────────────────────────────────────────────────


def test_a_kill_supersedes_it_and_a_recovered_run_does_not_find_it_again() -> None:
    run = running()
    asked = run.redirect("Osteria Verde")

    run.kill()

    assert (run.status(asked), run.state.redirect) == ("superseded", None)
