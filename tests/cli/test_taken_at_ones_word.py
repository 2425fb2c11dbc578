"""What was typed is done, or refused in words that are true: nothing is dropped in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.scene import Scene

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
    assert f"without {named}." in told
    assert "midflight redirect last" in told
    assert "midflight raise last" in told
    assert not (scene.folder / "midflight.db").exists()
