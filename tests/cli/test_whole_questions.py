"""A question can be decided from what is on the screen: all of it, and what may be answered."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from cli.scene import Scene
from cli.terminal import Terminal
from journal.journals import running
from midflight.interfaces.cli.run_display import Lines, Picture
from midflight.view import RunBook, ThreadBook

LONG = "a long reason " * 40
SCHEMA = {
    "enum": ["approve", "reject"],
    "x-labels": {"approve": "Do it"},
    "x-tool": "staff.wire",
    "x-details": {"args": ["Ada", 700], "kwargs": {"reason": LONG.strip()}},
    "x-names": ["to", "amount"],
}


def command(*words: str) -> str:
    return " ".join(("midflight", *words))


def lines() -> Lines:
    return Lines(command)


def picture() -> Lines:
    return Picture(command, driving=True)


@pytest.mark.anyio
@pytest.mark.parametrize("made", [lines, picture])
async def test_who_follows_a_run_is_shown_the_arguments_the_choices_and_the_command(
    made: object, capsys: pytest.CaptureFixture[str]
) -> None:
    run = running()
    run.open_question("May it be wired?", schema=Raw(msgspec.json.encode(SCHEMA)))
    run.wait()
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    with made() as shown:  # type: ignore[operator]
        shown.begin(book, ThreadBook("t-1"), 0.0)
    told = " ".join(capsys.readouterr().out.split())

    for words in ("? May it be wired?", "tool: staff.wire", "to: Ada", "amount: 700", "Do it"):
        assert words in told
    assert f"reason: {LONG.strip()}" in told
    assert "(approve)" in told
    assert "midflight answer r-1 ANSWER" in told


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_in_a_terminal_a_question_is_whole_and_its_answer_is_said_back(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    shell = Terminal(scene.folder, scene.env, "run", "cli.staff:treasurer", "tea")
    try:
        shell.until("Waiting for you  the question stands above")
        for words in ("tool: staff.wire", "amount: 700", "(reject)", "midflight answer r-"):
            assert words in shell.shown

        told = scene.said("answer", "last", "aprove", status=1)
        assert "did you mean approve?" in told
        assert "Nothing was answered" in told
        assert len(scene.json("show", "last")["questions"]) == 1
        assert scene.said("answer", "last", "approve").startswith("answered: approve")
        shell.until("700 to Ada")
    finally:
        shell.close()
