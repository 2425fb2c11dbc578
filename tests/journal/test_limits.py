"""Caps and stuckness: warned before, held at the cap, never far beyond it."""

from __future__ import annotations

from typing import Any

import pytest

from journal.journals import ANN, Run, cancelling, running
from midflight.errors import InvalidRequest
from midflight.journal import events as e
from midflight.journal.limits import (
    Call,
    Meter,
    allotment,
    at_cap,
    limits_from,
    meters,
    stuck,
    warnings,
)
from midflight.journal.phases import Cause, Effect, Outcome, Phase
from midflight.journal.record import Limits, Usage


def spent(run: Run, *, tokens: int = 0, usd: float | None = None) -> None:
    run.append(e.UsageSpent(epoch=1, usage=Usage(tokens=tokens, usd=usd)))


def now(run: Run) -> float:
    return run.state.at


# ── what counts ──────────────────────────────────────────────────────────────────────────────


def test_only_caps_that_are_set_are_metered() -> None:
    run = running(limits=Limits(tokens=100, usd=2.0))

    assert meters(run.state, now(run)) == [Meter("tokens", 0, 100), Meter("usd", 0.0, 2.0)]


def test_a_call_in_flight_counts_what_it_has_reserved_and_then_what_it_spent() -> None:
    run = running(limits=Limits(tokens=100, usd=2.0))
    call = run.start("think", effect=Effect.MODEL, reserved=Usage(tokens=40, usd=0.5))
    assert [m.used for m in meters(run.state, now(run))] == [40, 0.5]

    run.settle(call, usage=Usage(tokens=30, usd=0.25))

    assert [m.used for m in meters(run.state, now(run))] == [30, 0.25]


def test_a_call_that_was_aborted_has_still_spent() -> None:
    run = running(limits=Limits(tokens=100))
    call = run.start("think", effect=Effect.MODEL)

    run.settle(call, Outcome.ABORTED, usage=Usage(tokens=30))

    assert run.state.spent.tokens == 30


def test_tokens_without_a_price_are_counted_apart_and_never_as_free() -> None:
    run = running()
    spent(run, tokens=10, usd=0.5)
    spent(run, tokens=7)

    assert (run.state.spent.tokens, run.state.spent.usd, run.state.spent.unpriced) == (17, 0.5, 7)


def test_steps_are_what_is_done_and_tool_calls_what_has_begun() -> None:
    run = running()
    run.append(e.StepSettled(epoch=1, step="look", name="look"))
    run.did("book")
    run.did("pay", Outcome.NOT_DONE)
    run.did("think", effect=Effect.MODEL)
    run.start("mail")

    assert (run.state.spent.steps, run.state.spent.tool_calls) == (2, 4)


def test_what_turns_out_to_be_done_is_a_step_once() -> None:
    run = running()
    booking = run.did("book", Outcome.UNKNOWN)
    assert run.state.spent.steps == 0

    run.report(e.LateOutcome(epoch=1, attempt=booking, outcome=Outcome.DONE))

    assert run.state.spent.steps == 1


def test_time_counts_while_running_and_pausing_and_not_while_held_or_waiting() -> None:
    run = Run(limits=Limits(seconds=60.0))
    run.append(e.DriverClaimed(epoch=1, driver="d-1"), at=100.0)  # queued is free
    run.append(e.RunEntered(epoch=1), at=110.0)
    run.append(e.PauseRequested(who=ANN), at=115.0)
    run.append(e.Paused(epoch=1, upto=4), at=117.0)
    run.append(e.ResumeRequested(who=ANN), at=500.0)
    run.append(e.QuestionOpened(epoch=1, kind="ask", message="?"), at=501.0)
    run.append(e.WaitBegan(epoch=1), at=503.0)

    assert meters(run.state, now=900.0) == [Meter("seconds", 10.0, 60.0)]


def test_the_time_since_it_last_began_to_move_counts_before_anything_is_written() -> None:
    run = running(limits=Limits(seconds=60.0))

    assert meters(run.state, now=run.state.at + 12) == [Meter("seconds", 12.0, 60.0)]
    assert meters(run.state, now=run.state.at - 5) == [Meter("seconds", 0.0, 60.0)]


def test_a_person_does_not_pay_for_the_time_that_undoing_takes() -> None:
    run = cancelling()
    counted = run.state.spent.seconds

    run.append(e.WorkSaved(epoch=1, what=("the draft",)), at=1000.0)
    run.append(e.RunFinished(epoch=1, outcome="cancelled"), at=2000.0)

    assert run.state.spent.seconds == counted


# ── before each call ─────────────────────────────────────────────────────────────────────────


def test_a_call_that_just_fits_is_let_through_and_the_next_is_not() -> None:
    run = running(limits=Limits(tokens=100))
    spent(run, tokens=60)

    assert at_cap(run.state, now(run), tokens=40) is None
    assert at_cap(run.state, now(run), tokens=41) == Meter("tokens", 101, 100)


