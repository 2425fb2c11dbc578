"""What can still be done after the end, as the terminal offers it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kernel.journals import Run
from midflight.kernel.phases import Phase
from midflight.sheets import RunBook, RunSheet
from midflight.sheets.shapes import StepSheet
from midflight.terminal.slots import slots


def ended(phase: Phase, *stands: str, failed: str = "") -> RunSheet:
    """A run that has ended, whose steps stand as they are called."""
    run = Run()
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    steps = [
        StepSheet(id=f"s{n}", position=n + 1, name=f"{stand} {n}", status=stand, word=stand)
        for n, stand in enumerate(stands, 1)
    ]
    return replace(book.sheet(), phase=phase, steps=tuple(steps), failed_step=failed)


@pytest.mark.parametrize(
    ("sheet", "label", "said"),
    [
        (ended(Phase.CANCELLED, "done", "undone", "undone"), "Start again", "undone 2"),
        (ended(Phase.CANCELLED, "done", "kept", "cancelled"), "Start again", "cancelled 3"),
        (ended(Phase.CANCELLED, "done", "done"), "Start again", "done 2"),
        (ended(Phase.FAILED, "undone", "failed", failed="failed 2"), "Try again", "failed 2"),
    ],
)
def test_a_fork_begins_where_the_work_is_not_there_any_more(
    sheet: RunSheet, label: str, said: str
) -> None:
    again = slots(sheet, now=0.0)[0]

    assert (again.label, again.enabled) == (label, True)
    assert again.consequence == f"A fork from {said}, context kept"
