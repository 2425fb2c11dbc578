"""The panes of the terminal app, drawn from sheets."""

from __future__ import annotations

from msgspec.structs import replace

from journal.journals import Run, running
from midflight.interfaces.tui import panes
from midflight.interfaces.tui.theme import DARK, tones
from midflight.journal import events as e
from midflight.view import RunBook
from midflight.view.data import Background


def test_a_run_in_the_background_that_was_deleted_is_drawn_as_that() -> None:
    run = Run()
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    gone = Background("r-2", "Check the figures", "purged", 0.0, 7.0, "")

    drawn = panes.steps(replace(book.sheet(), background=[gone]), {}, 9.0, 60, tones(DARK)).text

    assert "· Check the figures" in drawn.plain
    assert drawn.plain.rstrip().endswith("Deleted, beside")


def test_of_a_plan_with_thousands_of_steps_the_part_around_the_running_one_is_shown() -> None:
    run = running()
    run.append(e.PlanSet(epoch=1, steps=tuple(f"Part {number:04}" for number in range(1, 2001))))
    for number in range(1, 701):
        name = f"Part {number:04}"
        run.append(e.StepSettled(epoch=1, step=f"{name}#1", name=name))
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)

    shown, current = panes.steps(book.sheet(), {}, 9.0, 60, tones(DARK))

    lines = shown.plain.splitlines()
    assert current is not None
    assert shown.plain[current:].startswith(" ◐ Part 0701")
    assert lines[0] == "  … 400 earlier steps"
    assert lines[-1] == "  … 1,200 more steps"
    assert len(lines) == panes.STEPS_MAX + 2
