"""Looks at processes from outside, and starts tools and drivers that tests cancel and kill."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio

from midflight.tools.processes.process import Ended, ended_of, run_process

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent.parent / "src"
TREE = str(HERE / "tree.py")
DRIVER = str(HERE / "driver.py")
WEAK_SUPERVISOR = str(HERE / "weak_supervisor.py")


def alive(token: str) -> list[int]:
    """The processes that have the word in their command line. (That of a zombie is empty.)"""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if token.encode() in words:
            found.append(int(folder.name))
    return found


def gone_within(seconds: float, token: str, but: int = 0) -> bool:
    """Whether all processes of a test end in time."""
    until = time.monotonic() + seconds
    while set(alive(token)) - {but}:
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def tree(token: str, *kinds: str) -> list[str]:
    """A command that starts these kinds of processes and prints "up" when all are there."""
    return [sys.executable, "-I", "-S", TREE, token, *kinds]


def driver_environment() -> dict[str, str]:
    paths = [str(SOURCES), *filter(None, sys.path)]
    return {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths)}


async def cancelled_when_up(
    command: list[str],
    *,
    cancel: Callable[[asyncio.Task[Any]], Coroutine[Any, Any, None]] | None = None,
    **options: Any,
) -> Ended:
    """Run a command, cancel it once it has printed something, and give what came of it."""
    up = anyio.Event()

    def on_output(_: str, __: bytes) -> None:
        up.set()

    return await cancelled(run_process(command, on_output=on_output, **options), up, cancel)


async def cancelled(
    call: Coroutine[Any, Any, Any],
    up: anyio.Event,
    cancel: Callable[[asyncio.Task[Any]], Coroutine[Any, Any, None]] | None = None,
) -> Ended:
    """Run a call in a task, cancel that natively when ``up`` is set, and give what came of it."""
    task = asyncio.get_running_loop().create_task(call)
    await up.wait()
    if cancel is None:
        task.cancel()
    else:
        await cancel(task)
    try:
        await task
    except asyncio.CancelledError as error:
        ended = ended_of(error)
        assert ended is not None
        return ended
    raise AssertionError("it was not cancelled")
