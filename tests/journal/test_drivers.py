"""Drivers: one at a time by epoch; the journal fences the journal."""

from __future__ import annotations

import pytest

from journal.histories import accepts
from journal.journals import ANN, OLGA, paused, queued, running, waiting
from journal.situations import beginnings
from midflight.errors import IllegalEvent
from midflight.journal import events as e
from midflight.journal.facts import claim
from midflight.journal.phases import Effect, Phase
from midflight.journal.status import receipt


def test_a_run_is_claimed_before_it_is_driven() -> None:
    run = queued()
    with pytest.raises(IllegalEvent, match="nobody drives it: claim it first"):
        run.enter()

    run.claim("d-1")
    run.enter()

    assert (run.state.driver, run.state.epoch, run.state.phase) == ("d-1", 1, Phase.RUNNING)


def test_a_claim_is_one_epoch_higher_than_the_last() -> None:
    run = running()

    for epoch in (1, 3):
        with pytest.raises(IllegalEvent, match=f"epoch {epoch} is over|at epoch 1"):
            run.append(e.DriverClaimed(epoch=epoch, driver="d-2"))

    run.append(e.DriverClaimed(epoch=2, driver="d-2"))


def test_a_living_driver_keeps_its_run() -> None:
    assert claim(running().state, "d-2", lease_gone=False) == ()


def test_a_dead_drivers_run_is_taken_over() -> None:
    run = running()
    assert claim(run.state, "d-2", lease_gone=True) == (
        e.DriverClaimed(epoch=2, driver="d-2", driven_until=run.state.at),
    )


def test_what_a_dead_driver_had_in_flight_is_in_doubt_with_the_claim() -> None:
    run = running()
    sent, asked = run.start("send"), run.start("ask", effect=Effect.MODEL)
    run.append(*claim(run.state, "d-2", lease_gone=True))

    assert not run.state.open
    lines = {line.position: line.text for line in receipt(run.state).lines}
    assert lines[sent].endswith("unknown (worker lost)")
    assert asked not in lines


def test_an_undo_of_a_dead_driver_is_wanted_again_with_the_claim() -> None:
    run = running()
    book = run.did("book", undoable=True)
    run.cancel()
    run.start_undo(book)
    run.append(*claim(run.state, "d-2", lease_gone=True))

    assert not run.state.undos
    assert run.state.effects[book].undo_why == "worker lost"
    assert run.state.effects[book].undone is None


def test_a_driver_that_comes_back_claims_its_own_run_anew() -> None:
    assert claim(running().state, "d-1", lease_gone=False) == (
        e.DriverClaimed(epoch=2, driver="d-1"),
    )


def test_a_run_that_nobody_drives_needs_no_proof_of_death() -> None:
    assert claim(queued().state, "d-1", lease_gone=False) == (
        e.DriverClaimed(epoch=1, driver="d-1"),
    )


def test_after_a_claim_the_old_driver_decides_nothing() -> None:
    run = running()
    run.did("book", undoable=True)
    old = beginnings(run)
    run.claim("d-2")

    assert not any(accepts(run.state, event) for event in old)
    assert all(accepts(run.state, event) for event in beginnings(run))
    with pytest.raises(IllegalEvent, match="epoch 1 is over, the run is at epoch 2"):
        run.append(e.RunFinished(epoch=1, outcome="done"))
    with pytest.raises(IllegalEvent, match="epoch 1 is over"):
        run.append(e.DriverReleased(epoch=1))


def test_a_driver_that_released_its_run_decides_nothing_until_it_claims_again() -> None:
    run = running()
    run.append(e.DriverReleased(epoch=1))
    assert run.state.driver == ""

    with pytest.raises(IllegalEvent, match="nobody drives it"):
        run.start("book")
    with pytest.raises(IllegalEvent, match="nobody drives it"):
        run.append(e.DriverReleased(epoch=1))

    run.claim("d-1")
    run.start("book")


