"""Workers as processes of their own, behind one address, which can be killed and frozen."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from msgspec import Struct, structs

from engines import fleet_world
from engines.hosts import RestateServer
from engines.link import Link, linked, to_port
from midflight.engines.restate_address import Restate
from ports import free_port

PATHS = os.pathsep.join(filter(None, sys.path))
START_S = 40


class Freeze(Struct, frozen=True):
    """From when to when a process stood still."""

    process: int
    since: float
    until: float = math.inf


class Hand:
    """One worker. Killed or frozen, and hired again under the same address."""

    def __init__(self, command: list[str], store: str, folder: Path, port: int) -> None:
        self._command = [*command, "--store", store, "--port", str(port)]
        self._folder = folder
        self.port = port
        self.driver = ""
        self.drivers: dict[int, str] = {}  # of each process that it was
        self.process: subprocess.Popen[bytes]
        self.hired = False
        self.freezes: list[Freeze] = []

    async def hire(self) -> None:
        """Start it, and wait until it is at work."""
        self._start()
        assert self.process.stdout is not None
        with anyio.fail_after(START_S):
            line = await anyio.to_thread.run_sync(
                self.process.stdout.readline, abandon_on_cancel=True
            )
        assert line, (self._folder / f"worker-{self.port}.log").read_text()
        self.driver = self.drivers[self.process.pid] = json.loads(line)["driver"]

    def _start(self) -> None:
        environment = os.environ | {
            "PYTHONPATH": PATHS,
            fleet_world.FOLDER: str(self._folder),
        }
        with (self._folder / f"worker-{self.port}.log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=self._folder
            )
        self.hired = True

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self._close()

    async def leave(self) -> int:
        """Ask it to leave in good order; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = await anyio.to_thread.run_sync(self.process.wait, 30)
        self._close()
        return status

    def freeze(self) -> None:
        self.freezes.append(Freeze(self.process.pid, time.monotonic()))
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self.freezes[-1] = structs.replace(self.freezes[-1], until=time.monotonic())
        self.process.send_signal(signal.SIGCONT)

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()


class Fleet:
    """Made by ``fleet``."""

    def __init__(self, hands: list[Hand], link: Link, restate: Restate, folder: Path) -> None:
        self.hands = hands
        self.link = link
        self.restate = restate
        self.folder = folder

    def hand(self, driver: str) -> Hand | None:
        return next((hand for hand in self.hands if hand.driver == driver), None)

    @property
    def drivers(self) -> dict[int, str]:
        return {pid: name for hand in self.hands for pid, name in hand.drivers.items()}

    @property
    def freezes(self) -> list[Freeze]:
        return [freeze for hand in self.hands for freeze in hand.freezes]

    def enough(self) -> None:
        (self.folder / "enough").touch()


@asynccontextmanager
async def fleet(
    server: RestateServer,
    service: str,
    folder: Path,
    *stores: str,
    options: tuple[str, ...] = (),
) -> AsyncIterator[Fleet]:
    """Some workers, for as long as the block runs; each has its own way to the store."""
    place = server.place(service)
    async with linked() as link:
        command = [
            *(sys.executable, "-m", "midflight", "worker", "engines.fleet_world", "--json"),
            *("--engine", "restate", "--service", service),
            *("--ingress", place.ingress, "--admin", place.admin),
            *("--uri", f"http://127.0.0.1:{link.port}", "--drain", "5", *options),
        ]
        hands = [Hand(command, store, folder, free_port()) for store in stores]
        link.ends.extend(to_port(hand.port) for hand in hands)
        try:
            async with anyio.create_task_group() as together:
                for hand in hands:
                    together.start_soon(hand.hire)
            yield Fleet(hands, link, place, folder)
        finally:
            for hand in hands:
                if hand.hired:  # else another one's failure is the news
                    hand.kill()
