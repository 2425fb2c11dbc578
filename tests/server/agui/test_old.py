"""A client of AG-UI 0.x gets endings that it takes; see ``stories_0.mjs`` for the client itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from ag_ui.core import (
    Interrupt,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
)

from midflight.interfaces.agui.agui_input import read_input
from midflight.interfaces.agui.agui_state import old_endings


def endings(ending: Any, *, resumed: bool = False) -> list[tuple[str, Any]]:
    told = old_endings("T", "X", ending, resumed=resumed)
    return [(event.type.value, getattr(event, "outcome", None)) for event in told]


def finished(outcome: Any) -> RunFinishedEvent:
    return RunFinishedEvent(thread_id="T", run_id="X", outcome=outcome)


def test_a_cancelled_run_ends_without_an_outcome() -> None:
    assert endings(finished(RunFinishedCancelledOutcome())) == [("RUN_FINISHED", None)]


def test_an_interrupt_has_no_expiry_and_is_otherwise_as_it_was() -> None:
    asked = Interrupt(id="r-1:4", reason="input_required", message="Well?", expires_at="2026-01-01")

    ((_, outcome),) = endings(finished(RunFinishedInterruptOutcome(interrupts=[asked])))

    assert outcome.interrupts == [asked.model_copy(update={"expires_at": None})]
    assert asked.expires_at == "2026-01-01", "the state still has it"


@pytest.mark.parametrize(
    ("resumed", "told"), [(False, ["RUN_ERROR"]), (True, ["RUN_FINISHED", "RUN_ERROR"])]
)
def test_a_failure_after_an_answer_makes_the_client_forget_what_it_was_asked(
    resumed: bool, told: list[str]
) -> None:
    failed = RunErrorEvent(message="the shop is closed", code="failed")

    assert endings(failed, resumed=resumed) == [(kind, None) for kind in told]


def test_a_run_that_is_done_ends_as_ever() -> None:
    done = RunFinishedSuccessOutcome()
    assert endings(finished(done), resumed=True) == [("RUN_FINISHED", done)]


@pytest.mark.parametrize(
    ("version", "old"),
    [({}, True), ({"protocolVersion": "0.9"}, True), ({"protocolVersion": "1.0"}, False),
     ({"protocolVersion": "1.7"}, False), ({"protocolVersion": 7}, True)],
)  # fmt: skip
def test_a_client_is_known_by_the_version_that_it_sends(version: Any, old: bool) -> None:
    given = {"threadId": "T", "runId": "X", "messages": [], **version}
    assert read_input(msgspec.json.encode(given)).old is old