def test_a_released_driver_may_still_report_what_it_began() -> None:
    run = running()
    booking = run.start("book")
    run.append(e.DriverReleased(epoch=1))

    run.settle(booking)

    assert not run.state.open


def test_a_revoked_driver_is_over_and_so_is_its_epoch() -> None:
    run = waiting()

    run.append(e.DriverRevoked(scope="all"))

    assert (run.state.driver, run.state.epoch, run.state.phase) == ("", 2, Phase.WAITING)
    with pytest.raises(IllegalEvent):
        run.append(e.WaitEnded(epoch=1))


def test_entering_again_starts_a_hold_window_in_full() -> None:
    run = running()
    run.append(e.WindowOpened(epoch=1, step="mail", noun="email", until=30.0))
    run.claim("d-2")

    run.enter()

    assert run.state.windows == {}


def test_a_snapshot_is_refused_while_a_step_is_open() -> None:
    run = running()
    run.start("book")

    with pytest.raises(IllegalEvent, match="something is in flight"):
        run.append(e.StateSaved(epoch=1))


def test_a_queued_run_whose_agent_nobody_knows_can_fail_and_nothing_else() -> None:
    run = queued()
    run.claim()
    with pytest.raises(IllegalEvent, match="a run that is queued cannot end as done"):
        run.finish("done")

    run.finish("failed")

    assert run.state.phase is Phase.FAILED


def test_an_end_has_one_of_three_names() -> None:
    with pytest.raises(IllegalEvent, match="cannot end as vanished"):
        running().finish("vanished")


# ── journals of a newer version ──────────────────────────────────────────────────────────────


def test_an_event_that_need_not_be_understood_is_skipped() -> None:
    run = running()

    run.append_from_the_future(must_understand=False)

    run.start("book")
    assert (run.state.head, run.state.opaque) == (5, False)


def test_a_journal_that_is_not_understood_is_not_claimed() -> None:
    run = queued()
    run.append_from_the_future(must_understand=True)

    with pytest.raises(IllegalEvent, match="only a newer Midflight may drive it"):
        run.claim()


def test_nor_driven_on_by_who_has_it_already() -> None:
    run = running()
    run.did("book", undoable=True)
    invoice = run.start("create_invoice")
    run.append_from_the_future(must_understand=True)

    assert not any(accepts(run.state, event) for event in beginnings(run))
    run.settle(invoice)
    run.append(e.DriverReleased(epoch=1))


def test_it_still_takes_a_pause_and_a_cancel() -> None:
    run = running()
    run.append_from_the_future(must_understand=True)

    run.pause()
    assert run.state.phase is Phase.PAUSING

    run.cancel()
    assert run.state.cancel_at == run.state.head


def test_it_can_still_be_killed() -> None:
    run = running()
    run.append_from_the_future(must_understand=True)

    run.kill()

    assert run.state.phase is Phase.KILLED


# ── who is wanted ────────────────────────────────────────────────────────────────────────────


def test_an_ended_run_wants_a_driver_only_to_undo() -> None:
    run = running()
    run.did("book", undoable=True)
    run.finish()
    assert not run.state.wants_driver

    run.ask(e.UndoRequested(who=ANN))

    assert run.state.wants_driver


def test_timers_wake_a_run_and_go_with_it() -> None:
    run = running()
    run.append(
        e.TimerSet(epoch=1, name="retry", until=40.0), e.TimerSet(epoch=1, name="nap", until=20.0)
    )
    assert run.state.due_at == 20.0

    run.append(e.TimerCleared(epoch=1, name="nap"))
    assert run.state.due_at == 40.0

    run.finish()
    assert run.state.due_at is None


def test_a_recovered_run_has_no_driver() -> None:
    run = running()
    run.kill()
    run.ask(e.Recovered(who=OLGA))

    assert (run.state.driver, paused().state.driver) == ("", "d-1")