def test_what_is_reserved_counts_so_that_parallel_calls_cannot_all_slip_through() -> None:
    run = running(limits=Limits(usd=1.0))
    run.start("think", effect=Effect.MODEL, reserved=Usage(usd=0.75))

    assert at_cap(run.state, now(run), usd=0.25) is None
    assert at_cap(run.state, now(run), usd=0.5) == Meter("usd", 1.25, 1.0)


def test_a_cap_that_is_reached_stops_also_what_does_not_add_to_it() -> None:
    run = running(limits=Limits(seconds=10.0, tokens=1000))

    assert at_cap(run.state, run.state.at + 9.5, tokens=1) is None
    assert at_cap(run.state, run.state.at + 10, tokens=1) == Meter("seconds", 10.0, 10.0)


def test_each_cap_is_looked_at() -> None:
    run = running(limits=Limits(steps=1, tool_calls=1))
    assert at_cap(run.state, now(run), steps=1, tool_calls=1) is None
    run.did("book")

    assert at_cap(run.state, now(run), steps=1) == Meter("steps", 2, 1)
    assert at_cap(run.state, now(run), tool_calls=1) == Meter("steps", 1, 1)


def test_a_cap_of_zero_is_full_from_the_start() -> None:
    run = running(limits=Limits(usd=0.0))

    assert at_cap(run.state, now(run)) == Meter("usd", 0.0, 0.0)
    assert [meter.share for meter in warnings(run.state, now(run))] == [1.0]


def test_a_run_without_caps_is_never_at_one() -> None:
    run = running()
    spent(run, tokens=10**9, usd=10.0**6)

    assert at_cap(run.state, now(run), tokens=1) is None


def test_person_and_model_are_warned_at_eighty_percent() -> None:
    run = running(limits=Limits(tokens=100, usd=1.0))
    spent(run, tokens=79, usd=0.8)

    assert [meter.name for meter in warnings(run.state, now(run))] == ["usd"]


# ── raising ──────────────────────────────────────────────────────────────────────────────────


def test_raising_the_cap_lifts_its_hold_and_the_run_goes_on() -> None:
    run = running(limits=Limits(usd=1.0))
    run.append(e.HoldPlaced(cause=Cause.CAP))
    run.hold()

    asked = run.raise_limits(Limits(usd=2.0))

    assert (run.state.phase, run.state.limits) == (Phase.RUNNING, Limits(usd=2.0))
    assert run.status(asked) == "applied"


def test_raising_one_cap_leaves_the_others_as_they_are() -> None:
    run = running(limits=Limits(steps=5, usd=1.0))

    run.raise_limits(Limits(usd=2.0))

    assert run.state.limits == Limits(steps=5, usd=2.0)


def test_all_caps_are_taken_away_only_by_saying_so() -> None:
    run = running(limits=Limits(steps=5, usd=1.0))

    with pytest.raises(InvalidRequest, match=r"names no cap; .* The run was not changed"):
        run.raise_limits(Limits())
    with pytest.raises(InvalidRequest, match="names caps and takes all away"):
        run.ask(e.LimitsRaised(who=ANN, limits=Limits(steps=9), no_caps=True))
    assert run.state.limits == Limits(steps=5, usd=1.0)

    run.ask(e.LimitsRaised(who=ANN, limits=Limits(), no_caps=True))

    assert run.state.limits == Limits()


def test_a_journal_that_took_all_caps_away_by_naming_none_is_read_as_it_was_meant() -> None:
    run = running(limits=Limits(steps=5, usd=1.0))

    run.append(e.LimitsRaised(who=ANN, limits=Limits()))

    assert run.state.limits == Limits()


def test_a_repeated_raise_is_recognised_whatever_was_kept() -> None:
    run = running(limits=Limits(steps=5, usd=1.0))
    request = e.LimitsRaised(who=ANN, key="k-1", limits=Limits(usd=2.0))

    assert run.ask(request) == run.ask(request)


@pytest.mark.parametrize("cap", [-1.0, float("nan"), float("inf")])
def test_a_cap_that_cannot_be_meant_is_refused(cap: float) -> None:
    with pytest.raises(InvalidRequest, match=r"limit usd=.*Nothing was changed"):
        running().raise_limits(Limits(usd=cap))


@pytest.mark.parametrize("cap", [2.5, float("inf"), True])
def test_what_is_counted_is_capped_at_a_whole_number(cap: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"limit steps=.* is not a whole number"):
        running().raise_limits(Limits(steps=cap))


