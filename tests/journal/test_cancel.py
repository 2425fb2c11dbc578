"""Cancel: "stop entirely". What is in flight is listed, settled, undone; only then it is over."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from journal.histories import accepts
from journal.journals import (
    ANN,
    BOB,
    Run,
    cancelled,
    cancelling,
    done,
    failed,
    killed,
    paused,
    pausing,
    queued,
    running,
    waiting,
)
from journal.situations import beginnings
from midflight.errors import IllegalEvent, IllegalSignal
from midflight.journal import events as e
from midflight.journal.phases import Cause, Effect, Outcome, Phase
from midflight.journal.record import Event, Request
from midflight.journal.requests import Known


def appended(run: Run, position: int) -> Event:
    event = run.records[position - 1].event
    assert isinstance(event, Event)
    return event


def test_a_run_that_was_never_begun_is_cancelled_by_the_request_itself() -> None:
    run = queued()

    asked = run.cancel()

    assert (run.state.phase, run.status(asked)) == (Phase.CANCELLED, "applied")
    assert (run.state.driver, run.state.wants_driver) == ("", False)


def test_a_run_that_somebody_is_about_to_begin_is_left_to_its_driver() -> None:
    run = queued()
    run.claim("d-1")

    run.cancel()

    assert run.state.phase is Phase.CANCELLING


@pytest.mark.parametrize("living", [running, pausing, paused, waiting])
def test_whatever_lives_is_cancelling_at_once(living: Callable[[], Run]) -> None:
    run = living()

    asked = run.cancel()

    assert (run.state.phase, run.status(asked)) == (Phase.CANCELLING, "accepted")


@pytest.mark.parametrize("ended", [done, failed, cancelled, killed])
def test_an_ended_run_refuses_it(ended: Callable[[], Run]) -> None:
    run = ended()
    left = "; what it still takes: recover" if run.state.phase is Phase.KILLED else ""
    how = {"done": "is done", "failed": "has failed"}.get(run.state.phase, f"was {run.state.phase}")
    with pytest.raises(IllegalSignal) as refused:
        run.cancel()
    assert str(refused.value) == (
        f"run r-1 {how} and takes no cancel any more{left}. The run was not changed."
    )


def test_an_ended_run_offers_an_undo_only_if_there_is_something_to_undo() -> None:
    run = running()
    run.did("Mail ada", undoable=True)
    run.append(e.RunFinished(epoch=1, outcome="failed", error="smtp said no"))
    with pytest.raises(IllegalSignal, match=r"has failed and takes .*; what it still takes: undo"):
        run.cancel()


# ── the acknowledgement ──────────────────────────────────────────────────────────────────────


def test_the_acknowledgement_lists_what_is_in_flight_and_never_changes() -> None:
    run = running()
    run.did("book")
    invoice = run.start("create_invoice")
    call = run.start("think", effect=Effect.MODEL)

    asked = run.cancel()
    run.settle(call, Outcome.ABORTED)

    assert appended(run, asked) == e.CancelRequested(who=ANN, in_flight=(invoice, call))


def test_who_asks_does_not_say_what_is_in_flight() -> None:
    run = running()

    asked = run.ask(e.CancelRequested(who=ANN, in_flight=(1, 2, 3)))

    assert appended(run, asked) == e.CancelRequested(who=ANN)


def test_a_second_cancel_gets_the_receipt_of_the_first() -> None:
    run = running()
    first = run.cancel(ANN)
    head = run.state.head

    assert run.decide(e.CancelRequested(who=BOB)) == Known(first)
    assert run.state.head == head


def test_two_cancels_cannot_be_appended_behind_the_kernels_back() -> None:
    with pytest.raises(IllegalEvent, match="it is cancelling"):
        cancelling().append(e.CancelRequested(who=BOB))


def test_now_escalates_and_supersedes_the_first() -> None:
    run = cancelling()
    first = run.state.cancel_at

    second = run.cancel(BOB, now=True)

    assert run.state.cancel_now
    assert (run.status(first), run.status(second)) == ("superseded", "accepted")


def test_now_twice_gets_the_receipt_of_the_cancel_that_is_at_work() -> None:
    run = cancelling()
    escalated = run.cancel(BOB, now=True)

    assert run.decide(e.CancelRequested(who=ANN, now=True)) == Known(escalated)
    assert run.decide(e.CancelRequested(who=ANN)) == Known(escalated)


# ── it beats all ─────────────────────────────────────────────────────────────────────────────


def test_it_supersedes_the_redirect_and_the_pause_that_were_not_applied() -> None:
    run = running()
    redirect, pause = run.redirect("Osteria Verde"), run.pause()

    run.cancel()

    assert (run.status(redirect), run.status(pause)) == ("superseded", "superseded")
    assert run.state.redirect is None


def test_it_lifts_every_hold_withdraws_every_question_and_closes_every_window() -> None:
    run = running()
    run.open_question(expires_at=50.0)
    run.append(
        e.WindowOpened(epoch=1, step="mail", noun="email", until=30.0),
        e.HoldPlaced(cause=Cause.CAP),
    )
    run.pause()

    run.cancel()

    assert (run.state.holds, run.state.questions, run.state.windows) == (set(), {}, {})
    assert run.state.due_at is None


@pytest.mark.parametrize(
    "request_",
    [
        e.PauseRequested(who=ANN),
        e.ResumeRequested(who=ANN),
        e.RedirectRequested(who=ANN, text="Osteria Verde"),
        e.QuestionAnswered(who=ANN, question=4),
    ],
)
def test_later_requests_are_refused(request_: Request) -> None:
    run = waiting()
    run.cancel()

    with pytest.raises(IllegalSignal, match="is cancelling"):
        run.decide(request_)


def test_nothing_begins_any_more() -> None:
    run = running()
    run.did("book", undoable=True)
    run.cancel()

    begun = [event for event in beginnings(run) if accepts(run.state, event)]

    assert {type(event) for event in begun} == {e.UndoStarted}


# ── to the end ───────────────────────────────────────────────────────────────────────────────


def test_it_is_over_only_when_every_attempt_in_flight_has_an_outcome() -> None:
    run = running()
    invoice, mail = run.start("create_invoice"), run.start("mail")
    asked = run.cancel()

    for attempt in (invoice, mail):
        with pytest.raises(IllegalEvent, match="something is in flight"):
            run.finish("cancelled")
        run.settle(attempt, Outcome.UNKNOWN)

    run.finish("cancelled")
    assert (run.state.phase, run.status(asked)) == (Phase.CANCELLED, "applied")


def test_it_is_over_only_when_the_undo_under_way_has_an_outcome() -> None:
    run = running()
    booking = run.did("book", undoable=True)
    run.cancel()
    undo = run.start_undo(booking)

    with pytest.raises(IllegalEvent, match="something is in flight"):
        run.finish("cancelled")

    run.append(e.UndoSettled(epoch=1, undo=undo, undone=True))
    run.finish("cancelled")


def test_partial_work_is_saved_before_the_end() -> None:
    run = cancelling()

    run.append(e.WorkSaved(epoch=1, what=("the draft", "3 results")))
    run.finish("cancelled")

    assert run.state.saved == ["the draft", "3 results"]


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_a_run_that_is_cancelling_ends_cancelled_and_no_other_way(outcome: str) -> None:
    with pytest.raises(IllegalEvent, match=f"cannot end as {outcome}"):
        cancelling().finish(outcome)


@pytest.mark.parametrize("living", [running, queued])
def test_a_run_that_nobody_cancelled_does_not_end_cancelled(living: Callable[[], Run]) -> None:
    run = living()
    run.claim("d-2")

    with pytest.raises(IllegalEvent, match="cannot end as cancelled"):
        run.finish("cancelled")


def test_cancel_while_paused_still_undoes_what_was_done_before_the_pause() -> None:
    run = running()
    draft = run.did("create_draft", undoable=True)
    run.pause()
    run.hold()
    run.cancel()

    run.undo(draft)
    run.finish("cancelled")

    assert run.state.effects[draft].undone


def test_now_skips_undoing() -> None:
    run = running()
    booking = run.did("book", undoable=True)
    run.cancel(now=True)

    with pytest.raises(IllegalEvent, match="told to skip undoing"):
        run.start_undo(booking)

    run.finish("cancelled")


def test_now_still_releases_what_must_be_released_at_every_end() -> None:
    run = running()
    lock = run.did("take_lock", undoable=True, release_always=True)
    run.cancel(now=True)

    run.undo(lock)

    assert run.state.effects[lock].undone


def test_an_undo_under_way_when_now_comes_is_still_settled() -> None:
    run = running()
    booking = run.did("book", undoable=True)
    run.cancel()
    undo = run.start_undo(booking)
    run.cancel(now=True)

    run.append(e.UndoSettled(epoch=1, undo=undo, undone=True))

    assert run.state.effects[booking].undone


def test_a_cancel_is_known_by_who_asked_last() -> None:
    run = cancelling()
    run.cancel(BOB, now=True)
    run.finish("cancelled")

    assert run.state.ended_by == BOB


def test_cancel_goes_on_after_the_driver_died() -> None:
    run = running()
    booking = run.did("book", undoable=True)
    run.cancel()
    run.start_undo(booking)

    run.claim("d-2")
    run.undo(booking)
    run.finish("cancelled")

    assert run.state.effects[booking].undone


def test_the_scope_of_a_cancel_is_kept_as_it_was_asked() -> None:
    run = running()

    asked = run.cancel(scope="this")

    assert msgspec.structs.asdict(appended(run, asked))["scope"] == "this"
