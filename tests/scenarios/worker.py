"""Processes that drive runs and die. ``python worker.py`` is the one from which they are forked.

It reads one story a line, ``{"folder": …, "lives": [{…}, …]}``, and forks a process for it, which
forks a process for each life, one after the other, and tells how each of them ended. Forked from an
interpreter that has imported everything and started no thread, a life begins within milliseconds,
and is still a process of its own that is really killed with -9.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from typing_extensions import override

from midflight.agents import Agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.stores.protocol import Append, Committed, Draft, Submit, View
from midflight.stores.sqlite import SqliteStore
from scenarios import book, world

AT_ONCE = 4  # stories told at the same time
LIFE_MAX_S = 20.0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly(SqliteStore):
    """Kills its process at a position of the run's journal: just before it is written, or when it
    is on the disk and nobody has been told."""

    before = after = 0  # positions
    appends = 0  # or: after so many appends of this life
    later = 0.0  # not at once but so many seconds after that
    head = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._writer._deliver = self._delivered

    @override
    async def append(self, decision: Append) -> Committed:
        self._about_to_write(sum(len(entry.events) for entry in decision.entries))
        return await super().append(decision)

    @override
    async def submit(self, request: Submit) -> Committed:
        def decided(view: View) -> Draft:
            draft = request.decide(view)
            self._about_to_write(len(draft.events.get(world.RUN, ())))
            return draft

        return await super().submit(replace(request, decide=decided))

    def _about_to_write(self, events: int) -> None:
        if self.before and self.head + events >= self.before:
            die()

    def _delivered(self, done: object) -> None:
        if isinstance(done, Committed):  # and no record of the audit by itself
            mine = [r.position for r in done.records if r.journal == world.RUN]
            if mine and not done.repeated:
                self.head = max(mine)
                self.appends -= 1
                if (self.after and self.head >= self.after) or self.appends == 0:
                    self._die()
        self._hub.deliver(done)

    def _die(self) -> None:
        if not self.later:
            die()
        asyncio.get_running_loop().call_later(self.later, die)


async def live(life: dict[str, Any]) -> None:
    """Drive the run of a story until it ends, or we do."""
    place = book.folder() / "journals.db"
    signals = (signal.SIGTERM,) if life.get("drains") else ()
    async with Deadly.open(place) as store:
        store.before, store.after = life.get("before", 0), life.get("after", 0)
        store.appends, store.later = life.get("appends", 0), life.get("later", 0.0)
        async with LocalEngine.open(
            store, world.AGENTS, workdir=book.folder() / "work", signals=signals
        ) as engine:
            control = Control(store, engine)
            await world.start(control, life["script"])
            await world.until_over(control, life["script"])


class Fatal:
    """An engine that is never told: its process dies when a request is on record."""

    async def ensure(self, run: str) -> None:
        die()

    def agent(self, name: str) -> Agent | None:
        return None


async def press(verb: str, run: str, **what: Any) -> None:
    """Ask for something, and die when it is on the disk, before anybody is told."""
    async with SqliteStore.open(book.folder() / "journals.db") as store:
        control = Control(store, Fatal())
        await getattr(control, verb)(run, **what)


def forked(work: Callable[[], None]) -> int:
    """Do it in a process of its own."""
    if (child := os.fork()) > 0:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - the end of a process: written down for who looks
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def lived(folder: Path, life: dict[str, Any]) -> int:
    """One life, from its fork to its end; how it ended."""

    def work() -> None:
        log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(log, 2)
        os.environ |= {
            book.FOLDER: str(folder),
            book.DIES_AT: life.get("moment", ""),
            book.DRIVER: str(os.getpid()),
        }
        asyncio.run(press(**life) if "verb" in life else live(life))

    child, deadline = forked(work), time.monotonic() + LIFE_MAX_S
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGABRT)
            deadline += LIFE_MAX_S
        time.sleep(0.002)


def tell(story: dict[str, Any]) -> None:
    """Live its lives until one sees the run's end, and say how they ended, in one line."""
    folder = Path(story["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    endings: list[int] = []
    for life in story["lives"]:
        endings.append(lived(folder, life))
        if (folder / "outcome").exists() or endings[-1] not in {0, -signal.SIGKILL}:
            break
    line = json.dumps({"folder": str(folder), "endings": endings})
    os.write(1, f"{line}\n".encode())


def stories(lines: Iterable[str]) -> None:
    """Tell some at a time, in the order in which they come."""
    telling: set[int] = set()
    for line in lines:
        while len(telling) >= AT_ONCE:
            telling.discard(os.wait()[0])
        story = json.loads(line)
        telling.add(forked(lambda story=story: tell(story)))  # type: ignore[misc]
    for _ in range(len(telling)):
        os.wait()


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    stories(sys.stdin)