def test_caps_are_read_as_people_write_them() -> None:
    assert limits_from({"usd": "4", "steps": "200"}) == Limits(usd=4.0, steps=200)
    assert limits_from({"seconds": "1.5", "tokens": "2e6"}) == Limits(seconds=1.5, tokens=2_000_000)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("steps", "many"),
        ("steps", "2.5"),
        ("steps", "inf"),
        ("steps", "-1"),
        ("repeats", ""),
        ("usd", "nan"),
        ("usd", "inf"),
        ("usd", "9" * 400),
    ],
)
def test_what_is_no_cap_is_refused_by_name_and_changes_nothing(name: str, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        limits_from({name: text})

    number = "number" if name == "usd" else "whole number"
    said = f"limit {name}={text[:40]} is not a {number} of zero or more. Nothing was changed."
    assert str(refused.value) == said


@pytest.mark.parametrize("given", [{"money": "4"}, {"": "4"}, {}])
def test_a_cap_that_is_not_known_or_not_named_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match=r"cap.*Nothing was changed"):
        limits_from(given)


def test_a_run_does_not_begin_with_one_either() -> None:
    created = e.RunCreated(who=ANN, agent="trip", thread="t-1", brief="Go", limits=Limits(steps=-1))

    with pytest.raises(InvalidRequest, match="limit steps=-1"):
        running().decide(created)


# ── children ─────────────────────────────────────────────────────────────────────────────────


def test_a_child_gets_what_it_asks_for_within_what_its_parent_has_left() -> None:
    run = running(limits=Limits(tokens=100, usd=2.0))
    spent(run, tokens=70, usd=0.5)

    granted = allotment(run.state, now(run), Limits(tokens=50, usd=1.0, steps=5, repeats=2))

    assert granted == Limits(tokens=30, usd=1.0, steps=5, repeats=2)


@pytest.mark.parametrize(
    ("above", "wanted", "granted"),
    [(3, 0, 3), (3, None, 3), (3, 2, 2), (3, 5, 3), (0, 4, 4), (0, 0, 0), (None, 0, 0)],
)
def test_a_child_goes_in_circles_no_longer_than_its_parent_may(
    above: int | None, wanted: int | None, granted: int | None
) -> None:
    """0 stands for no bound."""
    run = running(limits=Limits(repeats=above))

    assert allotment(run.state, now(run), Limits(repeats=wanted)).repeats == granted


def test_a_child_that_asks_for_nothing_gets_half_of_what_its_parent_has_left() -> None:
    run = running(limits=Limits(steps=6, usd=3.0))
    run.did("book")

    assert allotment(run.state, now(run), Limits()) == Limits(steps=2, usd=1.5)


def test_what_a_child_may_spend_is_reserved_and_then_what_it_spent_counts() -> None:
    run = running(limits=Limits(tokens=100, steps=10))
    allotted = Limits(tokens=60, steps=4)
    run.append(
        e.ChildSpawned(epoch=1, child="r-2", agent="scout", brief="Look", allotment=allotted)
    )
    assert [m.used for m in meters(run.state, now(run))] == [1 + 4, 60]

    spending = Usage(tokens=20, usd=0.1)
    run.append(e.ChildSettled(epoch=1, child="r-2", outcome="done", usage=spending, steps=3))

    assert [m.used for m in meters(run.state, now(run))] == [1 + 3, 20]


def test_a_parent_that_has_overspent_has_nothing_to_give() -> None:
    run = running(limits=Limits(tokens=10))
    spent(run, tokens=15)

    assert allotment(run.state, now(run), Limits()) == Limits(tokens=0)


# ── stuckness ────────────────────────────────────────────────────────────────────────────────

A, B, C = Call("look", "nothing"), Call("ask", "later"), Call("look", "found")
BAD = [Call(f"try-{n}", "error", failed=True) for n in range(4)]


def test_the_same_call_with_the_same_result_is_a_circle() -> None:
    assert stuck([B, A, A, A], repeats=2) == "the same call with the same result, 3 times"
    assert stuck([A, A], repeats=2) is None


def test_the_same_call_with_another_result_is_progress() -> None:
    assert stuck([A, A, C], repeats=2) is None


def test_two_calls_in_turn_are_a_circle() -> None:
    assert stuck([A, B] * 3, repeats=2) == "two calls in turn, 3 times"
    assert stuck([A, B] * 2, repeats=2) is None
    assert stuck([C, B, A, B, A, B], repeats=2) is None


def test_only_the_end_of_the_history_counts() -> None:
    assert stuck([A, A, A, B], repeats=2) is None


def test_errors_in_a_row_are_noticed_even_when_each_is_another() -> None:
    assert stuck(BAD, repeats=3) == "4 errors in a row"
    assert stuck([*BAD[:3], A, BAD[3]], repeats=3) is None
    assert stuck(BAD[:3], repeats=3) is None


def test_who_may_repeat_itself_more_often_may_fail_more_often_too() -> None:
    assert stuck(BAD, repeats=8) is None
    assert stuck(BAD * 2, repeats=8) == "8 errors in a row"


def test_who_sets_no_repeats_is_not_watched() -> None:
    assert stuck([A] * 50, repeats=0) is None
