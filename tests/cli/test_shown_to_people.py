"""What the commands show of a run is whole, stands in its column, and says when."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.scene import Scene
from journal.journals import Run, running
from midflight.errors import NeedsPerson
from midflight.interfaces.cli.rich_console import step_line
from midflight.interfaces.cli.run_display import Lines
from midflight.journal import events as e
from midflight.journal.phases import Outcome
from midflight.journal.state import SETTLE
from midflight.view import RunBook, ThreadBook

NOTICE = "Order: " + "it may still arrive, or what it waits for may. " * 9


def book_of(run: Run) -> RunBook:
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    return book


def command(*words: str) -> str:
    return " ".join(("midflight", *words))


def test_a_log_of_lines_has_every_notice_whole(capsys: pytest.CaptureFixture[str]) -> None:
    run = running()
    run.append(e.NoticeGiven(epoch=run.state.epoch, kind="doubt", text=NOTICE.strip()))
    Lines(command).begin(book_of(run), ThreadBook("t-1"), 0.0)
    assert NOTICE.strip() in capsys.readouterr().out


def test_a_step_that_is_looked_up_again_says_when_and_keeps_its_columns() -> None:
    run = running()
    run.did("Bake")
    order = run.did("Order", Outcome.UNKNOWN)
    run.append(e.TimerSet(epoch=run.state.epoch, name=f"{SETTLE}{order}", until=run.state.at + 25))
    baked, ordered = book_of(run).sheet().steps
    first, second = (step_line(step, run.state.at).plain for step in (baked, ordered))
    assert "Checked, not seen yet " in second
    assert second.endswith(("looked up again in 00:25", "looked up again in 00:24"))
    assert first[37:51].strip() == "Done"
    assert second[37:59] == "Checked, not seen yet "  # where the seconds of others stand, too


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("Which colour?", "to answer: Which colour? Answer question 4"),
        ("It is not known.", "to answer: It is not known. Answer question 4"),
        ("Say more", "to answer: Say more. Answer question 4"),
    ],
)
def test_the_error_of_a_run_that_asks_has_one_stop_after_the_question(
    message: str, told: str
) -> None:
    assert told in str(NeedsPerson("r-1", 4, message))


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_failure_says_how_to_see_where(tmp_path: Path) -> None:
    told = Scene(tmp_path).said("run", "cli.staff:broken", status=10)
    assert "(MIDFLIGHT_TRACEBACK=1 shows where)" in told
