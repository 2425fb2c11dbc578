"""Facts: accepted once per attempt, in any phase, from whoever knows; never thrown away."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from journal.journals import OLGA, Run, cancelling, paused, pausing, running
from midflight.errors import IllegalEvent
from midflight.journal import events as e
from midflight.journal.facts import claim, record
from midflight.journal.phases import Effect, Outcome, Phase
from midflight.journal.record import Fact, Usage


def settled(attempt: int, outcome: Outcome = Outcome.DONE, *, epoch: int = 1) -> e.AttemptSettled:
    return e.AttemptSettled(epoch=epoch, attempt=attempt, outcome=outcome)


def test_the_driver_of_today_settles_its_attempt() -> None:
    run = running()
    invoice = run.start("create_invoice")

    assert run.report(settled(invoice)) == (settled(invoice),)
    assert (run.state.open, run.state.effects[invoice].outcome) == ({}, Outcome.DONE)


def test_a_fact_is_accepted_once() -> None:
    run = running()
    invoice = run.start("create_invoice")
    run.report(settled(invoice))

    assert run.report(settled(invoice)) == ()
    assert run.report(settled(invoice, Outcome.UNKNOWN)) == ()
    with pytest.raises(IllegalEvent, match="no attempt is in flight"):
        run.append(settled(invoice))


def test_a_known_outcome_is_never_overwritten() -> None:
    run = running()
    invoice = run.did("create_invoice", Outcome.NOT_DONE)
    late = e.LateOutcome(epoch=1, attempt=invoice, outcome=Outcome.DONE)

    assert run.report(late) == ()
    with pytest.raises(IllegalEvent, match="known to be not_done"):
        run.append(late)


def test_what_was_unknown_may_be_learned_later() -> None:
    run = running()
    invoice = run.did("create_invoice", Outcome.UNKNOWN)

    run.report(e.LateOutcome(epoch=1, attempt=invoice, outcome=Outcome.DONE, how="check"))

    assert run.state.effects[invoice].outcome is Outcome.DONE


def test_to_learn_again_that_it_is_unknown_is_no_news() -> None:
    run = running()
    invoice = run.did("create_invoice", Outcome.UNKNOWN)

    assert run.report(settled(invoice, Outcome.UNKNOWN, epoch=0)) == ()


def test_an_old_driver_is_heard_late_and_starts_nothing() -> None:
    run = running()
    invoice = run.start("create_invoice")
    run.claim("d-2")

    (event,) = run.report(
        e.AttemptSettled(
            epoch=1, attempt=invoice, outcome=Outcome.DONE, usage=Usage(tokens=5), error="slow"
        )
    )

    assert event == e.LateOutcome(
        epoch=1, attempt=invoice, outcome=Outcome.DONE, usage=Usage(tokens=5), error="slow"
    )
    assert (run.state.open, run.state.effects[invoice].outcome) == ({}, Outcome.DONE)
    assert run.state.spent.tokens == 5


def test_an_old_driver_may_know_what_its_successor_could_not() -> None:
    run = running()
    invoice = run.start("create_invoice")
    run.claim("d-2")
    assert run.state.effects[invoice].outcome is Outcome.UNKNOWN

    run.report(settled(invoice, Outcome.DONE, epoch=1))

    assert run.state.effects[invoice].outcome is Outcome.DONE


def test_what_a_check_had_not_found_was_done_after_all() -> None:
    """The look came before the deed: who has done it knows better, and a person is told."""
    run = running()
    invoice = run.start("create_invoice", noun="invoice")
    run.claim("d-2")
    run.append(e.LateOutcome(epoch=2, attempt=invoice, outcome=Outcome.NOT_DONE, how="check"))
    again = run.did("create_invoice")
    steps = run.state.done

    (late,) = run.report(settled(invoice, Outcome.DONE, epoch=1))

    assert isinstance(late, e.LateOutcome)
    assert {run.state.effects[at].outcome for at in (invoice, again)} == {Outcome.DONE}
    assert "may have been done twice" in run.state.notices[-1][1]
    assert run.state.done == steps
    assert run.report(settled(invoice, Outcome.UNKNOWN, epoch=1)) == ()


def test_what_was_done_after_all_and_not_begun_again_was_done_once() -> None:
    run = running()
    invoice = run.start("create_invoice", noun="invoice")
    run.claim("d-2")
    run.append(e.LateOutcome(epoch=2, attempt=invoice, outcome=Outcome.NOT_DONE, how="check"))
    run.append(
        e.WindowOpened(epoch=2, step=run.state.effects[invoice].step, noun="invoice", until=9.0)
    )

    run.report(settled(invoice, Outcome.DONE, epoch=1))

    assert run.state.notices[-1][1] == (
        "invoice: It was done after all, by a worker that was lost."
    )
    assert (run.state.done, run.state.spent.steps) == (1, 1)
    assert not run.state.windows  # nobody begins it any more


def test_what_comes_after_a_kill_changes_what_we_know_and_nothing_else() -> None:
    run = running()
    invoice = run.start("create_invoice")
    run.kill()

    (event,) = run.report(settled(invoice))

    assert isinstance(event, e.LateOutcome)
    assert run.state.effects[invoice].outcome is Outcome.DONE
    assert run.state.phase is Phase.KILLED


def test_what_comes_after_any_end_is_late() -> None:
    run = running()
    invoice = run.did("create_invoice", Outcome.UNKNOWN)
    run.finish()

    (event,) = run.report(e.LateOutcome(epoch=1, attempt=invoice, outcome=Outcome.NOT_DONE))

    assert isinstance(event, e.LateOutcome)
    assert run.state.effects[invoice].outcome is Outcome.NOT_DONE


def test_an_attempt_in_doubt_after_a_recovery_is_settled_while_the_run_is_still_held() -> None:
    """A held run takes no outcome of its driver, so that too is knowledge that comes late."""
    run = running()
    invoice = run.start("create_invoice")
    run.kill()
    run.ask(e.Recovered(who=OLGA))

    claimed, settled = claim(run.state, "d-2", lease_gone=True)
    run.append(claimed, settled)

    assert isinstance(settled, e.LateOutcome)
    assert not run.state.open
    assert run.state.effects[invoice].outcome is Outcome.UNKNOWN


def test_nobody_settles_what_never_began() -> None:
    run = running()

    assert record(run.state, settled(99)) == ()
    with pytest.raises(IllegalEvent, match="no attempt began at position 99"):
        run.append(e.LateOutcome(epoch=1, attempt=99, outcome=Outcome.DONE))


# ── what an attempt may end as ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("effect", [Effect.WRITE, Effect.ONCE])
@pytest.mark.parametrize("outcome", [Outcome.ABORTED, Outcome.FAILED])
def test_an_effect_that_failed_is_unknown_or_proven_not_done(
    effect: Effect, outcome: Outcome
) -> None:
    run = running()
    attempt = run.start("pay", effect=effect)

    with pytest.raises(IllegalEvent, match=f"{effect} cannot end as {outcome}"):
        run.settle(attempt, outcome)


def test_nor_may_an_old_driver_say_so_of_an_effect() -> None:
    run = running()
    attempt = run.start("pay")
    run.claim("d-2")

    with pytest.raises(IllegalEvent, match="once cannot end as failed"):
        run.report(settled(attempt, Outcome.FAILED, epoch=1))


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.NOT_DONE])
def test_a_model_call_leaves_nothing_in_doubt(outcome: Outcome) -> None:
    run = running()
    call = run.start("think", effect=Effect.MODEL)

    with pytest.raises(IllegalEvent, match="model cannot end as"):
        run.settle(call, outcome)


def test_a_read_records_its_result_only() -> None:
    with pytest.raises(IllegalEvent, match="a read records its result only"):
        running().start("look", effect=Effect.READ)


def test_a_step_has_one_attempt_in_flight() -> None:
    run = running()
    first = run.start("pay")
    run.start("mail")

    with pytest.raises(IllegalEvent, match="an attempt at pay is in flight already"):
        run.start("pay")

    run.settle(first, Outcome.NOT_DONE)
    run.start("pay")


# ── other facts ──────────────────────────────────────────────────────────────────────────────

READS: list[Callable[[int], Fact]] = [
    lambda epoch: e.StepSettled(epoch=epoch, step="look", name="look"),
    lambda epoch: e.TextStreamed(epoch=epoch, step="think", offset=0, text="Dear"),
]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("moving", [running, pausing, cancelling])
def test_a_read_and_a_scrap_of_text_are_kept_while_the_run_moves(
    read: Callable[[int], Fact], moving: Callable[[], Run]
) -> None:
    assert moving().report(read(1)) == (read(1),)


@pytest.mark.parametrize("read", READS)
def test_those_of_an_old_driver_are_dropped_because_its_successor_reads_again(
    read: Callable[[int], Fact],
) -> None:
    run = running()
    run.claim("d-2")

    assert run.report(read(1)) == ()
    with pytest.raises(IllegalEvent, match="epoch 1 is over"):
        run.append(read(1))


@pytest.mark.parametrize("read", READS)
def test_those_of_a_run_that_rests_are_dropped(read: Callable[[int], Fact]) -> None:
    assert paused().report(read(1)) == ()


def test_an_undo_settles_once_whoever_reports_it() -> None:
    run = running()
    booking = run.did("book", undoable=True)
    undo = run.start_undo(booking)
    fact = e.UndoSettled(epoch=1, undo=undo, undone=True)

    assert run.report(fact) == (fact,)
    assert run.report(fact) == ()
    with pytest.raises(IllegalEvent, match="no undo runs at"):
        run.append(fact)


def test_a_child_settles_once_in_any_phase() -> None:
    run = running()
    run.append(e.ChildSpawned(epoch=1, child="r-2", agent="scout", brief="Look"))
    run.finish()
    fact = e.ChildSettled(epoch=1, child="r-2", outcome="done")

    assert run.report(fact) == (fact,)
    assert run.report(fact) == ()
    assert run.report(e.ChildSettled(epoch=1, child="nobody", outcome="done")) == ()
    assert run.state.children == {"r-2": "done"}


def test_spending_is_counted_whenever_it_is_reported() -> None:
    run = running()
    run.kill()

    run.report(e.UsageSpent(epoch=0, usage=Usage(tokens=7, usd=0.25)))

    assert (run.state.spent.tokens, run.state.spent.usd) == (7, 0.25)
