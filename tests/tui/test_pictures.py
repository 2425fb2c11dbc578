"""The panes of the terminal app, drawn from sheets."""

from __future__ import annotations

from msgspec.structs import replace

from kernel.journals import Run
from midflight.sheets import RunBook
from midflight.sheets.shapes import Background
from midflight.tui import pictures
from midflight.tui.theme import DARK, tones


def test_a_run_in_the_background_that_was_deleted_is_drawn_as_that() -> None:
    run = Run()
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    gone = Background("r-2", "Check the figures", "purged", 0.0, 7.0, "")

    drawn = pictures.steps(replace(book.sheet(), background=[gone]), {}, 9.0, 60, tones(DARK))

    assert "· Check the figures" in drawn.plain
    assert drawn.plain.rstrip().endswith("Deleted, beside")
