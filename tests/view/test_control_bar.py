"""What can still be done after the end, as the terminal offers it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kernel.journals import Run
from midflight.journal.phases import Phase
from midflight.view import RunBook, RunSheet
from midflight.view.control_bar import slots
from midflight.view.data import ForkFrom


def ended(phase: Phase, fork_from: ForkFrom | None) -> RunSheet:
    run = Run()
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    return replace(book.sheet(), phase=phase, fork_from=fork_from)


@pytest.mark.parametrize(
    ("phase", "label"), [(Phase.CANCELLED, "Start again"), (Phase.FAILED, "Try again")]
)
def test_a_fork_is_offered_from_where_the_sheet_says(phase: Phase, label: str) -> None:
    again = slots(ended(phase, ForkFrom(position=7, number=2, name="Hold a table")), now=0.0)[0]

    assert (again.label, again.enabled) == (label, True)
    assert again.consequence == "A fork from Hold a table, context kept"


def test_what_had_not_begun_cannot_be_tried_again() -> None:
    again = slots(ended(Phase.CANCELLED, None), now=0.0)[0]

    assert (again.enabled, again.consequence) == (False, "It had not begun")
