"""Undo: one at a time, under its own key, after the end only when somebody asked for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from journal.journals import ANN, VIC, Run, running
from midflight.errors import IllegalEvent, IllegalSignal, InvalidRequest, NotAllowed
from midflight.journal import events as e
from midflight.journal.phases import Outcome, Phase


def finish_done(run: Run) -> None:
    run.finish("done")


def finish_failed(run: Run) -> None:
    run.finish("failed")


def finish_cancelled(run: Run) -> None:
    run.cancel(now=True)
    run.finish("cancelled")


def finish_killed(run: Run) -> None:
    run.kill()


every_end = pytest.mark.parametrize(
    "end", [finish_done, finish_failed, finish_cancelled, finish_killed]
)


@every_end
def test_what_an_ended_run_did_is_undone_when_somebody_asks(end: Callable[[Run], None]) -> None:
    run = running()
    booking = run.did("book", undoable=True)
    end(run)
    phase = run.state.phase
    asked = run.ask(e.UndoRequested(who=ANN, effects=(booking,)))
    run.claim("d-2")

    run.undo(booking)

    assert run.state.effects[booking].undone
    assert (run.state.phase, run.status(asked)) == (phase, "applied")
    assert not run.state.wants_driver


@every_end
def test_nothing_is_undone_that_nobody_asked_for(end: Callable[[Run], None]) -> None:
    run = running()
    booking, mail = run.did("book", undoable=True), run.did("mail", undoable=True)
    end(run)
    run.ask(e.UndoRequested(who=ANN, effects=(mail,)))
    run.claim("d-2")

    with pytest.raises(IllegalEvent, match="the run has ended and nobody asked for it"):
        run.start_undo(booking)


def test_naming_none_means_all_that_can_be() -> None:
    run = running()
    booking = run.did("book", undoable=True)
    run.did("pay")
    run.did("mail", Outcome.NOT_DONE, undoable=True)
    unclear = run.did("post", Outcome.UNKNOWN, undoable=True)
    run.finish()

    run.ask(e.UndoRequested(who=ANN))

    assert run.state.undo_wanted == {booking, unclear}


def test_a_living_run_is_cancelled_and_not_undone() -> None:
    run = running()
    run.did("book", undoable=True)

    with pytest.raises(IllegalSignal, match="is running and cannot take undo"):
        run.ask(e.UndoRequested(who=ANN))


def test_there_must_be_something_to_undo() -> None:
    run = running()
    run.did("pay")
    run.finish()

    with pytest.raises(InvalidRequest, match=r"nothing can be undone in run r-1.*not changed"):
        run.ask(e.UndoRequested(who=ANN))


def test_what_cannot_be_undone_is_named_in_the_refusal() -> None:
    run = running()
    booking, payment = run.did("book", undoable=True), run.did("pay")
    run.finish()

    with pytest.raises(InvalidRequest, match=rf"effects \[{payment}, 99\] cannot be undone"):
        run.ask(e.UndoRequested(who=ANN, effects=(booking, payment, 99)))


def test_what_is_undone_is_not_undone_again() -> None:
    run = running()
    booking = run.did("book", undoable=True)
    run.finish()
    run.ask(e.UndoRequested(who=ANN))
    run.undo(booking)

    with pytest.raises(InvalidRequest, match="nothing can be undone"):
        run.ask(e.UndoRequested(who=ANN))
    with pytest.raises(IllegalEvent, match="has nothing to undo"):
        run.start_undo(booking)


def test_what_could_not_be_undone_may_be_tried_again() -> None:
    run = running()
    booking = run.did("book", undoable=True)
    run.finish()
    run.ask(e.UndoRequested(who=ANN))
    run.undo(booking, undone=False, why="the restaurant is closed")
    assert not run.state.wants_driver

    run.ask(e.UndoRequested(who=ANN, effects=(booking,)))
    run.undo(booking)

    assert run.state.effects[booking].undone


def test_a_try_that_was_not_final_leaves_it_wanted() -> None:
    run = running()
    booking = run.did("book", undoable=True)
    run.finish()
    run.ask(e.UndoRequested(who=ANN))
    undo = run.start_undo(booking)

    run.append(e.UndoSettled(epoch=1, undo=undo, undone=False, final=False))

    assert run.state.wants_driver
    assert run.state.undo_wanted == {booking}


def test_one_undo_at_a_time() -> None:
    run = running()
    booking, mail = run.did("book", undoable=True), run.did("mail", undoable=True)
    run.cancel()
    run.start_undo(mail)

    with pytest.raises(IllegalEvent, match="one undo at a time"):
        run.start_undo(booking)


@pytest.mark.parametrize("outcome", [Outcome.NOT_DONE, Outcome.NOT_STARTED])
def test_what_did_not_happen_is_not_undone(outcome: Outcome) -> None:
    run = running()
    booking = run.did("book", outcome, undoable=True)
    run.cancel()

    with pytest.raises(IllegalEvent, match="has nothing to undo"):
        run.start_undo(booking)


def test_what_is_in_flight_is_not_undone_before_it_has_an_outcome() -> None:
    run = running()
    booking = run.start("book", undoable=True)
    run.cancel()

    with pytest.raises(IllegalEvent, match="has nothing to undo"):
        run.start_undo(booking)


def test_what_has_no_undo_is_not_undone() -> None:
    run = running()
    payment = run.did("pay")
    run.cancel()

    with pytest.raises(IllegalEvent, match="has nothing to undo"):
        run.start_undo(payment)


def test_there_must_be_an_effect_at_that_place() -> None:
    run = running()
    run.cancel()

    with pytest.raises(IllegalEvent, match="no effect at position 2"):
        run.append(e.UndoStarted(epoch=1, effect=2, idempotency_key="k:undo"))


def test_what_must_be_released_at_every_end_is_undone_while_the_run_still_runs() -> None:
    run = running()
    lock = run.did("take_lock", undoable=True, release_always=True)

    run.undo(lock)
    run.finish()

    assert (run.state.phase, run.state.effects[lock].undone) == (Phase.DONE, True)


def test_a_viewer_undoes_nothing() -> None:
    run = running()
    run.did("book", undoable=True)
    run.finish()

    with pytest.raises(NotAllowed, match="undo needs the role controller"):
        run.ask(e.UndoRequested(who=VIC))
