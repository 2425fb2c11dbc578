"""Paused runs cost an entry in the store and next to nothing in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="measures by /proc"),
]

HOARDER = Path(__file__).parent / "hoarder.py"
RUNS = 10_000
MB = 1024 * 1024


def told(folder: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HOARDER), str(folder), *words],
        env=os.environ | {"PYTHONMALLOC": "malloc"},
        stdout=subprocess.PIPE,
        check=True,
        timeout=280,
    )
    answer: dict[str, Any] = msgspec.json.decode(done.stdout)
    return answer


def test_ten_thousand_live_runs_are_paused_and_let_go_and_any_of_them_goes_on(
    tmp_path: Path,
) -> None:
    let_go = told(tmp_path, "evict", str(RUNS))

    assert 100 * MB < let_go["live"] - let_go["before"] < 380 * MB, "live: not at all, or too big"
    assert let_go["after"] - let_go["before"] <= 40 * MB
    assert len(let_go["results"]) >= 4
    assert all(0 < result <= RUNS for result in let_go["results"])

    opened = told(tmp_path, "open")  # the same store, in a process that has never driven them

    assert opened["paused"] >= RUNS - 10
    assert opened["after"] - opened["before"] <= 20 * MB
    assert len(opened["results"]) >= 4
    assert all(0 < result <= RUNS for result in opened["results"])
