"""How a run stands and how a stream about it ends, for every phase and every kind of question."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import RunErrorEvent, RunFinishedEvent
from hypothesis import given, settings
from msgspec import Raw

from journal import journals as j
from journal.histories import histories
from midflight.interfaces.agui.agui_state import (
    ending,
    is_at_rest,
    open_interrupts,
    patch,
    snapshot,
)
from midflight.journal import events as e
from midflight.journal.phases import Cause
from midflight.schemas import check_answer, check_schema


def asked(run: j.Run) -> dict[int, e.QuestionOpened]:
    events = ((r.position, r.event) for r in run.records)
    return {position: event for position, event in events if isinstance(event, e.QuestionOpened)}


def interrupts(run: j.Run) -> list[Any]:
    return [one.interrupt for one in open_interrupts(run.state, asked(run)).values()]


def end(run: j.Run) -> Any:
    return ending("T", "X", run.state, asked(run), None)


# ── questions ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("ask", "input_required"),
        ("approval", "confirmation"),
        ("stale", "midflight:stale"),
        ("doubt", "midflight:doubt"),
        ("again", "midflight:again"),
        ("inherited", "midflight:inherited"),
        ("cap", "midflight:cap"),
        ("human", "midflight:human"),
        ("of a later version", "midflight:of a later version"),
    ],
)
def test_every_kind_of_question_is_an_interrupt(kind: str, reason: str) -> None:
    run = j.running()
    run.append(e.QuestionOpened(epoch=1, kind=kind, message="Well?"))

    (asks,) = interrupts(run)

    assert (asks.id, asks.reason) == (f"{run.state.journal}:{run.state.head}", reason)
    assert asks.metadata["kind"] == kind
    if kind in {"cap", "human"}:
        check_schema(asks.response_schema)


def test_what_waits_for_an_approval_names_the_call_that_it_would_be() -> None:
    run = j.running()
    schema = Raw(b'{"enum":["approve","reject"],"x-tool":"pay","x-details":{"args":[7]}}')
    step = "approve:Pay:ab12#2:ff00"
    run.append(
        e.QuestionOpened(epoch=1, kind="approval", message="May I?", step=step, schema=schema)
    )

    (asks,) = interrupts(run)

    assert asks.reason == "tool_call"
    assert asks.tool_call_id == f"{run.state.journal}:Pay:ab12#2"


def test_time_stands_still_for_a_question_of_a_paused_run() -> None:
    run = j.waiting(expires_at=1_800_000_000.5)
    (before,) = interrupts(run)
    run.ask(e.PauseRequested(who=j.ANN))
    after = interrupts(run)

    assert before.expires_at == "2027-01-15T08:00:00.500000+00:00"
    assert after[0].id == before.id
    assert after[0].expires_at is None
    assert after[1].reason == "midflight:paused"


def test_a_pause_has_one_id_however_often_it_is_pressed_and_the_next_has_another() -> None:
    run = j.paused()
    (first,) = interrupts(run)
    run.ask(e.PauseRequested(who=j.BOB))
    assert interrupts(run)[0].id == first.id

    run.ask(e.ResumeRequested(who=j.ANN))
    run.ask(e.PauseRequested(who=j.ANN))
    run.append(e.Paused(epoch=1, upto=run.state.head))

    assert interrupts(run)[0].id != first.id


@pytest.mark.parametrize(
    ("payload", "fits"),
    [
        ({"action": "resume"}, True),
        ({"action": "redirect", "text": "Go left"}, True),
        ({"action": "message", "text": "By the way"}, True),
        ({"action": "redirect", "text": " "}, False),
        ({"action": "redirect"}, False),
        ({"action": "cancel"}, True),
        ({"action": "kill"}, False),
        ("resume", False),
        (None, False),
    ],
)
@pytest.mark.anyio
async def test_a_paused_run_can_be_resumed_redirected_written_to_or_cancelled(
    payload: Any, fits: bool
) -> None:
    (paused,) = interrupts(j.paused())

    if fits:
        await check_answer(payload, paused.response_schema)
    else:
        with pytest.raises(Exception, match="does not fit"):
            await check_answer(payload, paused.response_schema)


def test_a_run_that_a_person_has_taken_over_can_be_handed_back() -> None:
    run = j.waiting()
    run.ask(e.TakenOver(who=j.BOB))

    reasons = [asks.reason for asks in interrupts(run)]

    assert reasons == ["confirmation", "midflight:human"]
    assert "bob has taken it over" in interrupts(run)[1].message


# ── rest and end ─────────────────────────────────────────────────────────────────────────────


def test_a_run_rests_only_when_a_person_must_do_something_or_nobody_can() -> None:
    for moving in (j.queued(), j.running(), j.pausing(), j.cancelling()):
        assert not is_at_rest(moving.state, asked(moving))
    for resting in (j.waiting(), j.paused(), j.done(), j.failed(), j.cancelled(), j.killed()):
        assert is_at_rest(resting.state, asked(resting))


def test_a_run_that_is_held_for_a_restart_or_parked_does_not_rest() -> None:
    for cause in (Cause.DRAIN, Cause.PARKED):
        run = j.running()
        run.append(e.HoldPlaced(cause=cause))
        run.append(e.Paused(epoch=1, upto=run.state.head))

        assert not is_at_rest(run.state, asked(run))


def test_each_end_is_told_as_what_it_is() -> None:
    outcomes = [end(run).outcome.type for run in (j.done(), j.cancelled(), j.waiting(), j.paused())]
    codes = [end(run).code for run in (j.failed(), j.killed())]

    assert outcomes == ["success", "cancelled", "interrupt", "interrupt"]
    assert codes == ["failed", "killed"]


@given(histories())
def test_whatever_happened_a_run_at_rest_has_an_end_and_its_ids_are_unique(run: j.Run) -> None:
    ids = [asks.id for asks in interrupts(run)]
    assert len(set(ids)) == len(ids)
    if is_at_rest(run.state, asked(run)):
        told = end(run)
        assert isinstance(told, RunErrorEvent | RunFinishedEvent)
        told.model_dump_json(by_alias=True)


# ── state ────────────────────────────────────────────────────────────────────────────────────


def applied(state: dict[str, Any], changes: list[Any]) -> dict[str, Any]:
    after = dict(state)
    for change in changes:
        name = change["path"].removeprefix("/")
        if change["op"] == "remove":
            del after[name]
        else:
            assert (change["op"] == "replace") == (name in after)
            after[name] = change["value"]
    return after


@given(histories(longest=30), histories(longest=30))
@settings(max_examples=40)
def test_a_patch_makes_the_next_state_of_the_one_before(one: j.Run, other: j.Run) -> None:
    for first in (snapshot(None, None, {}), snapshot(other.state, None, asked(other))):
        _one_after_the_other(first, snapshot(one.state, None, asked(one)))


def _one_after_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:

    assert applied(before, patch(before, after)) == after
    assert patch(after, after) == []
    assert applied(after, patch(after, before)) == before
