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
