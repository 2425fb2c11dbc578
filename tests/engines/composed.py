"""What ``deploy/compose.yaml`` says, and the same on this machine without containers."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer.main
import yaml  # type: ignore[import-untyped]

from midflight.interfaces.cli.commands import serve_command, worker_command

COMPOSE = Path(__file__).parents[2] / "deploy" / "compose.yaml"
APPS = {"serve": serve_command.app, "worker": worker_command.app}
ASKED = re.compile(r"\$\{\w+:\?[^}]*\}")  # what whoever starts it has to give


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    return found


def options(service: dict[str, Any]) -> dict[str, Any]:
    """What its command is given, read by the command itself."""
    name, *arguments = shlex.split(ASKED.sub("agents.example.com", service["command"]))
    command = typer.main.get_command(APPS[name])
    return dict(command.make_context(name, arguments).params)


def seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"s": 1, "m": 60}[unit]


def mebibytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(M|G)(?:iB)?", text).groups()  # type: ignore[union-attr]
    return int(number) * {"M": 1, "G": 1024}[unit]


def health(service: dict[str, Any]) -> str:
    """The URL that its health check asks for."""
    (url,) = re.findall(r"http://[^\s']+", service["healthcheck"]["test"][-1])
    return str(url)


class Container:
    """One of a service, as a process: its command and health check, with places of this machine."""

    def __init__(
        self,
        service: dict[str, Any],
        places: Mapping[str, str],
        environment: Mapping[str, str],
        folder: Path,
    ) -> None:
        self._places = {"0.0.0.0": "127.0.0.1", "/data": str(folder), **places}
        self._test = self._here(service["healthcheck"]["test"][-1])
        self.patience_s = seconds(service["healthcheck"]["timeout"])
        self.grace_s = seconds(service["stop_grace_period"])
        command = shlex.split(self._here(ASKED.sub("127.0.0.1", service["command"])))
        assert service["environment"].keys() >= environment.keys() - {"PATH", "PYTHONPATH"}
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "midflight", *command],
                env=environment,
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _here(self, text: str) -> str:
        for there, here in self._places.items():
            text = text.replace(there, here)
        return text

    def is_healthy(self) -> bool:
        """Whether its own check says so."""
        check = [sys.executable, "-c", self._test]
        done = subprocess.run(check, capture_output=True, timeout=self.patience_s + 10, check=False)
        return done.returncode == 0

    def stop(self) -> int:
        """As ``docker compose stop`` does; TimeoutExpired is where it would kill."""
        self.process.terminate()
        return self.process.wait(self.grace_s)
