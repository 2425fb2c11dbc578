"""The ledger: everything that is told to it, in one order, with the moment it came.

Tools, and the adapters of the runtimes, tell it over a Unix socket and wait until it is written
down; what is told after the answer has a higher number. The kit's own process keeps it, not the
process of the runtime.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct

WAIT_S: Final = 20.0


class Told(Struct, frozen=True, array_like=True):
    """One thing that happened: to which run, and to what in it."""

    number: int
    at: float
    what: str
    about: str
    more: str = ""


class Ledger:
    """All that was told, by run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._runs: defaultdict[str, list[Told]] = defaultdict(list)
        self._news: dict[str, anyio.Event] = {}
        self._count = 0

    def note(self, what: str, about: str, more: str = "") -> None:
        """Write down one thing that happened."""
        self._count += 1
        run = about.partition("/")[0]
        self._runs[run].append(Told(self._count, time.monotonic(), what, about, more))
        if run in self._news:
            self._news.pop(run).set()

    def of(self, run: str) -> list[Told]:
        """Return all that was told of a run, in order."""
        return self._runs[run]

    def acted(self, key: str) -> bool:
        """Return whether a thing was done and not taken back since."""
        deeds = [t.what for t in self._runs[key.partition("/")[0]] if t.about == key]
        last = next((what for what in reversed(deeds) if what in {"acted", "undone"}), "")
        return last == "acted"

    async def until(
        self, run: str, ready: Callable[[Sequence[Told]], bool], within_s: float = WAIT_S
    ) -> bool:
        """Wait until a run is ``ready``; return whether it was so in time."""
        with anyio.move_on_after(within_s):
            while not ready(self._runs[run]):
                await self._news.setdefault(run, anyio.Event()).wait()
        return ready(self._runs[run])

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):  # a process was killed
            while line := await reader.readline():
                what, about, *more = line.decode().rstrip("\n").split(" ", 2)
                if what == "?":
                    writer.write(b"1" if self.acted(about) else b"0")
                else:
                    self.note(what, about, *more)
                    writer.write(b".")
        writer.close()


@asynccontextmanager
async def keeping(folder: Path) -> AsyncIterator[Ledger]:
    """Keep a ledger during the block."""
    ledger = Ledger(folder / "ledger")
    server = await asyncio.start_unix_server(ledger._hear, ledger.path, limit=1 << 20)
    try:
        yield ledger
    finally:
        server.close()


def happened(what: str, times: int = 1) -> Callable[[Sequence[Told]], bool]:
    """Return a test of whether something was told at least so many times."""
    return lambda told: sum(one.what == what for one in told) >= times
