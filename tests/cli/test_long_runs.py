"""A run of many steps: following it costs the same at its last step as at its first."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given

from cli.scene import MIDFLIGHT
from journal.histories import histories
from journal.journals import Run, running
from midflight.interfaces.cli.run_display import Lines, Picture
from midflight.journal import events as e
from midflight.journal.phases import Outcome
from midflight.journal.record import Recorded
from midflight.view import RunBook, StepSheet, ThreadBook
from scenarios.stories import environment

AGENT = """
from midflight import Run, agent, tool

@tool(effect="write", undo=lambda made: None)
async def make(number: int) -> int:
    return number

@agent()
async def maker(run: Run) -> None:
    for number in range(int(run.brief)):
        await run.step(f"make {number}", make, number)
"""


def effects(run: Run, number: int) -> None:
    run.did(f"step {number}", undoable=True)


def failures(run: Run, number: int) -> None:
    run.did(f"step {number}", Outcome.NOT_DONE)


def questions(run: Run, number: int) -> None:
    run.did(f"step {number}")
    asked = run.open_question(f"Go on after {number}?")
    run.wait()
    run.answer(asked)


def pauses(run: Run, number: int) -> None:
    run.did(f"step {number}", undoable=True)
    run.pause()
    run.hold()
    run.resume()


def redirects(run: Run, number: int) -> None:
    run.did(f"step {number}", Outcome.NOT_DONE)
    run.redirect(f"Brief {number}")
    run.deliver(f"Brief {number}")
    run.enter()


def plans(run: Run, number: int) -> None:
    run.append(e.PlanSet(epoch=run.state.epoch, steps=(f"step {number}", "the next")))
    run.did(f"step {number}")


Shape = Callable[[Run, int], None]
SHAPES: list[Shape] = [effects, failures, questions, pauses, redirects, plans]


def command(*words: str) -> str:
    return " ".join(words)


def lines() -> Lines:
    return Lines(command)


def picture() -> Lines:
    """It is drawn after every record here, as if each came between two ticks of its clock."""
    shown = Picture(command, driving=True)
    take = shown.take

    def take_and_draw(item: Any) -> None:
        take(item)
        shown._picture()

    shown.take = take_and_draw  # type: ignore[method-assign]
    return shown


class Work:
    """Counts the instructions of the interpreter, which are the same on every machine."""

    def __init__(self) -> None:
        self.done = 0

    def __enter__(self) -> Work:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, what: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.done += what == "opcode"
        return self._trace


def records_of(shape: Shape, count: int) -> list[Recorded]:
    run = running()
    for number in range(count):
        shape(run, number)
    return run.records


def work_of_following(follower: Callable[[], Lines], shape: Shape, count: int) -> int:
    records = records_of(shape, count)
    book = RunBook(records[0].journal)
    book.take(records[0])
    work = Work()
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
        shown = follower()
        Lines.begin(shown, book, ThreadBook("t-1"), 0.0)
        with work:
            for record in records[1:]:
                shown.take(record)
    return work.done


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("follower", [lines, picture])
async def test_following_four_times_as_many_steps_takes_four_times_the_work(
    follower: Callable[[], Lines], shape: Shape
) -> None:
    few, many = (work_of_following(follower, shape, count) for count in (25, 100))
    assert many <= 4.4 * few


@given(histories(40))
def test_news_tell_of_every_step_that_has_come_to_stand_otherwise(run: Run) -> None:
    book = RunBook(run.state.journal)
    told: dict[str, StepSheet] = {}
    for record in run.records:
        book.take(record)
        news = book.news()
        told |= {step.id: step for step in news.steps}
        sheet = book.sheet()
        assert list(told.values()) == [step for step in sheet.steps if step.position]
        assert news.questions == sheet.questions


@given(histories(40))
def test_news_tell_of_every_mark_and_every_change_of_the_brief_once(run: Run) -> None:
    book = RunBook(run.state.journal)
    marks: list[Any] = []
    changes: list[Any] = []
    for record in run.records:
        book.take(record)
        news = book.news()
        marks += news.marks
        changes += news.changes
    sheet = book.sheet()
    assert marks == sheet.marks
    assert changes == [change for change in sheet.changes if change.applied]


@given(histories(40))
def test_an_outline_has_every_step_that_is_still_under_way_and_what_is_planned(run: Run) -> None:
    book = RunBook(run.state.journal)
    under_way = {"queued", "running", "retrying", "waiting", "paused", "undoing"}
    for record in run.records:
        book.take(record)
        outline, sheet = book.outline(), book.sheet()
        expected = [s for s in sheet.steps if s.status in under_way or not s.position]
        assert [s for s in outline.steps if s.status in under_way or not s.position] == expected
        assert (outline.phase, outline.status, outline.spent, outline.meters, outline.done) == (
            sheet.phase,
            sheet.status,
            sheet.spent,
            sheet.meters,
            sheet.done,
        )


def processor_s(folder: Path, steps: int) -> float:
    """The processor time of ``midflight run`` over so many steps."""
    (folder / "makers.py").write_text(AGENT, encoding="utf-8")
    store = ("--store", str(folder / f"{steps}.db"))
    command = [*MIDFLIGHT, "run", "makers:maker", str(steps), *store, "--plain"]
    env = {**environment(), "PYTHONPATH": str(folder)}
    output = os.open(folder / f"{steps}.txt", os.O_WRONLY | os.O_CREAT, 0o600)
    actions = [(os.POSIX_SPAWN_DUP2, output, 1)]
    child = os.posix_spawn(command[0], command, env, file_actions=actions)
    os.close(output)
    _, status, used = os.wait4(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert f"{steps} steps" in (folder / f"{steps}.txt").read_text(encoding="utf-8")
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
def test_the_command_run_takes_the_processor_in_proportion_to_the_steps(tmp_path: Path) -> None:
    few, some, many = (processor_s(tmp_path, steps) for steps in (2, 500, 2000))
    assert many - few <= 6 * (some - few)
