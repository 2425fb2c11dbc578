"""The bar that every front door draws: the state in words, and three slots."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from journal.journals import Run
from midflight.journal.events import QuestionOpened
from midflight.journal.limits import Meter
from midflight.journal.phases import Cause, Phase, Role
from midflight.journal.state import Spent
from midflight.journal.status import Line
from midflight.view import RunBook, RunSheet
from midflight.view.control_bar import at, bar, slots
from midflight.view.data import Asked, Background, ForkFrom, InFlight, Mark, StepSheet
from midflight.view.run_book import asked as asked_of

STEP = ForkFrom(position=7, number=2, name="Hold a table")


def shown(**fields: Any) -> RunSheet:
    run = Run()
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    return replace(book.sheet(), **fields)


def asks(kind: str = "ask", message: str = "Who?", expires_at: float | None = None) -> list[Asked]:
    opened = QuestionOpened(epoch=1, kind=kind, message=message, expires_at=expires_at)
    return [asked_of(7, opened)]


def labels(**fields: Any) -> list[str]:
    return [slot.label for slot in bar(shown(**fields)).slots]


def says(**fields: Any) -> str:
    told = bar(shown(**fields))
    return ": ".join(filter(None, [told.word, told.detail]))


# ── while it lives ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "first"),
    [
        ({"phase": Phase.QUEUED}, "Pause"),
        ({"phase": Phase.RUNNING}, "Pause"),
        ({"phase": Phase.PAUSING, "holds": [Cause.USER]}, "Resume"),
        ({"phase": Phase.PAUSED, "holds": [Cause.USER]}, "Resume"),
        ({"phase": Phase.PAUSED, "holds": [Cause.CAP]}, "Raise cap"),
        ({"phase": Phase.PAUSED, "holds": [Cause.USER, Cause.CAP]}, "Resume"),
        ({"phase": Phase.PAUSED, "holds": [Cause.HUMAN]}, "Hand back"),
        ({"phase": Phase.PAUSED, "holds": [Cause.STALE], "questions": asks()}, "Review"),
        ({"phase": Phase.WAITING, "questions": asks()}, "Review"),
        ({"phase": Phase.CANCELLING}, "Pause"),
    ],
)
def test_the_slots_keep_their_order_in_every_state(fields: dict[str, Any], first: str) -> None:
    assert labels(**fields) == [first, "Redirect", "Cancel"]


def test_a_review_counts_the_decisions_and_the_time_that_is_left() -> None:
    review = bar(shown(phase=Phase.WAITING, questions=asks(expires_at=1000.0))).slots[0]

    assert review.consequence == "One decision"
    assert at(review, 160.0).consequence == "One decision, 14 min left"
    assert at(review, 995.5).consequence == "One decision, 5 s left"
    assert at(review, 1000.0).consequence == "One decision, expired"


def test_stop_now_is_offered_when_undoing_has_had_its_five_seconds() -> None:
    stop = bar(shown(phase=Phase.CANCELLING, marks=[Mark(158.0, "cancel", "")])).slots[2]

    assert (at(stop, 160.0).enabled, at(stop, 160.0).consequence) == (
        False,
        "Undoing first, offered in 3 s",
    )
    assert at(stop, 163.0) is stop
    assert stop.enabled


def test_the_menu_has_the_other_verbs_that_can_be_pressed() -> None:
    told = bar(shown(phase=Phase.RUNNING))

    assert set(told.menu) >= {"take over", "raise limits"}
    assert not set(told.menu) & {slot.verb for slot in told.slots}


# ── the state in words ───────────────────────────────────────────────────────────────────────


def test_the_bar_names_what_it_does_finishes_waits_for_or_undoes() -> None:
    step = StepSheet("Check:1", 5, "Check", "running", "Running")
    flying = InFlight(4, "Send", "email", "once", irreversible=True, can_be_stopped=False)  # type: ignore[arg-type]
    undone = (Line(1, "hold", "undone"), Line(2, "memo", "to be undone"))
    receipt = replace(shown().receipt, lines=undone)

    assert says(phase=Phase.RUNNING, steps=[step]) == "Running: Check"
    assert says(phase=Phase.RUNNING, questions=asks()) == "Running: 1 question for you"
    assert says(phase=Phase.PAUSING, in_flight=[flying]) == "Pausing: finishing email"
    assert says(phase=Phase.WAITING, questions=asks()) == "Waiting for you: Who?"
    assert says(phase=Phase.CANCELLING, receipt=receipt) == (
        "Cancelling: Undoing 2 of 2, saving to thread"
    )
    assert says(phase=Phase.CANCELLING) == "Cancelling: Saving to thread"


def test_a_hold_is_told_by_its_cause_and_the_persons_own_comes_first() -> None:
    cap = asks("cap", "steps: the cap of 3 is reached. Raise it.")
    full = {"questions": cap, "meters": [Meter("steps", 3, 3)]}
    money = {"questions": asks("cap", "usd: the cap of 0.4 is reached. Raise it.")}
    child = Background("r-2", "Watch", "running", 1.0, None, "")

    def paused(*holds: Cause, **more: Any) -> str:
        return says(phase=Phase.PAUSED, holds=list(holds), **more)

    assert paused(Cause.CAP, **full) == "Paused at the cap: 3 of 3 steps used"
    assert paused(Cause.CAP, **money, spent=Spent(usd=0.42)) == "Paused at the cap: $0.42 spent"
    assert paused(Cause.USER, Cause.CAP, **full) == "Paused: Nothing is running or spending"
    assert paused(Cause.USER, background=[child]) == "Paused: 1 background task still runs"
    assert paused(Cause.STALE, questions=asks("stale")) == "Waiting for you: Who?"
    assert paused(Cause.PARKED) == "Parked: Something else is in front"
    assert paused(Cause.DRAIN) == "Paused: Goes on when its server is back"


def test_a_run_that_nobody_drives_says_so_whatever_its_phase_is() -> None:
    after = "it goes on when a process with agent demo runs"
    lost = {"undriven_since": 150.0, "agent": "demo"}

    assert says(phase=Phase.RUNNING, **lost) == f"Nobody drives this: It was running; {after}"
    assert says(phase=Phase.CANCELLING, **lost) == f"Nobody drives this: It was cancelling; {after}"


@pytest.mark.parametrize(
    ("fields", "away"),
    [
        ({"phase": Phase.RUNNING}, "The agent keeps running"),
        ({"phase": Phase.PAUSED}, "It was paused when the line was lost"),
        ({"phase": Phase.PAUSED, "holds": [Cause.STALE], "questions": asks()}, "It waits for you"),
        ({"phase": Phase.WAITING}, "It waits for you"),
        ({"phase": Phase.CANCELLING}, "It was cancelling when the line was lost"),
        ({"phase": Phase.DONE}, ""),
    ],
)
def test_while_the_line_is_lost_the_bar_says_how_the_run_stood(
    fields: dict[str, Any], away: str
) -> None:
    assert bar(shown(**fields)).away == away


# ── after the end ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("phase", "label"), [(Phase.CANCELLED, "Start again"), (Phase.FAILED, "Try again")]
)
def test_a_fork_is_offered_from_where_the_sheet_says(phase: Phase, label: str) -> None:
    again = bar(shown(phase=phase, fork_from=STEP)).slots[0]

    assert (again.label, again.enabled) == (label, True)
    assert again.consequence == f"A fork from step {STEP.number}, context kept"


def test_what_had_not_begun_cannot_be_tried_again() -> None:
    again = bar(shown(phase=Phase.CANCELLED)).slots[0]

    assert (again.enabled, again.consequence) == (False, "It had not begun")


def test_a_failed_run_names_the_step_and_the_cause() -> None:
    failed = {"failed_step": "Pay", "cause": "no sign-in", "fork_from": STEP}

    assert says(phase=Phase.FAILED, **failed) == "Failed at step 2: no sign-in"


@pytest.mark.parametrize(
    ("phase", "page", "terminal"),
    [
        (
            Phase.DONE,
            ["Start another", "Open result", "Undo"],
            ["Start another", "Try again", "Undo"],
        ),
        (Phase.FAILED, ["Try again", "Redirect", "Close"], ["Try again", "New run", "Undo"]),
        (Phase.CANCELLED, ["Start again", "New run", "Undo"], ["Start again", "New run", "Undo"]),
        (Phase.KILLED, ["New run", "Recover", "Undo"], ["New run", "Recover", "Undo"]),
    ],
)
def test_a_door_offers_after_the_end_what_it_can_do(
    phase: Phase, page: list[str], terminal: list[str]
) -> None:
    assert labels(phase=phase, fork_from=STEP) == page
    assert [slot.label for slot in slots(shown(phase=phase, fork_from=STEP), now=0.0)] == terminal


def test_a_slot_names_the_role_that_it_takes() -> None:
    new, back, _ = bar(shown(phase=Phase.KILLED)).slots

    assert (new.role, back.role) == (Role.CONTROLLER, Role.OPERATOR)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"reads_messages": True}, "read at the next safe point"),
        ({"reads_messages": False}, "kept, but this agent may not read it"),
        ({"reads_messages": True, "phase": Phase.PAUSED}, "read when it goes on"),
        ({"reads_messages": False, "phase": Phase.CANCELLING}, "kept in the thread"),
        ({"phase": Phase.DONE}, "starts the next run"),
    ],
)
def test_the_bar_promises_that_a_message_is_read_only_where_the_agent_is_known_to_read(
    fields: dict[str, Any], words: str
) -> None:
    assert bar(shown(**({"phase": Phase.RUNNING} | fields))).reads == words
