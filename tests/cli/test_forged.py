"""What others have written cannot steer a terminal: it is shown, and the screen stays ours."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.scene import Scene, Server
from cli.terminal import Terminal
from midflight.interfaces.cli.console import LogLines, console
from midflight.interfaces.terminal.safe_text import visible

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
CLEARS = "\x1b[2J\x1b[H"  # the screen, and begins to write at its top
TITLES = "\x1b]0;pwn\x07"
TURNS = "\u202e\u2066\u200f\u061c"  # what comes next is read from the other side
OURS = "Done  All refunds were sent"  # a line as we write it
FORGED = f"hello{CLEARS}{TITLES}\x9b31m\x7f\r{TURNS}[blink]evil[/] :x:\n{OURS}"
SEEN = "hello␛[2J␛[H␛]0;pwn␇"
STEERING = {chr(code) for code in [*range(32), *range(127, 160)]} - {"\n", "\t"} | {
    *map(chr, range(0x202A, 0x202F)),
    *map(chr, range(0x2066, 0x206A)),
    *"\u200e\u200f\u061c",
}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def steers(told: str) -> set[str]:
    return STEERING & set(told)


def forged_lines(told: str) -> list[str]:
    """Lines that begin as only ours do."""
    return [line for line in told.splitlines() if line.startswith(OURS)]


def is_to_the_letter(told: str) -> bool:
    """No markup was obeyed, and no name of an emoji became one; a title may be cut."""
    return "\N{CROSS MARK}" not in told and told.count("evil") == told.count("[blink]evil[/")


def run_of(scene: Scene, status: int = 0, **given: object) -> str:
    wanted = ("--input", json.dumps(given))
    return scene.said("run", "cli.forger:parrot", FORGED, *wanted, "--plain", status=status)


UNSEEN = {
    *"\u00ad\u034f\u115f\u1160\u180e\u200b\u3164\ufeff\uffa0\u2028\u2029\ufff9\ufffa\ufffb",
    *map(chr, range(0x2060, 0x2066)),
    *map(chr, range(0x206A, 0x2070)),
}
"""Characters that show nothing: two texts that differ in them would look the same."""


def test_every_character_that_steers_a_terminal_is_made_visible() -> None:
    assert {one for one in map(chr, range(0x110000)) if visible(one) != one} == STEERING | UNSEEN
    assert not steers(visible("".join(STEERING)))
    assert visible("a\tb\nc\r\nd") == "a\tb\nc\nd"  # as others write the end of a line
    assert visible("\x1b[0m\x7f\u202e") == "␛[0m␡�"


def test_nothing_that_is_printed_vanishes(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich would drop what rings, goes back or feeds a line: 100 and 900 would be one figure."""
    console().print("100\r900 \x07\x08\x0b\x0c", 900)
    assert capsys.readouterr().out == "100␍900 ␇␈␋␌ 900\n"


def test_a_viewer_cannot_write_on_the_screen_of_who_reads_the_thread(scene: Scene) -> None:
    server = Server(scene.folder, "cli.forger")
    try:
        scene.said("token", "ann", "--save")
        viewer = scene.said("token", "eve", "--role", "viewer").strip()
        remote = scene.elsewhere("--server", server.url)
        remote.said("run", "parrot", "tea")
        remote.said("send", "last", FORGED, MIDFLIGHT_TOKEN=viewer)
        for command in ("thread", "show", "watch"):
            told = remote.said(command, "last")
            assert not steers(told)
            assert not forged_lines(told)
            assert SEEN in told or command != "thread"
    finally:
        server.leave()


def test_brief_step_words_result_and_receipt_are_shown_and_steer_nothing(scene: Scene) -> None:
    told = run_of(scene)
    assert not steers(told)
    assert not forged_lines(told)
    assert told.count(SEEN) >= 4  # the brief, a step's name, what it has said, and the result
    assert is_to_the_letter(told)
    for command in (["runs"], ["show", "last"], ["watch", "last"], ["thread", "last"]):
        told = scene.said(*command)
        assert not steers(told)
        assert not forged_lines(told)
        assert SEEN in told
        assert is_to_the_letter(told)
    assert FORGED in json.loads(scene.said("show", "last", "--json"))["brief"]  # for programs


def test_questions_previews_and_deliveries_steer_nothing(scene: Scene) -> None:
    begun = ("run", "cli.forger:parrot", FORGED, "--input", '{"asks": true}', "--title", FORGED)
    shell = Terminal(scene.folder, scene.env, *begun, "--plain")
    try:
        assert not forged_lines(shell.until("midflight answer"))
        assert "? hello" in shell.shown
        for command in (["show", "last"], ["answer", "last"], ["runs"]):
            told = scene.said(*command)
            assert not steers(told)
            assert not forged_lines(told)
            assert SEEN in told
        told = scene.said("redirect", "last", FORGED * 2, "--wait", "20")
        told += scene.said("cancel", "last", "--wait", "20")
        assert not steers(told)
        assert not forged_lines(told)
        told = scene.said("watch", "last", "--plain", status=11)
        assert not forged_lines(told)
    finally:
        shell.close()


def test_a_todo_and_what_was_done_by_hand_forge_no_line(scene: Scene) -> None:
    server = Server(scene.folder, "cli.staff")
    try:
        scene.said("run", "cli.staff:host", "tea", "--detach")
        run = scene.until("last", "running")["run"]
        scene.said("send", run, f"later: {FORGED}")
        deadline = time.monotonic() + 20
        while not scene.json("todos", run)["todos"]:
            assert time.monotonic() < deadline
        for command in ("todos", "thread"):
            assert not forged_lines(told := scene.said(command, run))
            assert f"later: {SEEN}" in told
        scene.said("take-over", run, "--wait", "20")
        scene.said("hand-back", run, FORGED, "--wait", "20")
        scene.said("cancel", run, "--yes", "--wait", "20")
        told = scene.said("watch", run, "--plain", status=11)
        assert "Handed back: hello" in told
        assert not forged_lines(told)
    finally:
        server.leave()


def test_an_agents_error_and_a_wrong_word_steer_nothing(scene: Scene) -> None:
    told = run_of(scene, status=10, fails=True)
    told += scene.said("show", "last")
    told += scene.said("show", FORGED, status=4)
    told += scene.said("run", f"cli.{FORGED}", status=4)
    told += scene.said("shw" + FORGED, status=2)
    assert not steers(told)
    assert not forged_lines(told)


def test_the_live_picture_steers_the_screen_only_by_itself(
    scene: Scene, terminals: list[Terminal]
) -> None:
    given = ("run", "cli.forger:parrot", FORGED, "--input", '{"seconds": 1}')
    terminals.append(shell := Terminal(scene.folder, scene.env, *given))
    assert shell.ended() == 0
    assert SEEN in shell.shown
    assert b"\x1b[" in shell.raw  # our own styles are there
    for forged in (CLEARS, TITLES, "\x1b]0;", "\x9b", "\x7f", *TURNS):
        assert forged.encode() not in shell.raw


def test_what_is_logged_steers_nothing_and_can_be_read_back() -> None:
    record = logging.LogRecord("midflight", logging.INFO, "", 0, FORGED, None, None)
    line = LogLines().format(record)
    assert not steers(line)
    assert json.loads(line)["message"] == FORGED
