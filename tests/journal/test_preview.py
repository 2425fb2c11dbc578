"""The words on a control before it is pressed. That they are enabled rightly is a property."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from journal.journals import (
    ANN,
    Run,
    cancelled,
    cancelling,
    done,
    killed,
    paused,
    pausing,
    queued,
    running,
    waiting,
)
from midflight.journal import events as e
from midflight.journal.phases import Cause, Effect, Mode, Outcome
from midflight.journal.preview import Offer, preview
from midflight.journal.record import Usage
from midflight.journal.transition_table import VERBS


def says(run: Run, verb: str) -> tuple[str, str]:
    """Label and consequence of a control that can be pressed."""
    offer = preview(run.state)[verb]
    assert offer.enabled
    return offer.label, offer.consequence


def why_not(run: Run, verb: str) -> str:
    offer = preview(run.state)[verb]
    assert not offer.enabled
    return offer.consequence


@pytest.mark.parametrize(
    "phase", [queued, running, pausing, paused, waiting, cancelling, done, cancelled, killed]
)
def test_every_verb_is_always_shown_with_a_label_and_a_consequence(
    phase: Callable[[], Run],
) -> None:
    offers = preview(phase().state)

    assert list(offers) == list(VERBS)
    assert all(offer.verb == verb and offer.label for verb, offer in offers.items())
    assert all(offer.consequence for offer in offers.values())


# ── boundary mode ────────────────────────────────────────────────────────────────────────────


def test_in_boundary_mode_every_stop_says_that_it_waits_for_the_step() -> None:
    run = running(mode=Mode.BOUNDARY)
    run.did("book", noun="table", undoable=True)

    assert says(run, "pause")[1] == "Waits for the end of this step, then holds"
    assert says(run, "redirect")[1] == "Waits for the end of this step, then rewrites the next"
    assert says(run, "cancel")[1] == (
        "Waits for the end of this step, then undoes table, saves partial work to thread"
    )
    run.cancel()
    assert says(run, "cancel") == ("Stop now", "Skips undo, table may remain")  # heard at once


def test_a_background_run_in_boundary_mode_is_waited_for() -> None:
    run, child = spawned(running(), "r-2"), running(mode=Mode.BOUNDARY)

    offer = preview(run.state, {"r-2": child.state})["pause"]

    assert offer.consequence == "Waits for the end of a background run's step, then holds"


# ── pause and resume ─────────────────────────────────────────────────────────────────────────


def test_pause_keeps_the_context() -> None:
    assert says(running(), "pause") == ("Pause", "Resume keeps context")


def test_pause_names_the_effect_it_will_let_finish_and_no_model_call() -> None:
    run = running()
    run.start("create_invoice", noun="invoice")
    run.start("think", effect=Effect.MODEL)

    assert says(run, "pause") == ("Pause", "Finishes invoice first, keeps context")


def test_pause_is_not_offered_twice() -> None:
    assert why_not(pausing(), "pause") == "It is pausing"
    assert why_not(paused(), "pause") == "It is paused"


def test_resume_continues() -> None:
    assert says(paused(), "resume") == ("Resume", "Continues with context kept")


def test_resume_while_pausing_takes_the_pause_back() -> None:
    assert says(pausing(), "resume") == ("Keep running", "Takes the pause back")


@pytest.mark.parametrize("held", [paused, pausing])
def test_resume_does_not_promise_to_continue_what_something_else_holds(
    held: Callable[[], Run],
) -> None:
    run = held()
    run.append(e.HoldPlaced(cause=Cause.CAP), e.HoldPlaced(cause=Cause.DRAIN))

    assert says(run, "resume") == ("Resume", "Still held afterwards: cap, drain")


def test_resume_says_whose_hold_it_does_not_lift() -> None:
    run = running()
    run.append(e.HoldPlaced(cause=Cause.PARKED), e.HoldPlaced(cause=Cause.CAP))

    assert why_not(run, "resume") == "Held for another reason: cap, parked"
    assert says(run, "pause") == ("Pause", "Resume keeps context")


# ── redirect, answer, raise, stop it ─────────────────────────────────────────────────────────


def test_redirect_says_when_it_is_used() -> None:
    assert says(running(), "redirect") == ("Redirect", "Rewrites the next step")
    assert says(paused(), "redirect") == ("Redirect", "Used when you resume")
    capped = paused()
    capped.append(e.HoldPlaced(cause=Cause.CAP))
    assert says(capped, "redirect") == ("Redirect", "Used when it goes on")
    assert says(waiting(), "redirect") == ("Redirect", "Skips this, rewrites the step")


def test_redirect_does_not_promise_to_skip_a_question_that_nothing_waits_for() -> None:
    run = waiting()
    run.answer(next(iter(run.state.questions)))
    run.open_question("And the wine?")

    assert says(run, "redirect") == ("Redirect", "Rewrites the next step")


def test_review_counts_the_decisions() -> None:
    run = waiting()
    assert says(run, "answer") == ("Review", "1 decision")

    run.open_question("And the wine?")
    assert says(run, "answer") == ("Review", "2 decisions")

    assert why_not(running(), "answer") == "Nothing is asked"


def test_raising_the_cap_continues_only_what_is_held_for_it_alone() -> None:
    run = running()
    assert says(run, "raise limits") == ("Raise cap", "Allows more before it asks")

    run.append(e.HoldPlaced(cause=Cause.CAP))
    assert says(run, "raise limits") == ("Raise cap", "Then continues")

    run.pause()
    assert says(run, "raise limits") == ("Raise cap", "Still held afterwards: user")


def test_stop_it_names_what_may_have_partly_happened() -> None:
    run = running()
    run.start("create_invoice", noun="invoice")
    run.start("think", effect=Effect.MODEL)
    run.pause()

    assert says(run, "stop effect") == (
        "Stop it",
        "Aborts invoice, which may have partly happened",
    )


def test_stop_it_is_not_offered_for_what_cannot_be_stopped() -> None:
    run = running()
    run.start("mail", noun="email", irreversible=True)
    run.pause()

    assert why_not(run, "stop effect") == "Nothing in flight can be stopped"


# ── cancel ───────────────────────────────────────────────────────────────────────────────────


def test_cancel_with_nothing_done_saves_what_there_is() -> None:
    assert says(running(), "cancel") == ("Cancel", "Saves what is done so far")


def test_cancel_names_what_it_undoes_and_what_stays() -> None:
    run = running()
    for n in range(20):
        run.did(f"create_task_{n}", noun="task", undoable=True)
    run.did("mail", noun="email")

    assert says(run, "cancel") == (
        "Cancel",
        "Undoes 20 tasks, email stays, saves partial work to thread",
    )


def test_of_what_may_not_have_happened_it_is_said_that_it_may_stay() -> None:
    run = running()
    run.did("mail", noun="email")
    run.did("order", Outcome.UNKNOWN, noun="order", label="order tea")

    assert says(run, "cancel") == (
        "Cancel",
        "Email stays, order tea may stay, saves partial work to thread",
    )


def test_what_stays_agrees_with_its_number() -> None:
    run = running()
    for n in range(5):
        run.did(f"mail_{n}", noun="mail")
    assert says(run, "cancel")[1] == "5 mails stay, saves partial work to thread"
    run.did("enter_1", noun="entry")
    run.did("enter_2", noun="entry")
    assert says(run, "cancel")[1].startswith("5 mails and 2 entries stay, ")


def test_what_is_under_way_agrees_with_its_number() -> None:
    run = running()
    run.start("mail_1", noun="mail", irreversible=True)
    run.start("mail_2", noun="mail", irreversible=True)
    offer = preview(run.state)["cancel"]
    assert offer.confirm == "2 mails are under way and cannot be stopped. Cancel anyway?"


def test_cancel_does_not_count_what_did_not_happen_or_is_undone() -> None:
    run = running()
    run.did("book", Outcome.NOT_DONE, noun="table", undoable=True)
    run.did("mail", Outcome.NOT_STARTED, noun="email")
    lock = run.did("take_lock", noun="lock", undoable=True)
    run.undo(lock)

    assert says(run, "cancel") == ("Cancel", "Saves what is done so far")


def test_cancel_counts_what_is_in_flight_or_in_doubt() -> None:
    run = running()
    run.did("book", Outcome.UNKNOWN, noun="table", undoable=True)
    run.start("pay", noun="payment", undoable=True)

    assert says(run, "cancel") == (
        "Cancel",
        "Undoes table and payment, saves partial work to thread",
    )


def test_a_long_list_is_cut() -> None:
    run = running()
    for noun in ("table", "taxi", "room", "guide", "boat"):
        run.did(noun, noun=noun, undoable=True)

    _, consequence = says(run, "cancel")

    assert consequence == "Undoes table, taxi and 3 more, saves partial work to thread"


def test_cancel_asks_first_only_while_something_irreversible_is_in_flight() -> None:
    run = running()
    mail = run.start("mail", noun="email", irreversible=True)
    assert preview(run.state)["cancel"].confirm == (
        "email is under way and cannot be stopped. Cancel anyway?"
    )

    run.settle(mail)
    assert preview(run.state)["cancel"].confirm == ""


def spawned(run: Run, *children: str) -> Run:
    for child in children:
        run.append(e.ChildSpawned(epoch=1, child=child, agent="scout", brief="Look around"))
    return run


def test_cancel_names_what_runs_below_undo_and_what_they_cannot() -> None:
    run = spawned(running(), "r-2", "r-3")
    run.did("book", noun="table", undoable=True)
    lives, ended = spawned(running(), "r-4"), done()
    lives.did("order", noun="taxi", undoable=True)
    lives.did("mail", noun="email", irreversible=True)
    below = {"r-2": lives.state, "r-3": ended.state, "r-4": running().state}

    offer = preview(run.state, below)["cancel"]

    assert offer.consequence == (
        "Cancels 2 background runs, undoes table and taxi, email stays, "
        "saves partial work to thread"
    )
    assert offer.confirm == ""


def test_cancel_asks_first_while_something_irreversible_is_in_flight_below() -> None:
    run, child = spawned(running(), "r-2"), running()
    child.start("mail", noun="email", irreversible=True)

    offer = preview(run.state, {"r-2": child.state})["cancel"]

    assert offer.confirm == "email is under way and cannot be stopped. Cancel anyway?"


def test_where_the_runs_below_are_not_at_hand_cancel_promises_nothing_of_them() -> None:
    one, two = spawned(running(), "r-2"), spawned(running(), "r-2", "r-3")
    over = spawned(running(), "r-2")
    over.append(e.ChildSettled(epoch=1, child="r-2", outcome="done", usage=Usage(), steps=1))

    assert says(one, "cancel")[1] == (
        "Cancels background run, undoes what it can of background run, saves partial work to thread"
    )
    assert says(two, "cancel")[1].startswith(
        "Cancels 2 background runs, undoes what it can of 2 background runs, "
    )
    assert says(over, "cancel")[1].startswith("Undoes what it can of background run, ")
    over.did("book", noun="table", undoable=True)
    assert says(over, "cancel")[1] == (
        "Undoes table, what it can of background run, saves partial work to thread"
    )


def test_stop_now_and_undo_do_not_promise_what_is_not_known_either() -> None:
    run = spawned(running(), "r-2")
    run.cancel()
    assert says(run, "cancel")[1] == "Skips undo, what background run did may remain"


def test_while_cancelling_the_control_says_stop_now_and_what_may_remain() -> None:
    run = cancelling()
    assert says(run, "cancel") == ("Stop now", "Skips what is left")

    run = running()
    run.did("hold_table", noun="hold", undoable=True)
    run.cancel()
    assert says(run, "cancel") == ("Stop now", "Skips undo, hold may remain")


def test_it_cannot_stop_more_than_now() -> None:
    run = running()
    run.cancel(now=True)

    assert why_not(run, "cancel") == "Stopping now"


@pytest.mark.parametrize("verb", ["pause", "resume", "redirect", "answer"])
def test_while_cancelling_the_other_controls_say_why_they_are_off(verb: str) -> None:
    assert why_not(cancelling(), verb) == "Not while cancelling"


# ── after the end ────────────────────────────────────────────────────────────────────────────


def test_an_ended_run_says_how_it_ended() -> None:
    assert why_not(done(), "pause") == "It has ended: done"
    assert why_not(cancelled(), "cancel") == "It has ended: cancelled"


def test_undo_names_what_it_undoes() -> None:
    run = running()
    run.did("book", noun="table", undoable=True)
    run.finish()

    assert says(run, "undo") == ("Undo", "Undoes table")


def test_undo_is_offered_again_for_what_could_not_be_undone() -> None:
    run = running()
    booking = run.did("book", noun="table", undoable=True)
    run.finish()
    run.ask(e.UndoRequested(who=ANN))
    run.undo(booking, undone=False, why="closed")
    assert says(run, "undo") == ("Undo", "Undoes table")

    run.ask(e.UndoRequested(who=ANN))
    run.undo(booking)
    assert why_not(run, "undo") == "Nothing can be undone"


def test_undo_is_not_offered_for_what_was_in_flight_at_a_kill_until_its_outcome_is_known() -> None:
    run = running()
    booking = run.start("book", noun="table", undoable=True)
    run.kill()
    assert why_not(run, "undo") == "Nothing can be undone"

    run.report(e.LateOutcome(epoch=1, attempt=booking, outcome=Outcome.DONE))
    assert says(run, "undo") == ("Undo", "Undoes table")


def test_a_killed_run_comes_back_paused() -> None:
    assert preview(killed().state)["recover"] == Offer(
        "recover", "Recover", enabled=True, consequence="Comes back paused"
    )


@pytest.mark.parametrize(
    ("nouns", "words"),
    [
        (["mail"], "Mail to 0 stays"),
        (["mail"] * 5, "5 mails stay"),
        (["mail", "note"], "Mail to 0 and note to 1 stay"),
        (["copy", "copy", "box", "box"], "2 copies and 2 boxes stay"),
        (["day", "day"], "2 days stay"),
    ],
)
def test_what_stays_is_one_by_its_label_or_several_counted_and_the_verb_agrees(
    nouns: list[str], words: str
) -> None:
    run = running()
    for number, noun in enumerate(nouns):
        run.did(f"{noun} {number}", noun=noun, label=f"{noun} to {number}")

    assert says(run, "cancel")[1] == f"{words}, saves partial work to thread"


def test_several_that_cannot_be_stopped_are_under_way() -> None:
    run = running()
    run.start("a", noun="mail", irreversible=True)
    assert preview(run.state)["cancel"].confirm.startswith("mail is under way")
    run.start("b", noun="mail", irreversible=True)
    assert preview(run.state)["cancel"].confirm.startswith("2 mails are under way")
