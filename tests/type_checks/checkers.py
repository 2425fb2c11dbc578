"""Runs mypy and pyright, and tells which lines they complain about."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
PYRIGHT: Final = HERE / "node_modules/pyright/index.js"
WAIT_S: Final = 150


class Complaint(NamedTuple):
    """An error that a type checker finds."""

    file: Path
    line: int
    text: str


Checker = Callable[..., list[Complaint]]


def by_mypy(folder: Path, files: Sequence[Path], *options: str) -> list[Complaint]:
    """Return the errors that mypy finds in files, with ``folder`` to import from."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary"),
            *("--config-file", str(ROOT / "pyproject.toml"), "--show-absolute-path"),
            *("--cache-dir", str(ROOT / ".mypy_cache/documents")),
            *options,
            *map(str, files),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=WAIT_S,
    )
    assert not done.stderr, done.stderr
    found = re.findall(r"^(.+?):(\d+): error: (.+)$", done.stdout, re.MULTILINE)
    return [Complaint(Path(file), int(line), text) for file, line, text in found]


def by_pyright(folder: Path, files: Sequence[Path], *_: str) -> list[Complaint]:
    """Return the errors that pyright finds in files, with ``folder`` to import from."""
    done = subprocess.run(
        [
            *("node", str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable),
            *map(str, files),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=WAIT_S,
    )
    return [
        Complaint(Path(each["file"]), each["range"]["start"]["line"] + 1, each["message"])
        for each in json.loads(done.stdout)["generalDiagnostics"]
        if each["severity"] == "error"
    ]


CHECKERS: Final = [
    pytest.param(by_mypy, id="mypy"),
    pytest.param(by_pyright, id="pyright", marks=pytest.mark.node),
]
