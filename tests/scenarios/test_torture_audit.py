"""The audit of the torture must be able to say no: each broken promise, told to it, is noticed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from midflight.kernel import events as e
from midflight.kernel.phases import Effect, Outcome, Phase
from midflight.kernel.receipt import Line, Receipt
from midflight.kernel.record import Event, Recorded, Who
from scenarios.ledger import Told
from scenarios.torture_audit import Case

WHO = Who(by="ann")


def started(kind: str) -> e.AttemptStarted:
    return e.AttemptStarted(
        epoch=1, step=kind, name=kind, effect=Effect.ONCE, idempotency_key=f"r-1:{kind} 0"
    )


def settled(outcome: Outcome) -> e.AttemptSettled:
    return e.AttemptSettled(epoch=1, attempt=1, outcome=outcome)


def case(kind: str, line: Line | None, *told: str, events: Sequence[Event] = ()) -> Case:
    """A run with one attempt, at position 1; *acked* and *ended* are told among the rest."""
    events = events or (started(kind), e.CancelRequested(who=WHO, in_flight=(1,)))
    journal = [Recorded("r-1", n, 0.0, event) for n, event in enumerate(events, 1)]
    about = {"acked": "r-1", "ended": "r-1"}
    story = [Told(n, what, about.get(what, f"r-1:{kind} 0")) for n, what in enumerate(told, 1)]
    return Case(journal, Receipt("r-1", Phase.CANCELLED, (line,) if line else (), ()), story)


def test_an_effect_that_was_listed_may_begin_after_the_answer_and_no_other() -> None:
    told = ("acked", "begin", "acted", "ended")
    listed = case("create", None, *told)
    unlisted = case("create", None, *told, events=(started("create"), e.CancelRequested(who=WHO)))

    assert listed.begun_after_the_answer() == []
    assert unlisted.begun_after_the_answer() == ["r-1:create 0 (attempt 1)"]


def test_a_second_attempt_is_not_covered_by_the_first_ones_listing() -> None:
    again = (
        started("upsert"),
        e.CancelRequested(who=WHO, in_flight=(1,)),
        settled(Outcome.UNKNOWN),
        started("upsert"),
    )
    late = case("upsert", None, "begin", "acked", "begin", "ended", events=again)

    assert late.begun_after_the_answer() == ["r-1:upsert 0 (attempt 4)"]


@pytest.mark.parametrize("late", ["begin", "acted", "undone"])
def test_whatever_is_seen_after_the_end_is_noticed(late: str) -> None:
    told = case("create", None, "begin", "acked", "ended", late)

    assert told.acted_after_the_end() == [f"{late} r-1:create 0"]


@pytest.mark.parametrize(
    ("kind", "word", "why", "told"),
    [
        ("create", "not started", "", ("acked", "begin", "ended")),
        ("create", "aborted", "proven", ("begin", "acked", "acted", "ended")),
        ("create", "undone", "", ("begin", "acted", "acked", "ended")),
        ("create", "undone", "", ("begin", "acked", "undone", "ended")),
        ("create", "kept", "no undo", ("begin", "acted", "acked", "ended")),
        ("create", "unknown", "aborted: cancelled", ("begin", "acked", "ended")),
        ("create", "unknown", "undo attempted", ("begin", "acked", "acted", "ended")),
        ("create", "in flight", "", ("begin", "acted", "acked", "ended")),
        ("create", "could not be undone", "", ("begin", "acted", "acked", "ended")),
        ("order", "kept", "no undo", ("begin", "acked", "ended")),
        ("pay", "final", "irreversible", ("begin", "acked", "ended")),
        ("pay", "unknown", "", ("begin", "acted", "acked", "ended")),
        ("book", "unknown", "undo attempted", ("begin", "acked", "undone", "ended")),
        ("engrave", "unknown", "undo attempted", ("begin", "acked", "undone", "ended")),
    ],
)
def test_a_word_that_the_ledger_contradicts_is_noticed(
    kind: str, word: str, why: str, told: tuple[str, ...]
) -> None:
    assert len(case(kind, Line(1, "thing", word, why), *told).untrue()) == 1


@pytest.mark.parametrize(
    ("kind", "word", "why", "told"),
    [
        ("create", "not started", "", ("acked", "ended")),
        ("create", "aborted", "proven", ("begin", "acked", "ended")),
        ("create", "undone", "", ("begin", "acted", "acked", "undone", "ended")),
        ("create", "unknown", "undo attempted", ("begin", "acked", "undone", "ended")),
        ("order", "kept", "no undo", ("begin", "acted", "acked", "ended")),
        ("order", "unknown", "aborted: cancelled", ("begin", "acked", "ended")),
        ("pay", "final", "irreversible", ("begin", "acked", "acted", "ended")),
    ],
)
def test_a_true_word_passes(kind: str, word: str, why: str, told: tuple[str, ...]) -> None:
    assert case(kind, Line(1, "thing", word, why), *told).untrue() == []


def test_an_effect_without_a_line_is_noticed() -> None:
    assert case("create", None, "begin", "acked", "ended").untrue() == ["no line for create"]
