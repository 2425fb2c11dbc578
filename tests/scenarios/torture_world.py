"""The world of the cancel torture: tools of every kind, which tell the ledger what they do.

The first line of each tool tells *begin*; where it touches the world it tells *acted*, and its undo
tells *undone*. How long it takes depends on its key, so that cancels fall into every part of it.
A new kind of work is a tool and an entry in ``KINDS``; a task may also be given to a child.
"""

from __future__ import annotations

import asyncio
import os
import time
import zlib
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import anyio
import msgspec
from msgspec import Struct

from midflight.agents import agent
from midflight.run import Run
from midflight.tools.declaration import Done, NotDone, Tool, tool
from midflight.tools.options import EffectRecord
from scenarios.ledger import SOCKET, Ledger


@cache
def ledger() -> Ledger:
    return Ledger(os.environ[SOCKET])


def _marker(what: str, key: str) -> Path:
    """What the provider knows is in files: all processes have the same one."""
    folder = Path(os.environ[SOCKET]).parent / "provider"
    folder.mkdir(exist_ok=True)
    return folder / f"{what} {sha256(key.encode()).hexdigest()}"


def act(key: str) -> None:
    """Touch the world, each time that it is called."""
    _marker("there", key).touch()
    ledger().tell("acted", key)


def act_once_for(key: str) -> None:
    """Touch the world, unless this key has been seen, whatever has become of it since."""
    try:
        _marker("seen", key).touch(exist_ok=False)
    except FileExistsError:
        return
    act(key)


def seconds(key: str, part: int) -> float:
    return zlib.crc32(f"{part} {key}".encode()) % 40 / 10_000


async def take_back(about: EffectRecord) -> None:
    await asyncio.sleep(seconds(about.key, 3) / 4)
    _marker("there", about.key).unlink(missing_ok=True)
    ledger().tell("undone", about.key)


async def cannot_take_back(about: EffectRecord) -> None:
    raise OSError("the provider is down")


async def ask_the_provider(about: EffectRecord) -> object:
    return Done("found") if _marker("there", about.key).exists() else NotDone()


async def work(key: str) -> str:
    ledger().tell("begin", key)
    await asyncio.sleep(seconds(key, 1))
    act(key)
    await asyncio.sleep(seconds(key, 2))
    return key


@tool(effect="read")
async def look(idempotency_key: str = "") -> str:
    ledger().tell("read", idempotency_key)
    await asyncio.sleep(seconds(idempotency_key, 1))
    return "seen"


@tool(effect="read")
async def linger(idempotency_key: str = "") -> None:
    ledger().tell("read", idempotency_key)
    await anyio.sleep_forever()


@tool(effect="once", undo=take_back)
async def create(idempotency_key: str = "") -> str:
    return await work(idempotency_key)


@tool(effect="once")
async def order(idempotency_key: str = "") -> str:
    return await work(idempotency_key)


@tool(effect="once", undo=take_back, check=ask_the_provider, settles_within=0)
async def book(idempotency_key: str = "") -> str:
    return await work(idempotency_key)


@tool(effect="once", undo=cannot_take_back)
async def glue(idempotency_key: str = "") -> str:
    return await work(idempotency_key)


@tool(effect="once", undo=take_back, always_undo=True)
async def lock(idempotency_key: str = "") -> str:
    return await work(idempotency_key)


@tool(effect="once", irreversible=True, approval=False)
async def pay(idempotency_key: str = "") -> str:
    return await work(idempotency_key)


@tool(effect="once", irreversible=True, approval=False, undo_window=0.004)
async def send(idempotency_key: str = "") -> str:
    return await work(idempotency_key)


@tool(effect="once", undo=take_back)
async def careful(idempotency_key: str = "") -> str:
    """Knows that nothing has happened when it is ended before it acted."""
    ledger().tell("begin", idempotency_key)
    try:
        await asyncio.sleep(seconds(idempotency_key, 1) * 2)
    except asyncio.CancelledError:
        raise NotDone from None
    act(idempotency_key)
    return idempotency_key


_tries: dict[str, int] = {}


@tool(effect="write", undo=take_back, retry=3)
async def upsert(idempotency_key: str = "") -> str:
    """Fails at first, before or after it has done it, and is tried again under its key."""
    ledger().tell("begin", idempotency_key)
    _tries[idempotency_key] = _tries.get(idempotency_key, 0) + 1
    await asyncio.sleep(seconds(idempotency_key, 1) / 2)
    chance = zlib.crc32(idempotency_key.encode()) % 8
    if _tries[idempotency_key] == 1 and chance == 0:
        raise ConnectionError("reset by peer")
    act_once_for(idempotency_key)
    await asyncio.sleep(seconds(idempotency_key, 2) / 2)
    if _tries[idempotency_key] == 1 and chance == 1:
        raise ConnectionError("reset by peer")
    return idempotency_key


@tool(effect="once", undo=take_back)
def engrave(idempotency_key: str = "") -> str:
    """In a thread: cannot be ended, and is waited for."""
    ledger().tell("begin", idempotency_key)
    time.sleep(seconds(idempotency_key, 1) * 2)
    act(idempotency_key)
    time.sleep(seconds(idempotency_key, 2))
    return idempotency_key


@tool(effect="once", undo=take_back, runs="process")
def convert(idempotency_key: str = "") -> str:
    ledger().tell("begin", idempotency_key)
    time.sleep(seconds(idempotency_key, 1) * 2)
    act(idempotency_key)
    time.sleep(seconds(idempotency_key, 2) * 5)
    return idempotency_key


class Kind(Struct, frozen=True):
    """What may truthfully be said of a tool's effects when a cancel has ended it."""

    tool: Tool
    doubt: bool = True  # ended half-way, nobody knows how far it came
    process: bool = False


KINDS = {
    "create": Kind(create),
    "order": Kind(order),
    "book": Kind(book, doubt=False),
    "glue": Kind(glue),
    "lock": Kind(lock),
    "pay": Kind(pay, doubt=False),
    "send": Kind(send, doubt=False),
    "careful": Kind(careful, doubt=False),
    "upsert": Kind(upsert),
    "engrave": Kind(engrave, doubt=False),
    "convert": Kind(convert, process=True),
}


class Task(Struct, frozen=True):
    """What a run does: one thing after the other, the parts of each side by side.

    A part is the name of a kind, or a task for a child. ``lingers``: it does not end by itself.
    ``awaited``: whoever gives it to a child waits for its end.
    """

    does: Sequence[Sequence[str | Task]]
    lingers: bool = True
    awaited: bool = False


@agent()
async def clerk(run: Run) -> None:
    task = msgspec.convert(run.input, Task)
    for number, parts in enumerate(task.does):
        async with anyio.create_task_group() as together:
            for part, what in enumerate(parts):
                together.start_soon(do, run, f"{number}.{part}", what)
    if task.lingers:
        await run.step("linger", linger)


async def do(run: Run, place: str, what: str | Task) -> None:
    if isinstance(what, str):
        await run.step(f"{what} {place}", look if what == "look" else KINDS[what].tool)
        return
    child = await run.spawn(clerk, place, input=msgspec.to_builtins(what))
    if what.awaited:
        await child.result()
