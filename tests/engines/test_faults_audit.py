"""The audit of lost workers sees what is wrong: each of its findings is made here by hand."""

from __future__ import annotations

from engines.faults import (
    applied_twice,
    decided_when_lost,
    how_it_came,
    only_on_record,
    stopped_in_the_middle,
    unaccounted,
    untold,
)
from engines.fleet import Freeze
from engines.fleet_world import Noted
from journal.journals import running
from midflight.journal import events as e
from midflight.journal.phases import Outcome


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


def test_what_a_process_did_that_was_stopped_while_it_did_it_is_told_from_what_came_late() -> None:
    freeze = Freeze(1, since=1.0, until=9.0)
    stopped = Noted("done", "k", 1, 0.999, 9.001)
    before, late = Noted("done", "k", 1, 0.9, 0.9), Noted("done", "k", 1, 9.001, 9.002)

    assert stopped_in_the_middle([stopped], [freeze]) == {"k"}
    assert stopped_in_the_middle([before, late], [freeze]) == set()
    assert stopped_in_the_middle([stopped], [Freeze(2, 1.0, 9.0)]) == set()


def test_what_was_done_twice_and_of_which_the_run_has_no_notice_is_found() -> None:
    run = running()
    lost = run.start("Book", noun="table")
    key = run.state.effects[lost].key
    run.settle(lost, Outcome.UNKNOWN)
    run.append(e.LateOutcome(epoch=1, attempt=lost, outcome=Outcome.NOT_DONE, how="check"))
    run.settle(run.start("Book", noun="table"))
    assert untold(run.records, {key}) == [key]

    run.append(e.LateOutcome(epoch=1, attempt=lost, outcome=Outcome.DONE, how="late"))
    assert untold(run.records, {key}) == []
    assert how_it_came(key, run.records, [], []).count("AttemptStarted") == 2


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
