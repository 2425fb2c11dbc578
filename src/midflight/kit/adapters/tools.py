"""The tools that all runtimes under test are given, and the ledger that these tell what they do.

Plain Python alone: it runs in the environment of each runtime. A tool waits for the ledger's
answer, so what it tells has its place in one order with all else that is told. Its arguments are an
item such as ``RUN/a1``, and how many milliseconds it takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import threading
import time

LEDGER = "MIDFLIGHT_KIT_LEDGER"
"""The variable that names the ledger's socket, for tools in processes of their own too."""

MARK = "MIDFLIGHT_KIT_RUN"
"""The variable by which processes of a run are found, wherever they have gone."""

CHILDREN = "sleep 60 & setsid sh -c 'echo there; exec sleep 60 >&-' & sleep {seconds}"
"""Starts processes; one leaves the group and says so, so that a stop has processes to end."""

PAYLOAD = "x" * 194
"""The text that a durable step keeps; with its number before it, it has 200 bytes."""


class Link:
    """The way to the ledger, from any thread of any process."""

    def __init__(self) -> None:
        self._mine = threading.local()

    def tell(self, what: str, about: str, more: str = "") -> None:
        """Block until it is written down."""
        self._ask(f"{what} {about} {more}".rstrip())

    def has_acted(self, key: str) -> bool:
        """Ask the ledger whether a thing was done."""
        return self._ask(f"? {key}") == b"1"

    def _ask(self, line: str) -> bytes:
        if getattr(self._mine, "process", 0) != os.getpid():
            self._mine.link = socket.socket(socket.AF_UNIX)
            self._mine.link.connect(os.environ[LEDGER])
            self._mine.process = os.getpid()
        link: socket.socket = self._mine.link
        link.sendall(line.encode() + b"\n")
        answer = link.recv(1)
        if not answer:
            raise ConnectionError("the process of the kit that keeps the ledger has gone")
        return answer


link = Link()
tell = link.tell


async def act(item: str, ms: int) -> str:
    """Do something to the world, half-way through."""
    tell("begin", item)
    try:
        await asyncio.sleep(ms / 2000)
        tell("acted", item)
        await asyncio.sleep(ms / 2000)
    finally:
        tell("left", item)
    return f"{item} is done"


async def make(item: str, ms: int) -> str:
    """Make something that can be taken back."""
    return await act(item, ms)


def unmake(item: str) -> None:
    """Take it back."""
    tell("undone", item)


def hold(item: str, ms: int) -> str:
    """Do something by code that blocks."""
    tell("begin", item)
    time.sleep(ms / 2000)
    tell("acted", item)
    time.sleep(ms / 2000)
    tell("left", item)
    return f"{item} is done"


async def spawn(item: str, ms: int) -> str:
    """Start processes, as a careful author does: they end with the call, by their group."""
    tell("begin", item)
    process = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        _children(ms),
        env=_marked(item),
        start_new_session=True,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        tell("spawned", item)
        await process.wait()
        tell("acted", item)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        tell("left", item)
    return f"{item} is done"


def spawn_and_wait(item: str, ms: int) -> str:
    """Start processes and wait for them, for a runtime that ends them by itself."""
    tell("begin", item)
    command = ["sh", "-c", _children(ms)]
    with subprocess.Popen(command, env=_marked(item), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        tell("spawned", item)
        process.wait(60)
    tell("acted", item)
    return f"{item} is done"


def look(item: str, ms: int) -> str:
    """Read a thing that the work relies on."""
    tell("looked", item)
    return "as it was"


def _children(ms: int) -> str:
    return CHILDREN.format(seconds=ms / 1000)


def _marked(item: str) -> dict[str, str]:
    return os.environ | {MARK: run_of(item)}


def run_of(item: str) -> str:
    """Return the run that an item belongs to."""
    return item.partition("/")[0]


TOOLS = (act, make, hold, spawn, look)
"""The tools that every agent is given."""
