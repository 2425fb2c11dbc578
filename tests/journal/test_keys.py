"""Keys and expectations: a repeat is one request; a decision on an old state is refused."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from msgspec import Raw

from journal.journals import ANN, BOB, VIC, Run, Thread, paused, running, waiting
from midflight.errors import KeyReused, NotAllowed, Outdated
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Limits, Request, body_digest
from midflight.journal.requests import Known
from midflight.journal.threads.thread import MessageSent

# ── keys ─────────────────────────────────────────────────────────────────────────────────────


def test_the_same_request_under_the_same_key_is_answered_with_its_first_position() -> None:
    run = running()
    pause = e.PauseRequested(who=ANN, key="k-1")
    first = run.ask(pause)
    run.resume()

    assert run.decide(pause) == Known(first)


def test_another_request_under_the_same_key_is_refused() -> None:
    run = running()
    first = run.redirect("Osteria Verde", key="k-1")

    with pytest.raises(
        KeyReused, match=rf"'k-1' was used at position {first}.*Nothing was changed"
    ):
        run.redirect("The garden room", key="k-1")


def test_a_key_of_one_verb_says_nothing_about_another() -> None:
    run = running()
    run.redirect("Osteria Verde", key="k-1")

    assert not isinstance(run.decide(e.CancelRequested(who=ANN, key="k-1")), Known)


def test_keys_of_two_people_are_two_keys() -> None:
    run = running()
    run.redirect("Osteria Verde", ANN, key="k-1")

    second = run.redirect("The garden room", BOB, key="k-1")

    assert second == run.state.head


def test_without_a_key_every_request_is_a_new_one() -> None:
    run = running()

    assert run.pause() < run.pause()


def test_a_repeated_cancel_is_recognised_although_the_first_was_given_a_list() -> None:
    run = running()
    run.start("create_invoice")
    first = run.cancel(key="k-1")
    run.settle(next(iter(run.state.open)))
    run.finish("cancelled")

    assert run.decide(e.CancelRequested(who=ANN, key="k-1")) == Known(first)


def test_a_repeated_resume_is_recognised_although_there_is_nothing_left_to_show_as_changed() -> (
    None
):
    run = paused()
    first = run.resume(key="k-1", diff="usd cap 1 → 2")

    again = e.ResumeRequested(who=ANN, key="k-1", diff="nothing changed")
    assert run.decide(again) == Known(first)


def test_a_repeated_undo_of_everything_is_recognised_although_everything_is_undone() -> None:
    run = running()
    booking = run.did("book", undoable=True)
    run.finish()
    undo = e.UndoRequested(who=ANN, key="k-1")
    first = run.ask(undo)
    run.undo(booking)

    assert run.decide(undo) == Known(first)


def test_a_repeated_answer_gets_its_receipt_and_not_the_news_that_somebody_was_faster() -> None:
    run = waiting()
    answer = e.QuestionAnswered(who=ANN, question=next(iter(run.state.questions)), key="k-1")
    first = run.ask(answer)

    assert run.decide(answer) == Known(first)


def test_a_key_is_kept_after_the_end() -> None:
    run = running()
    first = run.raise_limits(Limits(usd=1.0))
    run.ask(e.PauseRequested(who=ANN, key="k-1"))
    run.kill()

    assert run.decide(e.PauseRequested(who=ANN, key="k-1")) == Known(first + 1)


def test_a_thread_knows_keys_too() -> None:
    thread = Thread()
    first = thread.send("hello", key="k-1")

    assert thread.decide(MessageSent(who=ANN, text="hello", key="k-1")) == Known(first)
    with pytest.raises(KeyReused):
        thread.send("good bye", key="k-1")


def test_who_may_not_ask_learns_nothing_from_a_key() -> None:
    run = running()
    run.pause(key="k-1")

    with pytest.raises(NotAllowed, match="vic is a viewer and pause needs the role controller"):
        run.decide(e.PauseRequested(who=VIC, key="k-1"))


@pytest.mark.parametrize(
    "request_",
    [
        e.CancelRequested(who=ANN, key="k", in_flight=(3, 4)),
        e.QuestionAnswered(who=BOB, question=4, payload=Raw(b'{"a": [1, 2]}')),
        e.LimitsRaised(who=ANN, limits=Limits(usd=1.5)),
        e.RunCreated(who=ANN, agent="trip", thread="t-1", brief="Größe", input=Raw(b'{"n":1}')),
    ],
)
def test_a_request_read_from_disk_asks_what_it_asked(request_: Request) -> None:
    stored = msgspec.json.decode(msgspec.json.encode(request_), type=type(request_))

    assert body_digest(stored) == body_digest(request_)


# ── expect ───────────────────────────────────────────────────────────────────────────────────


def test_a_decision_on_what_has_not_changed_since_is_taken() -> None:
    run = running()
    seen = run.state.head
    run.did("book")
    run.append(e.TextStreamed(epoch=1, step="think", offset=0, text="Dear"))

    assert run.decide(e.RedirectRequested(who=ANN, text="Elsewhere"), expect=seen)


REDIRECT = e.RedirectRequested(who=ANN, text="Elsewhere")


def phase_changes(run: Run) -> None:
    run.pause()


def brief_changes(run: Run) -> None:
    run.redirect("Osteria Verde", BOB)
    run.deliver("Osteria Verde")


def plan_changes(run: Run) -> None:
    run.append(e.PlanSet(epoch=1, steps=("Book", "Pay")))


def question_opens(run: Run) -> None:
    run.open_question()


def question_is_answered(run: Run) -> None:
    run.answer(next(iter(run.state.questions)), BOB)


def irreversible_work_begins(run: Run) -> None:
    run.start("mail", irreversible=True)


def irreversible_work_ends(run: Run) -> None:
    run.settle(next(iter(run.state.open)))


def asking() -> Run:
    run = running()
    run.open_question()
    return run


def mailing() -> Run:
    run = running()
    run.start("mail", irreversible=True)
    return run


@pytest.mark.parametrize(
    ("before", "change"),
    [
        (running, phase_changes),
        (running, brief_changes),
        (running, plan_changes),
        (running, question_opens),
        (asking, question_is_answered),
        (running, irreversible_work_begins),
        (mailing, irreversible_work_ends),
    ],
)
def test_a_decision_on_what_has_changed_since_is_refused(
    before: Callable[[], Run], change: Callable[[Run], None]
) -> None:
    run = before()
    seen = run.state.head
    change(run)
    head = run.state.head

    with pytest.raises(Outdated, match="The run was not changed") as refusal:
        run.ask(REDIRECT, expect=seen)

    assert (refusal.value.expected, refusal.value.changed_at) == (seen, head)
    assert run.decide(REDIRECT, expect=head)


@pytest.mark.parametrize("stop", [e.PauseRequested(who=ANN), e.CancelRequested(who=ANN)])
def test_a_stop_is_never_refused_for_it(stop: Request) -> None:
    run = running()
    run.open_question()
    run.start("mail", irreversible=True)

    assert run.decide(stop, expect=1)


def test_a_repeat_of_what_was_taken_is_not_outdated() -> None:
    run = running()
    seen = run.state.head
    redirect = e.RedirectRequested(who=ANN, text="Elsewhere", key="k-1")
    first = run.ask(redirect, expect=seen)
    run.deliver("Elsewhere")

    assert run.decide(redirect, expect=seen) == Known(first)


@pytest.mark.parametrize(
    "asked",
    [
        e.RedirectRequested(who=ANN, text="By bus"),
        e.RedirectRequested(who=ANN, text="By bus", resume=True),
        e.ResumeRequested(who=ANN),
    ],
)
def test_a_request_made_while_it_pauses_is_taken_once_it_has_paused(asked: Request) -> None:
    run = running()
    run.pause()
    seen = run.state.relevant
    run.hold()

    run.ask(asked, expect=seen)

    assert run.state.redirect is not None or run.state.phase is Phase.RUNNING


def test_a_request_made_while_it_pauses_is_refused_if_something_else_has_changed_by_then() -> None:
    run = running()
    run.pause()
    seen = run.state.relevant
    run.open_question()
    run.hold()

    with pytest.raises(Outdated):
        run.ask(e.RedirectRequested(who=ANN, text="By bus"), expect=seen)


def test_a_request_made_while_it_runs_is_refused_once_it_has_paused() -> None:
    run = running()
    seen = run.state.relevant
    run.pause(who=BOB)
    run.hold()

    with pytest.raises(Outdated):
        run.ask(e.RedirectRequested(who=ANN, text="By bus"), expect=seen)
