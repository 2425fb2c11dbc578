"""The app in a real terminal: keys as a terminal sends them, and a server that dies meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.scene import Scene, Server

pytestmark = [pytest.mark.slow, pytest.mark.tmux, pytest.mark.timeout(150)]


class Tmux:
    """One terminal of 80 by 24, with a tmux server of its own."""

    def __init__(self, folder: Path, env: dict[str, str], *arguments: str) -> None:
        self.env = {**env, "TMUX_TMPDIR": str(folder), "LC_ALL": "C.UTF-8"}
        for name in ("TMUX", "COLUMNS"):
            self.env.pop(name, None)
        command = " ".join([sys.executable, "-m", "midflight", *arguments])
        self("new-session", "-d", "-x", "80", "-y", "24", "-s", "s", f"{command}; sleep 600")

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", "midflight", *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        return done.stdout

    @property
    def shown(self) -> str:
        return self("capture-pane", "-p", "-t", "s")

    def until(self, *words: str, seconds: float = 40.0) -> str:
        deadline = time.monotonic() + seconds
        while not all(word in (shown := self.shown) for word in words):
            assert time.monotonic() < deadline, f"{words} are not shown:\n{shown}"
            time.sleep(0.1)
        return shown

    def press(self, *keys: str) -> None:
        self("send-keys", "-t", "s", *keys)


@pytest.fixture
def tmuxes() -> Iterator[list[Tmux]]:
    opened: list[Tmux] = []
    yield opened
    for tmux in opened:
        tmux("kill-server")


def test_a_run_is_steered_by_keys_over_a_restart_of_its_server(
    tmp_path: Path, tmuxes: list[Tmux]
) -> None:
    server = Server(tmp_path, "cli.staff")
    scene = Scene(tmp_path)
    scene.said("token", "ann", "--role", "operator", "--save")
    try:
        remote = scene.elsewhere("--server", server.url)
        remote.said("run", "host", "the shop", "--detach")
        tmuxes.append(tmux := Tmux(tmp_path, scene.env, "tui", "--server", server.url))
        tmux.until("Running", "Pause  Esc", "Cancel  ^X")
        tmux.press("Escape")
        tmux.until("Paused", "Resume  Esc")
        tmux.press("Escape")
        tmux.until("Running")

        tmux.press("-l", "the yard")
        tmux.press("M-Enter")
        tmux.until("Switched to this now")

        os.kill(server.process.pid, signal.SIGKILL)
        tmux.until("Reconnecting", "The agent keeps running", "Sent when back online")
        server.leave()
        server = Server(tmp_path, "cli.staff", port=server.port)
        tmux.until("Cancel  ^X", "Comes to the front, what")  # it is parked, or about to be

        tmux.press("C-c")
        tmux.until("Ctrl+C again leaves; the run goes on.")
        tmux.press("C-c", "C-c")  # two: the first may come too late to be the second
        tmux.until("Left. Runs go on without you; come back with:")
    finally:
        server.leave()
