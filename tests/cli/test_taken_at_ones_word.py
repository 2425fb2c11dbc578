"""What was typed is done, or refused in words that are true: nothing is dropped in silence."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from cli.scene import CALL_S, MIDFLIGHT, Scene
from cli.terminal import Terminal
from midflight.errors import InvalidRequest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_module_that_ends_the_program_when_it_is_imported_starts_nothing_and_says_so(
    scene: Scene,
) -> None:
    (scene.folder / "script.py").write_text("import sys\nsys.exit()\n", encoding="utf-8")
    told = scene.fresh("run", "script:report", "tea")
    assert (told.returncode, told.stdout) == (4, "")
    assert "script ended the program while it was imported" in told.stderr
    assert "Nothing was started." in told.stderr


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["coffee"], "a brief"),
        (["--title", "Tea"], "--title"),
        (["--thread", "t-1"], "--thread"),
        (["--input", "{}"], "--input"),
        (["--steps", "3"], "caps"),
    ],
)
def test_what_a_run_that_goes_on_cannot_take_is_refused_and_the_verb_for_it_named(
    scene: Scene, given: list[str], named: str
) -> None:
    told = scene.said("run", "cli.staff:porter", *given, "--continue", "last", status=1)
    assert f"cannot be combined with {named}." in told
    assert "midflight redirect last" in told
    assert "midflight raise last" in told
    assert not (scene.folder / "midflight.db").exists()


def test_a_number_that_is_none_is_called_that_and_those_that_can_be_meant_are_named(
    scene: Scene,
) -> None:
    scene.said("run", "cli.staff:host", "tea", "--detach")
    scene.said("send", "last", "the yard")
    told = scene.said("edit", "last", "99", "the garden", status=1)
    assert re.search(r"there is no message 99 that can still be changed, only \d+\. Nothing", told)
    assert "there is no message 99 that can" in scene.said("withdraw", "last", "99", status=1)
    for option in ("--now", "--remove"):
        told = scene.said("todos", "last", option, "3", status=1)
        assert "there is no todo 3 now, nor any other. Nothing was changed." in told
    told = scene.said("todos", "last", "--order", "2,1", status=1)
    assert "there is no todo 2, 1 now, nor any other. Nothing was changed." in told


def test_a_question_that_was_never_asked_is_not_answered(scene: Scene) -> None:
    shell = Terminal(scene.folder, scene.env, "run", "cli.staff:asker", "tea")
    try:
        shell.until("Waiting for you")
        told = scene.said("answer", "last", "red", "--question", "99", status=1)
        assert re.search(r"question 99 is not open, only \d+\. Nothing was changed\.", told)
    finally:
        shell.close()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("./reports.py:report", "reports:report."),
        ("reports.py:report", "reports:report."),
        ("reports.py", "reports:AGENT."),
        ("jobs/reports.py:report", "jobs.reports:report."),
        ("/elsewhere/reports.py:report", "reports:report, from the folder that it is in."),
        ("../reports.py:report", "reports:report, from the folder that it is in."),
    ],
)
def test_who_names_a_file_is_told_how_its_module_is_named(
    scene: Scene, typed: str, meant: str
) -> None:
    told = scene.said("run", typed, "tea", status=4)
    assert f"name a module, not a file: {meant} Nothing" in told


def test_words_that_are_not_utf8_are_refused_as_that(scene: Scene) -> None:
    for words in (["run", "cli.staff:asker"], ["send", "last"]):
        done = subprocess.run(
            [*MIDFLIGHT, *words, b"caf\xe9"],
            cwd=scene.folder,
            env=scene.env,
            capture_output=True,
            check=False,
            timeout=CALL_S,
        )
        assert done.returncode == 1
        assert "'caf?' is not valid UTF-8" in done.stderr.decode()
    assert not (scene.folder / "midflight.db").exists()


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "it ends too soon"), (b"RIFF", "it ends too soon"), (b"x" * 99, "RIFF")],
)
def test_what_is_no_sound_is_refused_with_why(tmp_path: Path, content: bytes, why: str) -> None:
    from midflight.interfaces.voice.speech.speech_engines import read_wav

    for given in (content, tmp_path / "a.wav"):
        (tmp_path / "a.wav").write_bytes(content)
        with pytest.raises(InvalidRequest, match=f"cannot be read as WAV: .*{why}.*Nothing was"):
            read_wav(given)
