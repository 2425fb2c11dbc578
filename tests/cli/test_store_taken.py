"""A store whose file is taken away: commands that drive end at once, and say why."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from cli.scene import CALL_S, MIDFLIGHT, Scene
from forks import Forked

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def noted(notes: Path) -> int:
    return len(notes.read_text(encoding="utf-8").splitlines()) if notes.exists() else 0


@pytest.mark.parametrize("command", ["run", "serve"])
def test_who_drives_on_a_deleted_store_ends_and_says_why(tmp_path: Path, command: str) -> None:
    scene, notes = Scene(tmp_path), tmp_path / "notes"
    begin: tuple[str, ...] = ("run", "cli.busy:busy", str(notes))
    if command == "serve":
        scene.said(*begin, "--detach")
        begin = ("serve", "cli.busy", "--port", "0")
    driver = Forked(
        [*MIDFLIGHT, *begin],
        cwd=tmp_path,
        env=scene.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + CALL_S
        while noted(notes) < 5:
            assert driver.poll() is None, driver.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (tmp_path / "midflight.db").unlink()
        by_then = noted(notes)
        _, told = driver.communicate(timeout=CALL_S)
    finally:
        if driver.poll() is None:
            driver.send_signal(signal.SIGKILL)
            driver.wait(10)

    assert driver.returncode == 3, told
    assert "midflight.db is not the store any more that this process had opened" in told
    assert "Traceback" not in told
    assert "The search for runs" not in told
    assert noted(notes) <= by_then + 2  # what had been begun
