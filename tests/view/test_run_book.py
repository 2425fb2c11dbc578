"""Sheets: what is shown follows from the records alone, however it was come by."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.histories import histories
from journal.journals import ANN, Run
from midflight.interfaces.terminal import looks
from midflight.journal import events as e
from midflight.journal.phases import ENDS, Cause, Effect, Outcome
from midflight.journal.record import Earlier
from midflight.stores.commit import summary
from midflight.stores.protocol import Row
from midflight.view import WORDS, RunBook, RunSheet, patch
from view.patching import patched


def plain(value: Any) -> Any:
    """As it arrives in a browser."""
    return msgspec.json.decode(msgspec.json.encode(value))


def from_scratch(run: Run, upto: int) -> RunSheet:
    book = RunBook(run.state.journal)
    for record in run.records[:upto]:
        book.take(record)
    return book.sheet()


@given(histories(40), st.data())
def test_at_any_head_the_sheet_is_what_a_fold_from_scratch_gives(
    run: Run, data: st.DataObject
) -> None:
    heads = data.draw(st.sets(st.integers(1, len(run.records)), min_size=1, max_size=3))
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
        shown = book.sheet()  # looked at after every record, as a watcher does
        if record.position in heads:
            assert plain(shown) == plain(from_scratch(run, record.position))


@given(histories(40), st.data())
def test_patches_lead_from_any_head_to_any_later_one(run: Run, data: st.DataObject) -> None:
    heads = sorted(data.draw(st.sets(st.integers(1, len(run.records)), min_size=1)))
    book, shown, last = RunBook(run.state.journal), None, None
    for record in run.records:
        book.take(record)
        if record.position in heads:
            sheet = book.sheet()
            shown = plain(sheet) if last is None else patched(shown, plain(patch(last, sheet)))
            last = sheet
            assert shown == plain(sheet)


@given(histories(40))
def test_every_step_stands_in_one_of_the_known_states(run: Run) -> None:
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
        sheet = book.sheet()
        assert {step.status for step in sheet.steps} <= set(WORDS)
        assert len({step.id for step in sheet.steps}) == len(sheet.steps)
        moving = {"running", "retrying", "waiting", "paused", "queued"}
        assert not (sheet.phase in ENDS and moving & {step.status for step in sheet.steps})


def stands(run: Run) -> list[tuple[str, str]]:
    return [(step.name, step.word) for step in from_scratch(run, len(run.records)).steps]


def planned() -> tuple[Run, int]:
    """A run in the first of two steps, and the position of its attempt."""
    run = Run()
    run.claim()
    run.enter()
    run.append(e.PlanSet(epoch=1, steps=("Score", "Write memo")))
    return run, run.start("Score", effect=Effect.MODEL)


def test_of_a_run_that_is_paused_in_a_step_the_next_one_has_not_begun() -> None:
    run, attempt = planned()
    run.pause()
    run.settle(attempt, Outcome.ABORTED)
    run.hold()

    assert stands(run) == [("Score", "Paused"), ("Write memo", "Queued")]


def test_an_undo_asked_for_after_the_end_is_shown_before_anybody_does_it() -> None:
    run, thinking = planned()
    run.settle(thinking)
    made = run.did("Write memo", noun="memo", label="memo Q3", undoable=True)
    run.finish()
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    assert [step.word for step in book.sheet().steps] == ["Done", "Done"]

    run.ask(e.UndoRequested(who=ANN))
    book.take(run.records[-1])
    sheet = book.sheet()
    assert [step.word for step in sheet.steps] == ["Done", "Undo asked for"]
    assert [line.text for line in sheet.receipt.lines] == ["memo Q3: undo asked for"]
    assert sheet.status == "done; undo asked for: memo Q3"
    assert not sheet.preview["undo"].enabled
    book.undriven(7.0)
    alone = book.sheet()
    assert [step.word for step in alone.steps] == ["Done", "Undo asked for"]
    assert alone.status.startswith("nobody drives this, ")
    word, rest = looks.headline(alone)
    assert word == "Nobody drives this"
    assert rest.startswith("It is done; what is to be undone waits for a process with agent")
    run.undo(made)
    assert stands(run)[1] == ("Write memo", "Undone")


def test_why_a_step_was_ended_is_said_as_a_person_would() -> None:
    run, attempt = planned()
    run.pause()
    run.settle(attempt, Outcome.ABORTED, error="aborted: paused")
    run.hold()

    shown, _ = from_scratch(run, len(run.records)).steps
    assert shown.error == "Stopped by the pause, begins again at the resume"


def test_while_a_step_waits_for_its_next_try_the_one_behind_it_waits_too() -> None:
    run, attempt = planned()
    run.settle(attempt, Outcome.FAILED)
    run.append(e.TimerSet(epoch=1, name="retry:Score", until=99.0, tries=3))

    assert stands(run) == [("Score", "Retry 2 of 3"), ("Write memo", "Queued")]


def test_a_retry_of_an_older_journal_does_not_say_of_how_many() -> None:
    run, attempt = planned()
    run.settle(attempt, Outcome.FAILED)
    run.append(e.TimerSet(epoch=1, name="retry:Score", until=99.0))

    assert stands(run)[0] == ("Score", "Retry 2")


def test_a_list_that_grows_in_front_costs_one_operation() -> None:
    assert patch({"a": [2, 3]}, {"a": [1, 2, 3]}) == [{"op": "add", "path": "/a/0", "value": 1}]


def test_names_with_slashes_are_escaped() -> None:
    assert patch({"a/b~": 1}, {"a/b~": 2}) == [{"op": "replace", "path": "/a~1b~0", "value": 2}]


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=12,
)


@given(json, json)
def test_a_patch_makes_the_one_out_of_the_other(before: Any, after: Any) -> None:
    assert patched(before, patch(before, after)) == after


def test_the_timeline_says_when_a_hold_began_and_when_it_was_lifted() -> None:
    run, _ = planned()
    run.append(e.HoldPlaced(cause=Cause.PARKED, why="March"))
    run.append(e.HoldLifted(cause=Cause.PARKED))

    marks = from_scratch(run, len(run.records)).marks
    assert [(mark.kind, mark.text) for mark in marks] == [
        ("parked", "March"),
        ("lifted parked", "Came back"),
    ]


def test_what_is_done_is_what_the_list_shows_as_done_and_what_the_list_of_runs_says() -> None:
    run, thinking = planned()
    run.settle(thinking)
    run.append(e.StepSettled(epoch=1, step="Look", name="Look"))
    run.append(e.StepSettled(epoch=1, step="Look away", name="Look away", error="gone"))
    run.settle(run.start("Hold a table"))
    run.settle(run.triage())  # what becomes of a message is no step
    run.append(e.ChildSpawned(epoch=1, child="r-2", agent="trip", brief="Hotels", step="spawn"))
    run.append(e.ChildSettled(epoch=1, child="r-2", outcome="done", steps=9))
    run.start("Write memo")

    sheet = from_scratch(run, len(run.records))
    done = [step.name for step in sheet.steps if step.status == "done"]
    assert done == ["Score", "Look", "Hold a table"]
    assert sheet.done == summary(run.state).steps == len(done)
    assert sheet.spent.steps == 12  # which a cap counts: those of the background, too, but no model


def test_the_step_that_would_repeat_an_effect_needs_a_person_and_what_was_done_is_done() -> None:
    for kind in ("repeat", "again"):
        run, asked = asks_before_it_repeats(kind)
        waiting = [
            (step.name, step.question)
            for step in from_scratch(run, len(run.records)).steps
            if step.status == "waiting"
        ]
        assert waiting == [("Send mail to ada", asked)]
        assert ("Mail ada", "Done") in stands(run)


def test_a_step_that_took_over_what_was_done_is_shown_once_under_its_new_name() -> None:
    run, asked = asks_before_it_repeats("repeat")
    mailed = next(x.position for x in run.state.effects.values() if x.name == "Mail ada")
    run.append(e.QuestionAnswered(question=asked, who=ANN, key="a", payload=msgspec.Raw(b'"x"')))
    run.append(
        e.StepSettled(
            epoch=1,
            step="Send mail to ada:1",
            name="Send mail to ada",
            earlier=Earlier(mailed),
        )
    )
    sheet = from_scratch(run, len(run.records))
    shown = [(step.name, step.status) for step in sheet.steps if step.position]
    assert shown == [("Score", "done"), ("Send mail to ada", "done")]
    assert sheet.done == 2


def asks_before_it_repeats(kind: str) -> tuple[Run, int]:
    """A step was renamed: the new one asks before it does again what the old one has done."""
    run, thinking = planned()
    run.settle(thinking)
    mailed = run.start("Mail ada")
    run.settle(mailed)
    step = f"{kind}:Send mail to ada:1"
    asks = e.QuestionOpened(epoch=1, kind=kind, message="Again?", step=step, about=mailed)
    return run, run.append(asks)


def test_a_step_with_a_key_keeps_its_name_when_it_asks_again() -> None:
    run, thinking = planned()
    run.settle(thinking)
    mailing = run.append(
        e.AttemptStarted(
            epoch=1, step="key=a:b", name="Mail ada", effect=Effect.ONCE, idempotency_key="k"
        )
    )
    run.settle(mailing, Outcome.NOT_DONE)
    asks = e.QuestionOpened(epoch=1, kind="approval", message="May it?", step="approve:key=a:b:7")
    run.append(asks)
    assert ("Mail ada", "Needs you") in stands(run)


def test_what_becomes_known_late_is_done_then() -> None:
    run, _ = planned()
    attempt = run.start("Hold a table")
    run.settle(attempt, Outcome.UNKNOWN)
    assert from_scratch(run, len(run.records)).done == 0

    run.append(e.LateOutcome(epoch=1, attempt=attempt, outcome=Outcome.DONE))
    assert from_scratch(run, len(run.records)).done == 1


@pytest.mark.parametrize("ended", [Outcome.NOT_STARTED, Outcome.NOT_DONE, Outcome.UNKNOWN])
@pytest.mark.parametrize("told", ["while it is repeated", "after that"])
def test_what_a_lost_worker_did_is_shown_as_done_whatever_came_of_the_repeat(
    ended: Outcome, told: str
) -> None:
    run, thinking = planned()
    run.settle(thinking)
    lost = run.start("Hold a table", undoable=True)
    run.settle(lost, Outcome.UNKNOWN)
    again = run.start("Hold a table", undoable=True)
    if told == "after that":
        run.settle(again, ended)
    run.append(e.LateOutcome(epoch=1, attempt=lost, outcome=Outcome.DONE))
    if told == "while it is repeated":
        assert shown(run, "Hold a table") == "running"
        run.settle(again, ended)

    assert shown(run, "Hold a table") == "done"
    assert from_scratch(run, len(run.records)).done == 2  # with the thought before it

    run.finish()
    run.ask(e.UndoRequested(who=ANN))
    run.undo(lost)
    assert shown(run, "Hold a table") == "undone"


@pytest.mark.parametrize("told", ["before it", "after it"])
def test_what_two_workers_did_is_one_step_that_is_done(told: str) -> None:
    run, thinking = planned()
    run.settle(thinking)
    lost = run.start("Hold a table")
    run.settle(lost, Outcome.UNKNOWN)
    again = run.start("Hold a table")
    late = e.LateOutcome(epoch=1, attempt=lost, outcome=Outcome.DONE)
    if told == "before it":
        run.append(late)
    run.settle(again)
    if told == "after it":
        run.append(late)

    assert shown(run, "Hold a table") == "done"
    sheet = from_scratch(run, len(run.records))
    assert (sheet.done, sheet.spent.steps) == (2, 1)  # with the thought before it


def shown(run: Run, name: str) -> str:
    (status,) = (s.status for s in from_scratch(run, len(run.records)).steps if s.name == name)
    return status


def with_a_child(*, outcome: str = "") -> RunBook:
    """A run that has begun another, and heard of its end."""
    run, _ = planned()
    run.append(e.ChildSpawned(epoch=1, child="r-2", agent="trip", brief="Hotels", step="spawn"))
    if outcome:
        run.append(e.ChildSettled(epoch=1, child="r-2", outcome=outcome))
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    return book


def test_a_run_in_the_background_stands_as_its_row_says_unless_its_end_was_heard_since() -> None:
    rows = {"r-2": Row("r-2", "run", 9, phase="running", updated_at=5.0)}
    [running] = with_a_child().sheet(rows).background
    [ended] = with_a_child(outcome="done").sheet(rows).background  # the row was read before

    assert (running.phase, running.ended_at) == ("running", None)
    assert ended.phase == "done"
    assert ended.ended_at is not None


def test_a_run_in_the_background_that_was_purged_has_ended_and_nobody_says_how() -> None:
    [gone] = with_a_child(outcome="purged").sheet().background

    assert gone.phase == "purged"
    assert gone.ended_at is not None
