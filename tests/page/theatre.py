"""The real server with the troupe, in a process that can be killed and brought back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import httpx

from forks import Forked, ran
from midflight.interfaces.http.access.keyring import Keyring, Session
from ports import free_port

TESTS = Path(__file__).resolve().parent.parent
TOO_QUICK = 429
SOON_S = 40.0  # for what happens in milliseconds, on a machine that does much else
KEPT_S = 2.0  # for a connection that nobody uses: after five, the server closes it in our face
T = TypeVar("T")


def soon(look: Callable[[], T], wanted: str = "it") -> T:
    """Look again until there is something true."""
    until = time.monotonic() + SOON_S
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{wanted} did not come within {SOON_S:g} s")


class Stage:
    """One run, and the cues of its steps."""

    def __init__(self, theatre: Theatre, name: str) -> None:
        self.theatre, self.name = theatre, name
        self.cues = theatre.folder / "cues" / name
        self.cues.mkdir(parents=True)
        self.run = ""

    def give(self, *names: str) -> None:
        """Let the steps of these names go on."""
        for name in names:
            (self.cues / name).touch()

    @property
    def view(self) -> dict[str, Any]:
        """The run as the API shows it."""
        return dict(self.theatre.get(f"/v1/runs/{self.run}"))

    def until(self, *phases: str) -> dict[str, Any]:
        """Wait until the run is in one of these phases."""

        def there() -> dict[str, Any] | None:
            view = self.view
            return view if view["phase"] in phases else None

        return soon(there, f"{phases}") or {}

    def until_step(self, name: str) -> None:
        """Wait until a step is in flight, or a read is what the run does."""
        soon(lambda: name in self.view["status"], name)

    def press(self, verb: str, **body: Any) -> dict[str, Any]:
        """Press something from outside the page."""
        return dict(self.theatre.post(f"/v1/runs/{self.run}/{verb}", body))

    @property
    def thread(self) -> str:
        return str(self.view["thread"])


class Theatre:
    """A server of its own, on a port of its own."""

    agents = "page.troupe"
    options: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "cues").mkdir()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[str] | None = None
        kept = httpx.Limits(keepalive_expiry=KEPT_S)
        self._http = httpx.Client(base_url=self.url, timeout=20, limits=kept)
        self.code = ""
        self.stages: list[Stage] = []
        self._keys = ["--keys", str(folder / "keys.json")]

    def open(self) -> None:
        """Start the server and wait until it has printed its address."""
        command = ["serve", self.agents, "--port", str(self.port), *self.options]
        options = ["--store", str(self.folder / "journals.db"), "--workdir", str(self.folder / "w")]
        with (self.folder / "log.txt").open("a", encoding="utf-8") as log:
            self._process = Forked(
                [sys.executable, "-m", "midflight", *command, *options, *self._keys],
                cwd=TESTS,
                env={**os.environ, "MIDFLIGHT_CUES": str(self.folder / "cues")},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        printed = self._process.stdout.readline()
        found = re.search(r"#code=(\S+)", printed)
        assert found, printed + (self.folder / "log.txt").read_text(encoding="utf-8")
        self.code = found.group(1)

    def token(self, name: str, role: str) -> str:
        """A token, made by the command that people use."""
        done = ran(
            [sys.executable, "-m", "midflight", "token", name, "--role", role, *self._keys],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        found = re.search(r"mf_\S+", done.stdout)
        assert found, done.stdout
        return found.group(0)

    def session(self, name: str, role: str) -> Session:
        """A session of somebody else, as if they had opened a link of their own."""
        keyring = Keyring(self.folder / "keys.json")
        session = keyring.exchange(keyring.code(name, role))
        assert session
        return session

    def come_in(self) -> None:
        """Let the tests themselves press things, too."""
        self._http.headers["authorization"] = f"Bearer {self.token('robot', 'operator')}"

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """As a power cut would."""
        assert self._process is not None
        if self.alive:
            self._process.send_signal(signal.SIGKILL)
        with self._process:  # which waits, and closes the pipe
            pass

    def close(self) -> None:
        """In a hurry: its runs wait for cues that nobody gives any more."""
        self.kill()
        self._http.close()

    def get(self, path: str, **query: Any) -> Any:
        return self._asked("GET", path, params=query)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._asked("POST", path, json=body)

    def _asked(self, method: str, path: str, **what: Any) -> Any:
        """Who is told to be slower, is."""
        while (answer := self._http.request(method, path, **what)).status_code == TOO_QUICK:
            time.sleep(float(answer.headers["retry-after"]))
        assert answer.is_success, answer.text
        return answer.json()

    def begin(self, agent: str = "report", brief: str = "Churn of June", **more: Any) -> Stage:
        """Start a run whose steps wait for their cues."""
        stage = Stage(self, uuid4().hex[:8])
        given = {"stage": stage.name, **more.pop("input", {})}
        body = {"agent": agent, "brief": brief.format(stage=stage.name), "input": given, **more}
        stage.run = str(self.post("/v1/runs", body)["run"])
        self.stages.append(stage)
        return stage

    def clear(self) -> None:
        """Let everything go on that still waits for a cue, or that an operator has stopped."""
        for switch in self.get("/v1/operator/switches")["switches"]:
            self.post("/v1/operator/release", {"scope": switch["scope"]})
        for stage in self.stages:
            stage.give("all")
        self.stages.clear()
