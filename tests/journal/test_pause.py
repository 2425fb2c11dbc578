"""Pause: "I want this, but not now". Nothing begins from its acknowledgement to the resume."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from journal.histories import accepts
from journal.journals import ANN, BOB, Run, paused, pausing, queued, running, waiting
from journal.situations import beginnings
from midflight.errors import IllegalEvent, IllegalSignal, InvalidRequest
from midflight.journal import events as e
from midflight.journal.phases import Cause, Effect, Outcome, Phase
from midflight.journal.transition_table import STARTS


def test_a_running_run_is_pausing_until_its_driver_has_come_to_rest() -> None:
    run = running()

    asked = run.pause()
    assert (run.state.phase, run.status(asked)) == (Phase.PAUSING, "accepted")

    run.hold()
    assert (run.state.phase, run.status(asked)) == (Phase.PAUSED, "applied")


def test_nothing_begins_between_the_acknowledgement_of_a_pause_and_the_resume() -> None:
    run = running()
    run.did("book", undoable=True)
    assert all(accepts(run.state, event) for event in beginnings(run))

    run.pause()
    assert {type(event) for event in beginnings(run)} == set(STARTS)
    assert not any(accepts(run.state, event) for event in beginnings(run))

    run.hold()
    assert not any(accepts(run.state, event) for event in beginnings(run))

    run.resume()
    assert all(accepts(run.state, event) for event in beginnings(run))


def test_an_effect_in_flight_finishes_first() -> None:
    run = running()
    invoice = run.start("create_invoice")
    run.pause()

    with pytest.raises(IllegalEvent, match="something is in flight"):
        run.hold()

    run.settle(invoice)
    run.hold()
    assert run.state.phase is Phase.PAUSED


def test_a_model_call_in_flight_is_aborted_and_its_text_so_far_is_kept() -> None:
    run = running()
    call = run.start("think", effect=Effect.MODEL)
    run.pause()

    run.append(
        e.TextStreamed(epoch=1, step="think", attempt=call, offset=0, text="Dear"),
        run.settled(call, Outcome.ABORTED),
    )
    run.hold()

    assert run.state.phase is Phase.PAUSED


@pytest.mark.parametrize("resting", [queued, waiting])
def test_a_run_that_rests_is_paused_at_once(resting: Callable[[], Run]) -> None:
    run = resting()

    asked = run.pause()

    assert (run.state.phase, run.status(asked)) == (Phase.PAUSED, "applied")


def test_resume_while_pausing_takes_the_pause_back() -> None:
    run = pausing()
    asked = run.state.head

    back = run.resume()

    assert run.state.phase is Phase.RUNNING
    assert (run.status(asked), run.status(back)) == ("superseded", "applied")


def test_resume_of_a_run_that_was_never_entered_puts_it_back_into_the_queue() -> None:
    run = queued()
    run.pause()

    run.resume()

    assert run.state.phase is Phase.QUEUED


def test_resume_of_a_run_that_waited_finds_it_waiting_still() -> None:
    run = waiting()
    run.pause()

    run.resume()

    assert run.state.phase is Phase.WAITING


def test_resume_of_a_run_whose_question_was_answered_meanwhile_sets_it_running() -> None:
    run = waiting()
    question = next(iter(run.state.questions))
    run.pause()
    run.answer(question)
    assert run.state.holds == {Cause.USER}

    run.resume()

    assert run.state.phase is Phase.RUNNING


def test_a_question_that_opens_while_work_goes_on_is_not_waited_for_after_a_resume() -> None:
    """Even if the run had waited for another one before."""
    run = waiting()
    run.answer(next(iter(run.state.questions)))
    run.open_question("And the wine?")
    run.pause()
    run.hold()

    run.resume()

    assert run.state.phase is Phase.RUNNING


def test_pausing_may_end_in_done_and_the_pause_is_superseded() -> None:
    run = pausing()
    asked = run.state.head
    run.settle(next(iter(run.state.open)))

    run.finish("done")

    assert (run.state.phase, run.status(asked)) == (Phase.DONE, "superseded")


def test_two_people_may_pause_at_once_and_one_resume_lifts_both() -> None:
    run = running()
    first, second = run.pause(ANN), run.pause(BOB)
    run.hold()
    assert (run.status(first), run.status(second)) == ("applied", "applied")

    run.resume(ANN)

    assert run.state.phase is Phase.RUNNING


def test_a_pause_that_the_driver_had_not_heard_is_not_reported_as_applied() -> None:
    run = running()
    first = run.pause(ANN)
    second = run.pause(BOB)

    run.append(e.Paused(epoch=1, upto=first))

    assert (run.status(first), run.status(second)) == ("applied", "accepted")


def test_a_run_cannot_come_to_rest_at_a_position_that_is_not_written_yet() -> None:
    run = running()
    run.pause()

    with pytest.raises(IllegalEvent, match="not written yet"):
        run.append(e.Paused(epoch=1, upto=run.state.head + 1))


@pytest.mark.parametrize("phase", [queued, running, waiting])
def test_only_a_held_run_can_be_resumed(phase: Callable[[], Run]) -> None:
    with pytest.raises(IllegalSignal, match="cannot take resume"):
        phase().resume()


def test_a_pause_closes_the_window_in_which_a_send_could_be_taken_back() -> None:
    """It starts again in full after the resume; nothing is sent while the run is held."""
    run = running()
    run.append(e.WindowOpened(epoch=1, step="mail", noun="email", until=30.0))
    run.pause()
    assert run.state.due_at == 30.0

    run.hold()

    assert run.state.due_at is None


# ── stop it ──────────────────────────────────────────────────────────────────────────────────


def test_the_effect_that_a_pause_waits_for_can_be_stopped_and_is_then_unknown() -> None:
    run = pausing()
    invoice = next(iter(run.state.open))

    asked = run.ask(e.EffectStopRequested(who=ANN, attempt=invoice))
    run.settle(invoice, Outcome.UNKNOWN, error="stopped")
    run.hold()

    assert (run.state.phase, run.status(asked)) == (Phase.PAUSED, "applied")


def test_there_is_nothing_to_stop_while_nobody_waits_for_it() -> None:
    run = running()
    invoice = run.start("create_invoice")

    with pytest.raises(IllegalSignal, match="cannot take stop effect"):
        run.ask(e.EffectStopRequested(who=ANN, attempt=invoice))


def test_what_cannot_be_stopped_once_begun_says_so() -> None:
    run = running()
    mail = run.start("mail", irreversible=True)
    call = run.start("think", effect=Effect.MODEL)  # aborted by the pause itself
    run.pause()

    for attempt in (mail, call):
        with pytest.raises(InvalidRequest, match="cannot be stopped once begun"):
            run.ask(e.EffectStopRequested(who=ANN, attempt=attempt))


def test_a_thread_that_nobody_can_stop_is_not_said_to_be_stopped() -> None:
    run = running()
    engraving = run.start("engrave", in_thread=True)
    run.pause()

    with pytest.raises(InvalidRequest, match="runs in a thread, which nobody can stop"):
        run.ask(e.EffectStopRequested(who=ANN, attempt=engraving))


def test_a_press_that_comes_after_the_effect_has_finished_is_refused() -> None:
    run = pausing()
    invoice = next(iter(run.state.open))
    run.settle(invoice)

    with pytest.raises(InvalidRequest, match="not in flight"):
        run.ask(e.EffectStopRequested(who=ANN, attempt=invoice))


def test_the_person_holds_the_run_by_name() -> None:
    assert paused().state.holds == {Cause.USER}
