"""The audit of the torture must be able to say no: each broken promise, told to it, is noticed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from midflight.journal import events as e
from midflight.journal.phases import Effect, Outcome, Phase
from midflight.journal.record import Actor, Event, Recorded
from midflight.journal.status import Line, Receipt
from scenarios.ledger import Told
from scenarios.torture_audit import Case

WHO = Actor(by="ann")
CANCELLED = Phase.CANCELLED


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


# ── children ─────────────────────────────────────────────────────────────────────────────────


CHILD = 1  # where it was spawned, in its parent's journal


def family(
    word: str, *lines: Line, told: Sequence[str] = (), now: bool = False, phase: Phase = CANCELLED
) -> tuple[Case, Case]:
    """A run that spawned a child, was cancelled and says this of it; and the child's one effect."""
    cancel = e.CancelRequested(who=WHO, now=now)
    spawn = e.ChildSpawned(epoch=1, child="r-2", agent="clerk", brief="work")
    journal = [Recorded("r-1", n, 5.0, event) for n, event in enumerate((spawn, cancel), 1)]
    mine = (Line(CHILD, "background run: work", word),) if word else ()
    story = [Told(2, "acked", "r-1"), Told(8, "ended", "r-1")]
    top = Case(journal, Receipt("r-1", Phase.CANCELLED, mine, ()), story)

    below: list[Event] = [started("create")]
    below += [e.CancelRequested(who=WHO, now=now)] if phase is CANCELLED else []
    its = [Recorded("r-2", n, 5.0, event) for n, event in enumerate(below, 1)]
    seen = [Told(n, what, "r-1:create 0") for n, what in enumerate(told, 1)]
    child = Case(its, Receipt("r-2", phase, tuple(lines), ()), seen, top)
    top.below["r-2"] = child
    return top, child


UNDONE = Line(1, "thing", "undone")
KEPT = Line(1, "thing", "kept")


def test_a_child_that_leaves_nothing_is_undone_and_one_that_does_is_not() -> None:
    assert family("undone", UNDONE)[0].untrue() == []
    assert family("could not be undone", KEPT)[0].untrue() == []
    assert len(family("undone", KEPT)[0].untrue()) == 1
    assert len(family("could not be undone", UNDONE)[0].untrue()) == 1


def test_a_child_may_be_kept_only_in_a_hurry() -> None:
    assert family("kept", KEPT, now=True)[0].untrue() == []
    assert len(family("kept", KEPT)[0].untrue()) == 1


def test_a_child_without_a_line_is_noticed() -> None:
    assert family("", UNDONE)[0].untrue() == ["no line for r-2"]


def test_what_a_child_begins_after_the_answer_to_its_parent_is_noticed() -> None:
    _, child = family("undone", UNDONE, told=("look", "look", "begin"))

    assert child.begun_after_the_answer() == ["r-1:create 0 (attempt 1)"]


def test_what_a_child_does_after_the_end_of_its_parent_is_noticed() -> None:
    _, child = family("undone", UNDONE, told=("begin", *["look"] * 7, "acted"))

    assert child.acted_after_the_end() == ["acted r-1:create 0"]


def test_effects_of_a_child_that_had_ended_are_undone_unless_in_a_hurry() -> None:
    told = ("begin", "acted")
    _, child = family("undone", KEPT, told=told, phase=Phase.DONE)
    _, left = family("kept", KEPT, told=told, phase=Phase.DONE, now=True)

    assert len(child.untrue()) == 1
    assert left.untrue() == []


def test_a_child_that_lived_and_was_not_cancelled_with_its_parent_is_noticed() -> None:
    _, child = family("undone", UNDONE)
    _, ended = family("undone", UNDONE, phase=Phase.DONE)
    _, never = family("undone", UNDONE, phase=Phase.RUNNING)
    _, later = family("undone", UNDONE)
    later.cancels[0] = msgspec.structs.replace(later.cancels[0], at=5.5)

    assert child.left_out() == ended.left_out() == []
    assert never.left_out() == ["it is running and was never cancelled"]
    assert later.left_out() == ["it was cancelled 0.5 s later"]
