"""What all runtimes under test are given: the same tools, and somebody who tells them what to do.

Plain Python alone: it runs in the environment of each runtime. A tool tells the ledger what it does
and waits for the answer, so what it tells has its place in one order with all else that is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar

LEDGER = "MIDFLIGHT_KIT_LEDGER"
"""The variable that names the ledger's socket, for tools in processes of their own too."""

MARK = "MIDFLIGHT_KIT_RUN"
"""The variable by which processes of a run are found, wherever they have gone."""

CHILDREN = "sleep 60 & setsid sleep 60 & sleep {seconds}"


class Link:
    """The way to the ledger, from any thread of any process."""

    def __init__(self) -> None:
        self._mine = threading.local()

    def tell(self, what: str, about: str, more: str = "") -> None:
        """Block until it is written down."""
        self._ask(f"{what} {about} {more}".rstrip())

    def has_acted(self, key: str) -> bool:
        """Ask the world whether a thing was done."""
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
            raise ConnectionError("the ledger has gone")
        return answer


link = Link()
tell = link.tell


# ── the tools: an item such as RUN/a1, and how many milliseconds it takes ────────────────────────


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
        "sh", "-c", _children(ms), env=_marked(item), start_new_session=True
    )
    tell("spawned", item)
    try:
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
    with subprocess.Popen(["sh", "-c", _children(ms)], env=_marked(item)) as process:
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
    """The run that an item belongs to."""
    return item.partition("/")[0]


# ── the runtime ──────────────────────────────────────────────────────────────────────────────────


class NotOffered(Exception):
    """The runtime has no such verb."""


class Runtime:
    """What an adapter implements, of it only what its runtime offers.

    A verb returns when the runtime's own API says that it is so: ``stop`` when the stop is
    acknowledged, ``ended`` when the run is said to be over, ``pause`` when it is said to be paused.
    """

    offers: frozenset[str] = frozenset()
    """Of: stop, pause, send, crash, again, undo, receipt, stale, switch, steps."""

    keeps: ClassVar[str] = "*.db*"
    """The files in its folder that hold its runs."""

    def __init__(self, folder: Path, model_url: str) -> None:
        self.folder = folder
        self.model_url = model_url

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Open what it needs, until the end of the block."""
        return contextlib.nullcontext()

    async def start(self, run: str, brief: str) -> None:
        """Begin a run; the work goes on by itself."""
        raise NotOffered

    async def stop(self, run: str) -> list[str]:
        """Stop it: give the keys that the answer lists as in flight."""
        raise NotOffered

    async def ended(self, run: str) -> None:
        """Wait until the runtime says that the run is over."""
        raise NotOffered

    async def pause(self, run: str) -> None:
        """Hold it, and wait until it is said to be held."""
        raise NotOffered

    async def resume(self, run: str) -> None:
        """Go on where it was held."""
        raise NotOffered

    async def take_up(self, run: str) -> None:
        """Go on after a crash, in a new process."""
        raise NotOffered

    async def send(self, run: str, text: str) -> None:
        """Say something to it while it works."""
        raise NotOffered

    async def again(self, run: str, text: str) -> None:
        """Say something in the conversation of a run that was stopped, and let it be answered."""
        raise NotOffered

    async def asks(self, run: str) -> bool:
        """Whether the run waits for a person's answer."""
        raise NotOffered

    async def receipt(self, run: str) -> dict[str, str]:
        """What the runtime says became of each effect."""
        raise NotOffered

    async def steps(self, runs: int, count: int, shape: str) -> None:
        """Do so many durable steps of 200 bytes in each of so many runs at once."""
        raise NotOffered

    async def grow(self, run: str, count: int, shape: str) -> None:
        """Do so many durable steps in one run, and stay there."""
        raise NotOffered

    async def regrow(self, run: str, count: int, shape: str) -> None:
        """In a new process: go on with that run to its next step, which tells the ledger."""
        raise NotOffered

    async def size(self) -> int:
        """Bytes on disk of all that it keeps, with what is still in a log beside it."""
        return sum(file.stat().st_size for file in self.folder.glob(self.keeps))


TELLS = {
    "stop": ("pressed", "acked"),
    "ended": ("", "stopped"),
    "pause": ("pressed", "paused"),
    "resume": ("resumed", ""),
}
"""What the ledger is told before and after a verb, by the process that has called it."""


class Commands:
    """Carries out what comes in on the standard input, and answers on what was the output."""

    def __init__(self, runtime: Runtime, answers: int) -> None:
        self._runtime = runtime
        self._answers = answers

    async def listen(self) -> None:
        """Until the input ends, which is also when whoever started us dies."""
        lines = asyncio.StreamReader(limit=1 << 24)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        async with asyncio.TaskGroup() as tasks:
            self._answer(0, "offers", sorted(self._runtime.offers))
            while line := await lines.readline():
                number, verb, arguments = json.loads(line)
                tasks.create_task(self._carry_out(number, verb, arguments))
            os._exit(0)  # whatever still runs: nobody is left to see it

    async def _carry_out(self, number: int, verb: str, arguments: list[Any]) -> None:
        before, after = TELLS.get(verb, ("", ""))
        try:
            if before:
                tell(before, arguments[0])
            said = await getattr(self._runtime, verb)(*arguments)
            if after:
                tell(after, arguments[0], ",".join(said or ()) if verb == "stop" else "")
            self._answer(number, "ok", said)
        except NotOffered:
            self._answer(number, "not offered", None)
        except Exception as error:
            traceback.print_exc()
            self._answer(number, "failed", f"{type(error).__name__}: {error}")

    def _answer(self, number: int, how: str, said: Any) -> None:
        os.write(self._answers, json.dumps([number, how, said]).encode() + b"\n")


class Tasks:
    """One task for each run, for runtimes whose runs are plain coroutines."""

    def __init__(self) -> None:
        self.running: dict[str, asyncio.Task[None]] = {}

    def begin(self, run: str, work: Any) -> None:
        """Let it run in a task of its own."""
        self.running[run] = asyncio.get_running_loop().create_task(self._quietly(run, work))

    async def _quietly(self, run: str, work: Any) -> None:
        try:
            await work
        except Exception as error:
            sys.stderr.write(f"{run} has failed: {type(error).__name__}: {error}\n")

    async def over(self, run: str) -> None:
        """Wait for its end."""
        await asyncio.wait([self.running[run]])


async def together(works: Iterable[Any]) -> None:
    """All at once, to the end of the last."""
    async with asyncio.TaskGroup() as tasks:
        for work in works:
            tasks.create_task(work)


async def _serve(runtime: Runtime, answers: int) -> None:
    async with runtime.opened():
        await Commands(runtime, answers).listen()


def serve(make_runtime: Callable[[Path, str], Runtime]) -> None:
    """Be the program of a runtime: ``python -m ADAPTER FOLDER MODEL_URL``."""
    folder, model_url = Path(sys.argv[1]), sys.argv[2]
    answers = os.dup(1)
    os.dup2(2, 1)  # what libraries print is not an answer
    asyncio.run(_serve(make_runtime(folder, model_url), answers))
