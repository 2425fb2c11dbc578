"""Commands as people give them: real processes, in a folder of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forks import Forked, ran
from ports import free_port
from scenarios.stories import environment

CALL_S = 40
MIDFLIGHT = (sys.executable, "-m", "midflight")


class Scene:
    """A folder, its environment, and where commands are to work."""

    def __init__(self, folder: Path, *where: str) -> None:
        self.folder = folder
        self.where = where
        self.env = {
            **environment(),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "COLUMNS": "120",
            "TERM": "xterm-256color",
        }
        for name in list(self.env):
            if name.startswith("MIDFLIGHT_") or name == "PYTHONUNBUFFERED":  # few people set it
                del self.env[name]

    def call(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Give a command, and wait for its end."""
        return ran([*MIDFLIGHT, *arguments, *self.where], **self._options(env))

    def fresh(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """The same in a process that has to import everything, as a shell begins it."""
        return subprocess.run([*MIDFLIGHT, *arguments, *self.where], **self._options(env))

    def _options(self, env: dict[str, str]) -> dict[str, Any]:
        piped = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        env = {**self.env, **env}
        return {"cwd": self.folder, "env": env, "check": False, "timeout": CALL_S, **piped}

    def until(self, run: str, *phases: str) -> Any:
        """How a run stands, once it is in one of these phases."""
        return self.until_shown(run, lambda shown: shown["phase"] in phases)

    def until_shown(self, run: str, ready: Callable[[Any], bool]) -> Any:
        """How a run stands, once it stands as is waited for."""
        deadline = time.monotonic() + CALL_S
        while not ready(shown := self.json("show", run)):
            assert time.monotonic() < deadline, shown["status"]
            time.sleep(0.1)
        return shown

    def said(self, *arguments: str, status: int = 0, **env: str) -> str:
        """What a command says, which ends as it should and in no other way."""
        done = self.call(*arguments, **env)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        return done.stdout if status == 0 else done.stdout + done.stderr

    def json(self, *arguments: str) -> Any:
        """What a command answers, as the one document it is."""
        return json.loads(self.said(*arguments, "--json"))

    @staticmethod
    def json_of(done: subprocess.CompletedProcess[str]) -> Any:
        """What was answered, however it has ended."""
        return json.loads(done.stdout)

    def lines(self, *arguments: str, status: int = 0) -> list[Any]:
        """What a command tells line by line."""
        told = self.said(*arguments, "--json", status=status)
        return [json.loads(line) for line in told.splitlines()]

    def elsewhere(self, *where: str) -> Scene:
        """The same folder, by another way."""
        return Scene(self.folder, *where)


class Server:
    """``midflight serve`` over the store of a folder."""

    def __init__(self, folder: Path, *agents: str, port: int = 0) -> None:
        port = port or free_port()  # which it can have again after its death
        scene = Scene(folder)
        with (folder / "serve.log").open("ab") as log:
            self.process = Forked(
                [*MIDFLIGHT, "serve", *agents, "--port", str(port)],
                cwd=folder,
                env=scene.env,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        found = re.search(r"(http://127\.0\.0\.1:(\d+))/#code=", self.process.stdout.readline())
        assert found is not None, (folder / "serve.log").read_text(encoding="utf-8")
        self.url, self.port = found[1], int(found[2])

    def leave(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, and wait for that."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout=10)
        if self.process.stdout is not None:
            self.process.stdout.close()


def is_root() -> bool:
    """Whether permissions mean nothing to us."""
    return os.geteuid() == 0
