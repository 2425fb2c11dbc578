"""Questions: the first answer wins, it is bound to what was asked, and it can be too late."""

from __future__ import annotations

import pytest
from msgspec import Raw

from journal.journals import ANN, BOB, OLGA, VIC, paused, pausing, queued, running, waiting
from midflight.errors import IllegalEvent, InvalidRequest, NotAllowed
from midflight.journal import events as e
from midflight.journal.phases import Cause, Outcome, Phase

YES = Raw(b'{"approve":true}')


def test_an_answer_to_the_only_question_sets_a_waiting_run_running() -> None:
    run = waiting()
    question = next(iter(run.state.questions))

    asked = run.answer(question, payload=YES)

    assert (run.state.phase, run.status(asked)) == (Phase.RUNNING, "applied")
    assert run.state.answered == {question: "ann"}


def test_a_run_waits_until_the_last_of_its_questions_is_answered() -> None:
    run = running()
    first, second = run.open_question("Pay?"), run.open_question("And the wine?")
    run.wait()

    run.answer(second)
    assert run.state.phase is Phase.WAITING

    run.answer(first)
    assert not run.state.questions
    assert run.state.wants_driver


def test_the_first_answer_wins_and_the_second_person_learns_whose_it_was() -> None:
    run = waiting()
    question = next(iter(run.state.questions))
    run.answer(question, ANN)

    with pytest.raises(InvalidRequest, match=r"was answered by ann\. The run was not changed"):
        run.answer(question, BOB)


def test_a_question_that_never_was_cannot_be_answered() -> None:
    with pytest.raises(InvalidRequest, match="not open"):
        waiting().answer(99)


def test_a_late_answer_about_the_first_attempt_says_nothing_about_the_second() -> None:
    run = running()
    first = run.did("pay", Outcome.UNKNOWN)
    about_first = run.open_question("Was it paid?", about=first)
    second = run.did("pay", Outcome.UNKNOWN)
    about_second = run.open_question("Was it paid?", about=second)

    run.answer(about_first)

    assert [(q, asked.about) for q, asked in run.state.questions.items()] == [
        (about_second, second)
    ]


def test_a_question_that_is_declined_is_over_and_so_is_the_waiting() -> None:
    run = waiting(kind="ask")
    question = next(iter(run.state.questions))

    run.answer(question, ANN, declined=True)

    assert (run.state.phase, run.state.questions) == (Phase.RUNNING, {})
    with pytest.raises(InvalidRequest, match="was answered by ann"):
        run.answer(question, BOB)


@pytest.mark.parametrize("kind", ["approval", "doubt", "stale", "again", "inherited"])
def test_what_has_to_be_decided_cannot_be_declined(kind: str) -> None:
    run = waiting(kind=kind)
    question = next(iter(run.state.questions))

    with pytest.raises(
        InvalidRequest, match="cannot be declined, because the run needs a decision"
    ):
        run.answer(question, ANN, declined=True)

    assert question in run.state.questions


# ── who may answer ───────────────────────────────────────────────────────────────────────────


def test_a_question_may_name_who_may_answer() -> None:
    run = waiting(answerers=("bob",))
    question = next(iter(run.state.questions))

    with pytest.raises(NotAllowed, match=r"ann is a controller and this answer needs bob"):
        run.answer(question, ANN)

    run.answer(question, BOB)


def test_a_question_may_name_a_role() -> None:
    run = waiting(answerers=("operator",))
    question = next(iter(run.state.questions))

    with pytest.raises(NotAllowed):
        run.answer(question, ANN)

    run.answer(question, OLGA)


def test_a_viewer_answers_nothing_even_where_named() -> None:
    run = waiting(answerers=("vic",))

    with pytest.raises(NotAllowed, match="vic is a viewer"):
        run.answer(next(iter(run.state.questions)), VIC)


# ── in every live phase but cancelling ───────────────────────────────────────────────────────


def test_while_other_steps_run_the_phase_stays_running_with_the_question_open() -> None:
    run = running()
    question = run.open_question()
    run.start("book")

    with pytest.raises(IllegalEvent, match="something is in flight"):
        run.wait()

    run.answer(question)
    assert run.state.phase is Phase.RUNNING


def test_a_run_does_not_wait_for_nothing() -> None:
    with pytest.raises(IllegalEvent, match="nothing asks"):
        running().wait()


def test_an_answer_while_pausing_does_not_take_the_pause_back() -> None:
    run = pausing()
    question = run.open_question()

    run.answer(question)

    assert run.state.phase is Phase.PAUSING


def test_an_answer_while_paused_takes_effect_when_the_run_moves() -> None:
    run = paused()
    question = run.open_question()

    run.answer(question)

    assert (run.state.phase, run.state.questions) == (Phase.PAUSED, {})


def test_a_question_asked_while_a_queued_run_was_held_can_still_be_answered() -> None:
    run = queued()
    run.append(e.HoldPlaced(cause=Cause.STALE))
    run.claim()
    question = run.open_question("It has changed since. Go on?")
    run.append(e.HoldLifted(cause=Cause.STALE))
    assert run.state.phase is Phase.QUEUED

    run.answer(question)

    assert not run.state.questions


def test_work_may_go_on_although_a_question_is_open() -> None:
    run = waiting()

    run.append(e.WaitEnded(epoch=1))

    assert run.state.phase is Phase.RUNNING
    assert run.state.questions


# ── closing ──────────────────────────────────────────────────────────────────────────────────


def test_a_question_that_is_closed_ends_the_waiting_like_an_answer() -> None:
    run = waiting()
    question = next(iter(run.state.questions))

    run.append(e.QuestionClosed(question=question, why="expired"))

    assert run.state.phase is Phase.RUNNING
    assert not run.state.answered


def test_changed_arguments_close_the_question_and_open_a_new_one() -> None:
    run = waiting()
    old = next(iter(run.state.questions))

    new = run.open_question("Pay $90?")
    run.append(e.QuestionClosed(question=old, why="replaced: the amount has changed"))

    assert (run.state.phase, list(run.state.questions)) == (Phase.WAITING, [new])
    with pytest.raises(InvalidRequest, match="not open"):
        run.answer(old)


def test_what_is_closed_is_not_closed_again() -> None:
    run = waiting()
    question = next(iter(run.state.questions))
    run.answer(question)

    with pytest.raises(IllegalEvent, match="not open"):
        run.append(e.QuestionClosed(question=question, why="expired"))


# ── who is woken ─────────────────────────────────────────────────────────────────────────────


def test_a_waiting_run_wants_no_driver_until_something_has_come_in() -> None:
    run = running()
    first, _ = run.open_question("Pay?"), run.open_question("And the wine?")
    run.wait()
    assert not run.state.wants_driver

    run.answer(first)

    assert run.state.phase is Phase.WAITING
    assert run.state.wants_driver


def test_the_earliest_expiry_wakes_it() -> None:
    run = running()
    run.open_question(expires_at=90.0)
    run.open_question(expires_at=60.0)
    run.open_question()
    run.wait()

    assert run.state.due_at == 60.0
