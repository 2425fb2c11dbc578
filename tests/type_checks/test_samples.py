"""The public API has types that both type checkers understand in the same way."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SAMPLES = HERE / "samples"
PYRIGHT = HERE / "node_modules/pyright/index.js"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def wrong_lines(sample: str) -> list[int]:
    """Return the lines on which a sample says that it is wrong."""
    lines = (SAMPLES / sample).read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# error")]


def by_mypy(sample: str) -> list[int]:
    """Return the lines on which mypy finds errors."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(SAMPLES / sample)],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parent.parent,
        timeout=150,
    )
    assert not done.stderr
    found = re.findall(rf"{re.escape(sample)}:(\d+): error", done.stdout)
    return sorted({int(line) for line in found})


def by_pyright(sample: str) -> list[int]:
    """Return the lines on which pyright finds errors."""
    done = subprocess.run(
        [
            "node",
            str(PYRIGHT),
            "--outputjson",
            "--pythonpath",
            sys.executable,
            str(SAMPLES / sample),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=SAMPLES,
        timeout=150,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    return sorted({each["range"]["start"]["line"] + 1 for each in found})


CHECKERS = {
    "mypy": by_mypy,
    "pyright": by_pyright,
}


@pytest.mark.parametrize("checker", ["mypy", pytest.param("pyright", marks=pytest.mark.node)])
@pytest.mark.parametrize("sample", ["good.py", "bad.py"])
def test_type_checkers_find_the_mistakes_and_nothing_else(sample: str, checker: str) -> None:
    assert CHECKERS[checker](sample) == wrong_lines(sample)


def test_there_are_mistakes_to_find() -> None:
    assert wrong_lines("good.py") == []
    assert len(wrong_lines("bad.py")) >= 12
