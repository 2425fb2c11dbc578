"""What the workers of a fleet do, and a file in which the world notes what was done to it.

A line for every *begin*, which is the first line of a tool, and a file of its own for every *done*,
where it touches the world, so that no kill can come between the deed and what a check finds: what,
key, process and moment. The moments are CLOCK_MONOTONIC, one for all of a host.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

import anyio
from msgspec import Struct

from midflight.agents import agent
from midflight.inputs import wall_clock
from midflight.run import Run
from midflight.tools.declaration import Done, NotDone, tool
from midflight.tools.options import EffectRecord
from midflight.tools.progress import emit

FOLDER = "FLEET_FOLDER"
STEP_S = 0.2
RESULT = "x" * 198


class Noted(Struct, frozen=True):
    """One line of the world's file. ``over`` is when a deed was there that was meant ``at``."""

    what: str
    key: str
    process: int
    at: float
    over: float = 0.0


def folder() -> Path:
    return Path(os.environ[FOLDER])


def note(what: str, key: str) -> None:
    line = f"{what}\t{key}\t{os.getpid()}\t{time.monotonic()}\n"
    handle = os.open(folder() / "world", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def noted(where: Path | None = None) -> list[Noted]:
    folder_ = where or folder()
    path = folder_ / "world"
    lines = path.read_text().splitlines() if path.exists() else []
    cells = [line.split("\t") for line in lines]
    begun = [Noted(what, key, int(pid), float(at)) for what, key, pid, at in cells]
    return begun + [_deed(deed) for deed in folder_.glob("done/*/*")]


def begin(key: str) -> None:
    """The first line of a tool: nothing is done yet, and all is ready for doing it."""
    note("begin", key)
    _deeds(folder(), key).mkdir(parents=True, exist_ok=True)


def do(key: str) -> None:
    """Touch the world: one file, which is there or is not, for each time that it is done."""
    meant = time.monotonic()
    (_deeds(folder(), key) / f"{os.getpid()}-{meant}").touch(exist_ok=False)


def do_under_key(key: str) -> None:
    """What a provider that honours keys does: only the first one to come with a key does it."""
    with suppress(FileExistsError):
        (_deeds(folder(), key) / "0-0").touch(exist_ok=False)


def is_done(key: str, where: Path | None = None) -> bool:
    deeds = _deeds(where or folder(), key)
    return deeds.exists() and any(deeds.iterdir())


def _deeds(where: Path, key: str) -> Path:
    return where / "done" / quote(key, safe="")


def _deed(path: Path) -> Noted:
    process, at = path.name.split("-")
    over = path.stat().st_mtime - wall_clock() + time.monotonic()
    return Noted("done", unquote(path.parent.name), int(process), float(at), over)


async def look_up(performed: EffectRecord) -> object:
    return Done("found") if is_done(performed.key) else NotDone()


@tool(effect="read")
async def look(number: int) -> int:
    await anyio.sleep(STEP_S)
    return number


@tool(effect="read")
async def enough(number: int) -> bool:
    return (folder() / "enough").exists()


@tool(effect="write", timeout=5)
async def upsert(number: int, idempotency_key: str = "") -> None:
    """Its provider honours keys."""
    begin(idempotency_key)
    await anyio.sleep(STEP_S)
    do_under_key(idempotency_key)


@tool(effect="once", check=look_up, settles_within=0, timeout=2)
async def send(number: int, idempotency_key: str = "") -> None:
    begin(idempotency_key)
    await anyio.sleep(STEP_S)
    do(idempotency_key)


@tool(effect="once", timeout=5)
async def order(number: int, idempotency_key: str = "") -> None:
    """Only a person can say whether it happened."""
    begin(idempotency_key)
    await anyio.sleep(STEP_S)
    do(idempotency_key)


@tool(effect="once", timeout=60)
async def deliver(brief: str, idempotency_key: str = "") -> None:
    """Takes as long as it is not told to go."""
    begin(idempotency_key)
    while not (folder() / "go").exists():  # noqa: ASYNC110
        await anyio.sleep(0.02)
    do(idempotency_key)


@tool(effect="once", check=look_up, settles_within=0, timeout=60)
async def carry(brief: str, idempotency_key: str = "") -> None:
    """As ``deliver``, and it can be looked up."""
    begin(idempotency_key)
    while not (folder() / "go").exists():  # noqa: ASYNC110
        await anyio.sleep(0.02)
    do(idempotency_key)


@tool(effect="read")
async def linger(brief: str) -> None:
    note("begin", brief)
    try:
        await anyio.sleep_forever()
    finally:
        note("ended", brief)


@tool(effect="read")
async def count(number: int) -> str:
    return RESULT


@tool(effect="write")
async def put(number: int, idempotency_key: str = "") -> str:
    """Its provider is quick: what it costs is its records."""
    return RESULT


@tool(effect="read")
async def tell(words: int) -> None:
    for number in range(words):
        emit(f"{number}@{time.monotonic()} ")
        await anyio.sleep(0.02)


KINDS = (look, upsert, send, order)


@agent()
async def busy(run: Run) -> int:
    """Works until it is told that it is enough; not all begin with the same."""
    number = int(run.brief)
    while not await run.step(f"Enough {number}", enough, number):
        await run.step(f"Work {number}", KINDS[number % len(KINDS)], number)
        number += 1
    return number


@agent()
async def deliverer(run: Run) -> None:
    await run.step("Deliver", deliver, run.brief)


@agent()
async def carrier(run: Run) -> None:
    await run.step("Carry", carry, run.brief)


@agent()
async def lingerer(run: Run) -> None:
    await run.step("Linger", linger, run.brief)


@agent()
async def teller(run: Run) -> None:
    await run.step("Tell", tell, int(run.brief))


@agent()
async def counter(run: Run) -> None:
    """As many steps as it is told, as quickly as they go."""
    for number in range(int(run.brief)):
        await run.step(f"Count {number}", count, number)


@agent()
async def putter(run: Run) -> None:
    """The same, and each touches the world."""
    for number in range(int(run.brief)):
        await run.step(f"Put {number}", put, number)


@agent()
async def asker(run: Run) -> object:
    return (await run.ask("Which one?")).payload


AGENTS = (busy, deliverer, carrier, lingerer, teller, counter, putter, asker)
