"""The audit of lost workers sees what is wrong: each of its findings is made here by hand."""

from __future__ import annotations

from engines.faults import applied_twice, decided_when_lost, only_on_record, unaccounted
from engines.fleet_world import Noted
from kernel.journals import running
from midflight.kernel import events as e
from midflight.kernel.phases import Outcome


def test_an_effect_that_only_the_journal_knows_of_is_found() -> None:
    run = running()
    run.did("book")
    (key,) = {entry.key for entry in run.state.effects.values()}

    assert only_on_record(run.records, []) == [key]
    assert only_on_record(run.records, [Noted("done", key, 1, 1.0)]) == []


def test_a_key_that_was_applied_twice_is_found() -> None:
    once = [Noted("begin", "k", 1, 1.0), Noted("done", "k", 1, 1.1)]

    assert applied_twice(once) == []
    assert applied_twice([*once, Noted("done", "k", 2, 2.0)]) == ["k"]


def test_an_outcome_that_came_before_anybody_was_told_of_the_loss_is_found() -> None:
    """A takeover that does not say at once what is in doubt leaves such a gap."""
    run = running()
    invoice = run.start("create_invoice")
    run.append(e.DriverClaimed(epoch=2, driver="d-2"))
    run.append(e.LateOutcome(epoch=1, attempt=invoice, outcome=Outcome.DONE))

    (found,) = unaccounted(run.records)
    assert found.endswith("in flight")


def test_a_takeover_that_says_it_leaves_none() -> None:
    run = running()
    invoice = run.start("create_invoice")
    run.claim("d-2")
    run.append(e.LateOutcome(epoch=1, attempt=invoice, outcome=Outcome.DONE))

    assert unaccounted(run.records) == []
    assert decided_when_lost(run.records) == []
