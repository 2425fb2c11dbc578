"""The verbs of an adapter, and the loop that carries them out in the runtime's process.

Plain Python alone, as ``tools`` is: it runs in the environment of each runtime.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar

from midflight.kit.adapters.tools import tell


class NotOffered(Exception):
    """The runtime has no such verb."""


class Runtime:
    """The verbs that an adapter implements, as far as its runtime offers them.

    A verb returns when the runtime's own API says that it is so: ``stop`` when the stop is
    acknowledged, ``ended`` when the run is said to be over, ``pause`` when it is said to be paused.
    Where a run is a plain coroutine, ``begin`` it: then ``ended`` and ``again`` are there already.
    """

    offers: frozenset[str] = frozenset()
    """Some of: stop, pause, send, crash, again, undo, receipt, stale, switch, steps."""

    keeps: ClassVar[str] = "*.db*"
    """The files in its folder that hold its runs."""

    def __init__(self, folder: Path, model_url: str) -> None:
        self.folder = folder
        self.model_url = model_url
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, run: str, work: Any) -> None:
        """Let a coroutine run in a task of its own."""
        self.tasks[run] = asyncio.get_running_loop().create_task(_quietly(run, work))

    async def over(self, run: str) -> None:
        """Wait for the end of its task."""
        await asyncio.wait([self.tasks[run]])

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Open what it needs, until the end of the block."""
        return contextlib.nullcontext()

    async def start(self, run: str, brief: str) -> None:
        """Begin a run; the work goes on by itself."""
        raise NotOffered

    async def stop(self, run: str) -> list[str]:
        """Stop a run; return the keys that the answer lists as in flight."""
        raise NotOffered

    async def ended(self, run: str) -> None:
        """Wait until the runtime says that the run is over."""
        await self.over(run)

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
        await self.start(run, text)
        await self.over(run)

    async def asks(self, run: str) -> bool:
        """Return whether the run waits for a person's answer."""
        raise NotOffered

    async def receipt(self, run: str) -> dict[str, str]:
        """Return the outcome of each effect, by its key, as the runtime tells it."""
        raise NotOffered

    async def steps(self, runs: int, count: int, shape: str) -> None:
        """Do so many durable steps of 200 bytes in each of so many runs at once."""
        raise NotOffered

    async def grow(self, run: str, count: int, shape: str) -> None:
        """Do so many durable steps in one run, and stay there."""
        raise NotOffered

    async def regrow(self, run: str, count: int, shape: str) -> None:
        """Go on with that run in a new process, to its next step, which tells the ledger."""
        raise NotOffered

    async def syncs(self) -> str:
        """Return the settings of the connections that it writes by, as the database tells them."""
        raise NotOffered

    async def size(self) -> int:
        """Return the bytes on disk of all that it keeps, with what is still in a log beside it."""
        return sum(file.stat().st_size for file in self.folder.glob(self.keeps))


TELLS = {
    "stop": ("pressed", "acked"),
    "ended": ("", "stopped"),
    "pause": ("pressed", "paused"),
    "resume": ("resumed", ""),
}
"""A verb -> the words that the runtime's process tells the ledger before and after it."""


class Commands:
    """Carries out what comes in on the standard input, and answers on what was the output."""

    def __init__(self, runtime: Runtime, answers: int) -> None:
        self._runtime = runtime
        self._answers = answers

    async def listen(self) -> None:
        """Carry out commands until the input ends, as it also does when the parent process dies."""
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


async def _quietly(run: str, work: Any) -> None:
    try:
        await work
    except Exception as error:
        sys.stderr.write(f"{run} has failed: {type(error).__name__}: {error}\n")


async def together(works: Iterable[Any]) -> None:
    """Run all at once, to the end of the last."""
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
