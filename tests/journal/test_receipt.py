"""The receipt: one word for every effect, and it is the true one."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from journal.journals import ANN, Run, running
from midflight.journal import events as e
from midflight.journal.phases import Effect, Outcome, Phase
from midflight.journal.preview import preview
from midflight.journal.record import Earlier
from midflight.journal.status import receipt, status
from midflight.runtime.steps.undo import next_undo

TRIES = ("lost", "lost, told", Outcome.UNKNOWN.value, Outcome.DONE.value, Outcome.NOT_DONE.value)


def lines(run: Run) -> list[str]:
    return [line.text for line in receipt(run.state).lines]


def word(outcome: Outcome, **how: Any) -> str:
    """The line of a single effect of a run that was cancelled without anything to undo."""
    run = running()
    run.did("pay", outcome, noun="payment", **how)
    run.cancel()
    run.finish("cancelled")
    (line,) = lines(run)
    return line


@pytest.mark.parametrize(
    ("outcome", "how", "line"),
    [
        (Outcome.NOT_STARTED, {}, "payment: not started"),
        (Outcome.NOT_DONE, {}, "payment: aborted (proven)"),
        (Outcome.DONE, {}, "payment: kept (no undo)"),
        (Outcome.DONE, {"irreversible": True}, "payment: final (irreversible)"),
        (Outcome.UNKNOWN, {}, "payment: unknown"),
        (Outcome.NOT_STARTED, {"undoable": True}, "payment: not started"),
        (Outcome.NOT_DONE, {"irreversible": True}, "payment: aborted (proven)"),
    ],
)
def test_an_effect_that_needs_no_undo(outcome: Outcome, how: dict[str, Any], line: str) -> None:
    assert word(outcome, **how) == line


def test_why_an_outcome_is_unknown_is_said() -> None:
    run = running()
    payment = run.start("pay", noun="payment")
    run.cancel()
    run.settle(payment, Outcome.UNKNOWN, error="worker lost")

    assert lines(run) == ["payment: unknown (worker lost)"]


def test_an_effect_is_in_flight_until_it_has_an_outcome() -> None:
    run = running()
    payment = run.start("pay", noun="payment")
    assert lines(run) == ["payment: in flight"]

    run.settle(payment)
    assert lines(run) == ["payment: kept (no undo)"]


def test_an_effect_in_flight_at_a_kill_is_unknown_until_somebody_knows() -> None:
    run = running()
    payment = run.start("pay", noun="payment")
    run.kill()
    assert lines(run) == ["payment: unknown (in flight when the run was stopped)"]

    run.report(e.LateOutcome(epoch=1, attempt=payment, outcome=Outcome.NOT_DONE))
    assert lines(run) == ["payment: aborted (proven)"]


def test_an_undo_from_announced_to_done() -> None:
    run = running()
    booking = run.did("book", noun="table", undoable=True)
    run.cancel()
    assert lines(run) == ["table: to be undone"]

    undo = run.start_undo(booking)
    assert lines(run) == ["table: being undone"]

    run.append(e.UndoSettled(epoch=1, undo=undo, undone=True))
    assert lines(run) == ["table: undone"]

    run.finish("cancelled")
    assert lines(run) == ["table: undone"]


def test_an_undo_that_failed_says_why() -> None:
    run = running()
    booking = run.did("book", noun="table", undoable=True)
    run.cancel()

    run.undo(booking, undone=False, why="changed by others since")

    assert lines(run) == ["table: could not be undone (changed by others since)"]


def test_an_undo_that_will_be_tried_again_is_not_given_up() -> None:
    run = running()
    booking = run.did("book", noun="table", undoable=True)
    run.cancel()
    undo = run.start_undo(booking)

    run.append(e.UndoSettled(epoch=1, undo=undo, undone=False, final=False, why="timeout"))

    assert lines(run) == ["table: to be undone"]


@pytest.mark.parametrize("undone", [True, False])
def test_an_unknown_outcome_stays_unknown_when_an_undo_was_attempted(undone: bool) -> None:
    run = running()
    booking = run.did("book", Outcome.UNKNOWN, noun="table", undoable=True)
    run.cancel()

    run.undo(booking, undone=undone)

    assert lines(run) == ["table: unknown (undo attempted)"]


def test_a_cancel_that_skips_undoing_says_what_remains() -> None:
    run = running()
    run.did("book", noun="table", undoable=True)
    run.cancel(now=True)

    assert lines(run) == ["table: kept (undo skipped)"]


@pytest.mark.parametrize(
    ("why", "line"),
    [
        ("worker lost", "table: unknown (undo attempted)"),
        ("OSError: timeout", "table: could not be undone (OSError: timeout)"),
    ],
)
@pytest.mark.parametrize("how", ["cancelled at once", "killed"])
def test_an_undo_that_was_begun_and_is_not_tried_again_is_not_called_skipped(
    why: str, line: str, how: str
) -> None:
    run = running()
    booking = run.did("book", noun="table", undoable=True)
    run.cancel()
    undo = run.start_undo(booking)
    run.append(e.UndoSettled(epoch=1, undo=undo, undone=False, final=False, why=why))

    if how == "killed":
        run.kill()
    else:
        run.cancel(now=True)

    assert lines(run) == [line]


@pytest.mark.parametrize("undo", ["over", "under way"])
def test_what_happened_late_may_have_happened_after_its_undo(undo: str) -> None:
    """A worker that was taken for lost tells that it has done what was undone meanwhile."""
    run = running()
    booking = run.did("book", Outcome.UNKNOWN, noun="table", undoable=True)
    run.cancel()
    begun = run.start_undo(booking)
    settled = e.UndoSettled(epoch=1, undo=begun, undone=True)
    late = e.LateOutcome(epoch=1, attempt=booking, outcome=Outcome.DONE)

    for event in (settled, late) if undo == "over" else (late, settled):
        run.append(event)
    assert lines(run) == ["table: to be undone"]

    run.undo(booking)
    assert lines(run) == ["table: undone"]


def test_nobody_knows_what_happened_late_to_a_run_that_has_ended() -> None:
    run = running()
    booking = run.did("book", Outcome.UNKNOWN, noun="table", undoable=True)
    run.cancel()
    run.undo(booking)
    run.finish("cancelled")

    run.append(e.LateOutcome(epoch=1, attempt=booking, outcome=Outcome.DONE))

    assert lines(run) == ["table: unknown (undo attempted)"]


def test_a_write_that_happened_late_is_accounted_for_by_its_repeat() -> None:
    run = running()
    lost = run.did("put", Outcome.UNKNOWN, noun="row", effect=Effect.WRITE, undoable=True)
    again = run.did("put", noun="row", effect=Effect.WRITE, undoable=True)
    run.cancel()
    run.undo(again)

    run.append(e.LateOutcome(epoch=1, attempt=lost, outcome=Outcome.DONE))

    assert lines(run) == ["row: undone"]


def test_a_repeat_in_doubt_does_not_hide_that_the_write_has_happened() -> None:
    """Whoever honours keys has done it once, and of that once it is known."""
    run = running()
    lost = run.did("put", Outcome.UNKNOWN, noun="row", effect=Effect.WRITE, undoable=True)
    run.did("put", Outcome.UNKNOWN, noun="row", effect=Effect.WRITE, undoable=True)
    assert lines(run) == ["row: unknown"]

    run.append(e.LateOutcome(epoch=1, attempt=lost, outcome=Outcome.DONE))
    assert lines(run) == ["row: kept"]

    run.cancel()
    run.undo(lost)
    assert lines(run) == ["row: undone"]


def test_a_repeat_in_doubt_whose_undo_was_tried_tells_of_both() -> None:
    """Nobody knows which came first, the undo or what the lost worker did."""
    run = running()
    lost = run.did("put", Outcome.UNKNOWN, noun="row", effect=Effect.WRITE, undoable=True)
    again = run.did("put", Outcome.UNKNOWN, noun="row", effect=Effect.WRITE, undoable=True)
    run.cancel()
    run.undo(again)
    run.finish("cancelled")

    run.append(e.LateOutcome(epoch=1, attempt=lost, outcome=Outcome.DONE))

    assert lines(run) == ["row: unknown (undo attempted)"]


def test_a_repeat_whose_worker_was_lost_too_may_still_happen_and_tells_of_both() -> None:
    """Also after an undo of the first."""
    run = running()
    lost = run.did("put", Outcome.UNKNOWN, noun="row", effect=Effect.WRITE, undoable=True)
    run.start("put", noun="row", effect=Effect.WRITE, undoable=True)
    run.claim("d-2")

    run.append(e.LateOutcome(epoch=1, attempt=lost, outcome=Outcome.DONE))

    assert lines(run) == ["row: unknown (worker lost)"]


def test_of_three_tries_none_is_silent_because_each_is_told_of_by_another() -> None:
    run = running()
    lost = run.did("put", Outcome.UNKNOWN, noun="row", effect=Effect.WRITE, undoable=True)
    run.start("put", noun="row", effect=Effect.WRITE, undoable=True)
    run.claim("d-2")
    run.did("put", Outcome.UNKNOWN, noun="row", effect=Effect.WRITE, undoable=True)

    run.append(e.LateOutcome(epoch=1, attempt=lost, outcome=Outcome.DONE))

    assert lines(run) == ["row: unknown"]


@pytest.mark.parametrize("tries", list(product(TRIES, repeat=4)), ids="-".join)
def test_whatever_was_tried_under_a_key_the_receipt_is_not_silent(tries: tuple[str, ...]) -> None:
    run = running()
    late: list[int] = []
    for number, one in enumerate(tries):
        if one in {"lost", "lost, told"}:
            attempt = run.start("put", noun="row", effect=Effect.WRITE, undoable=True)
            late += [attempt] if one == "lost, told" else []
            run.claim(f"d-{number + 2}")
        else:
            run.did("put", Outcome(one), noun="row", effect=Effect.WRITE, undoable=True)
    for attempt in late:
        run.append(e.LateOutcome(epoch=1, attempt=attempt, outcome=Outcome.DONE))

    assert lines(run)


def test_an_undo_that_was_asked_for_stays_the_repeats_when_the_write_becomes_known() -> None:
    run = running()
    lost = run.did("put", Outcome.UNKNOWN, noun="row", effect=Effect.WRITE, undoable=True)
    again = run.did("put", Outcome.UNKNOWN, noun="row", effect=Effect.WRITE, undoable=True)
    run.finish()
    run.ask(e.UndoRequested(who=ANN))

    run.append(e.LateOutcome(epoch=1, attempt=lost, outcome=Outcome.DONE))
    assert next_undo(run.state) is run.state.effects[again]

    run.undo(again)
    assert lines(run) == ["row: unknown (undo attempted)"]


def test_a_killed_run_says_what_was_not_undone() -> None:
    run = running()
    run.did("book", noun="table", undoable=True)
    run.kill()

    assert lines(run) == ["table: kept (undo skipped)"]


def test_a_run_that_is_done_keeps_what_it_did() -> None:
    run = running()
    run.did("book", noun="table", undoable=True)
    run.finish()

    assert lines(run) == ["table: kept"]


def test_a_child_counts_as_one_effect_at_its_spawn() -> None:
    run = running()
    run.did("book", noun="table", undoable=True)
    run.append(e.ChildSpawned(epoch=1, child="r-2", agent="scout", brief="Look around"))
    run.cancel()

    assert lines(run) == ["background run: Look around: to be undone", "table: to be undone"]


def test_the_newest_comes_first_as_they_are_undone() -> None:
    run = running()
    positions = [run.did(step) for step in ("book", "pay", "mail")]

    assert [line.position for line in receipt(run.state).lines] == positions[::-1]


def test_reads_and_model_calls_are_no_effects() -> None:
    run = running()
    run.append(e.StepSettled(epoch=1, step="look", name="look"))
    run.did("think", effect=Effect.MODEL)

    assert lines(run) == []


def test_an_effect_without_a_noun_is_called_by_its_tool() -> None:
    run = running()
    run.did("create_invoice")

    assert lines(run) == ["create_invoice: kept (no undo)"]


def test_what_was_saved_stands_on_it() -> None:
    run = running()
    run.cancel(ANN)
    run.append(e.WorkSaved(epoch=1, what=("the draft memo",)))
    run.finish("cancelled")

    paper = receipt(run.state)

    assert (paper.run, paper.phase, paper.saved) == ("r-1", Phase.CANCELLED, ("the draft memo",))


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome.DONE, ["row: kept (no undo)"]),
        (Outcome.UNKNOWN, ["row: unknown (reset again)"]),
        (Outcome.NOT_DONE, ["row: aborted (proven)", "row: unknown (reset by peer)"]),
        (Outcome.NOT_STARTED, ["row: not started", "row: unknown (reset by peer)"]),
    ],
)
def test_a_write_that_was_repeated_under_its_key_is_one_effect(
    outcome: Outcome, expected: list[str]
) -> None:
    run = running()
    first = run.start("upsert", effect=Effect.WRITE, noun="row")
    run.settle(first, Outcome.UNKNOWN, error="reset by peer")
    second = run.start("upsert", effect=Effect.WRITE, noun="row")
    run.settle(second, outcome, error="reset again")

    assert lines(run) == expected


def test_a_once_that_was_repeated_is_told_of_twice() -> None:
    run = running()
    for _ in range(2):
        run.settle(run.start("pay", noun="payment"), Outcome.UNKNOWN, error="reset by peer")

    assert lines(run) == ["payment: unknown (reset by peer)"] * 2


# ── which one it is, and what is done about it after the end ─────────────────────────────────


def test_each_effect_is_named_by_its_label() -> None:
    run = running()
    run.did("mail 1", noun="mail", label="mail to ada@example.com")
    run.did("mail 2", noun="mail")  # as an older version has stored it

    assert lines(run) == ["mail: kept (no undo)", "mail to ada@example.com: kept (no undo)"]


def test_an_undo_that_is_asked_for_after_the_end_is_called_that_until_it_is_done() -> None:
    run = running()
    first = run.did("write", noun="file", label="file a.txt", undoable=True)
    second = run.did("write again", noun="file", label="file b.txt", undoable=True)
    run.finish()
    assert lines(run) == ["file b.txt: kept", "file a.txt: kept"]

    run.ask(e.UndoRequested(who=ANN, effects=(second,)))
    assert lines(run) == ["file b.txt: undo asked for", "file a.txt: kept"]
    assert status(run.state, 0.0) == "done; undo asked for: file b.txt"
    assert preview(run.state)["undo"].consequence == "Undoes file a.txt"
    run.undo(second)
    assert lines(run) == ["file b.txt: undone", "file a.txt: kept"]
    assert status(run.state, 0.0) == "done"

    run.ask(e.UndoRequested(who=ANN, effects=(first,)))
    run.undo(first, undone=False, why="gone")
    assert lines(run)[1] == "file a.txt: could not be undone (gone)"


def test_an_effect_that_another_step_took_over_is_not_one_of_the_earlier_brief() -> None:
    run = running()
    mail = run.did("mail", noun="mail", label="mail to ada", undoable=True)
    run.redirect("another brief")
    run.deliver("another brief")
    run.append(e.RunEntered(epoch=run.state.epoch, why="redirected"))
    assert lines(run) == ["mail to ada: kept, for the earlier brief"]

    spent = run.state.spent.steps
    run.append(e.StepSettled(epoch=1, step="post", name="Post", earlier=Earlier(mail)))
    assert lines(run) == ["mail to ada: kept"]
    assert run.state.spent.steps == spent, "nothing was done"
    other = Earlier(4, "r-before", "mail to bob")
    run.append(e.StepSettled(epoch=1, step="post#2", name="Post", earlier=other))
    assert receipt(run.state).inherited == ("mail to bob",)
