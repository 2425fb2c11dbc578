"""Opens a store and does what it is told, a line at a time: ``python holder.py PATH``.

Each line is a word with what it is about; the answer is one line. ``append`` answers with what is
acknowledged by then, or with the name of the error. ``fork`` starts a child with multiprocessing
that sleeps; ``lease NAME`` holds a driver's lease from then on.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

from midflight.errors import StoreError
from midflight.journal.events import PlanSet
from midflight.stores.sqlite import SqliteStore
from stores.runs import Driver, running


def _read(path: Path) -> str:
    for file in path.parent.glob(f"{path.name}*"):
        if file.is_file():
            file.read_bytes()
    return "read"


def _copy(path: Path) -> str:
    shutil.copy(path, path.with_name("copy"))
    return "copied"


def _fork() -> str:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    return str(child.pid)


async def obey(line: str, path: Path, store: SqliteStore, stack: AsyncExitStack) -> str:
    word, _, about = line.partition(" ")
    match word:
        case "start":
            driving = await running(store, about)
            drivers[about] = driving
            return str(driving.state.head)
        case "append":
            await drivers[about].decides(PlanSet(epoch=1, steps=("more",)))
            return str(drivers[about].state.head)
        case "lease":
            await stack.enter_async_context(store.lease(about))
            return "held"
        case "gone":
            return str(await store.lease_gone(about))
        case "chdir":
            os.chdir(about)
            return "there"
        case "read":
            return _read(path)
        case "copy":
            return _copy(path)
        case _:
            return _fork()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def main(path: Path) -> None:
    async with AsyncExitStack() as stack:
        try:
            store = await stack.enter_async_context(SqliteStore.open(path))
        except StoreError as error:
            say(f"{type(error).__name__}: {error}")
            return
        say("open")
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            try:
                say(await obey(line, path.resolve(), store, stack))
            except StoreError as error:
                say(f"{type(error).__name__}: {error}")


drivers: dict[str, Driver] = {}

if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
