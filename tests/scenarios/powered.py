"""A process that drives runs of every kind at once until its power is cut.

    python powered.py FOLDER

It says in ``FOLDER/said`` everything that it knows, as soon as it knows it, one line each: every
record that the store has acknowledged, every request of a person that was accepted, and every
effect on the world, just before the effect. Its store is ``FOLDER/disk/journals.db``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import msgspec
from typing_extensions import override

from midflight.agents import agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.errors import Refused
from midflight.journal.record import Recorded
from midflight.run import Run
from midflight.stores.protocol import Append, Committed, Submit
from midflight.stores.sqlite import SqliteStore, sqlite_file
from midflight.tools.declaration import tool
from midflight.tools.options import EffectRecord

LOG_PAGES = 150  # the log goes round several times, and not once in 16 MB
LARGE = 70_000  # apart from its event
Say = Callable[..., None]


class Known(msgspec.Struct, frozen=True):
    """One line that the process says: ``kind`` is record, effect or the name of a verb."""

    kind: str
    about: str  # a journal, or the key of an effect
    position: int = 0
    what: str = ""  # a digest, or how often the effect may be done


class World:
    """Where effects go: out of the process, and not back when its power is cut."""

    def __init__(self) -> None:
        self.effects: list[Known] = []
        self.say: Callable[[Known], None] = self.effects.append
        self.goes_on = anyio.Event()

    def act(self, key: str, effect: str) -> None:
        self.say(Known("effect", key, what=effect))


world = World()


def digest(record: Recorded) -> str:
    """What is to be the same again of a record: all of it."""
    told = type(record.event).__name__, record.at, record.event
    return sha256(msgspec.json.encode(told)).hexdigest()


class Saying(SqliteStore):
    """Says what it has acknowledged."""

    @override
    async def append(self, decision: Append) -> Committed:
        return self._said(await super().append(decision))

    @override
    async def submit(self, request: Submit) -> Committed:
        return self._said(await super().submit(request))

    def _said(self, done: Committed) -> Committed:
        for record in done.records:
            world.say(Known("record", record.journal, record.position, digest(record)))
        return done


# ── tools and agents ─────────────────────────────────────────────────────────────────────────


async def unwrite(performed: EffectRecord) -> None:
    """Take back what was written."""
    world.act(f"undo {performed.key}", "undo")


@tool(effect="write", undo=unwrite)
async def write(number: int, idempotency_key: str = "") -> int:
    world.act(idempotency_key, "write")
    return number


@tool(effect="write", undo=unwrite)
async def write_much(number: int, idempotency_key: str = "") -> str:
    world.act(idempotency_key, "write")
    return f"{number} " * LARGE


@tool(effect="once")
async def order(number: int, idempotency_key: str = "") -> int:
    """Nobody can find out whether it has happened: a person is asked."""
    world.act(idempotency_key, "once")
    return number


@tool(effect="read")
async def look(number: int) -> str:
    return f"{number:0{LARGE if number % 4 == 0 else 4}}"


@tool(effect="read")
async def linger() -> None:
    """Take until the power is back."""
    await world.goes_on.wait()


@agent()
async def clerk(run: Run) -> int:
    """Do as many rounds as the brief says."""
    total = 0
    for number in range(int(run.brief)):
        total += await run.step("Write", write, 10 * number)
        total += await run.step("Write more", write, 10 * number + 1)
        await run.step("Look", look, number)
        if number % 2:
            total += await run.step("Order", order, number)
        if number % 5 == 2:
            total += len(await run.step("Write much", write_much, number))
        await run.inbox()
    await run.say(f"{total} done.")
    return total


@agent()
async def builder(run: Run) -> None:
    """Do what can be undone, and linger, to be cancelled or paused."""
    for number in range(4):
        await run.step("Write", write, number)
    await run.step("Order", order, 1)
    await run.step("Write much", write_much, 1)
    await run.step("Linger", linger)
    await run.step("Write", write, 5)


AGENTS = (clerk, builder)


# ── people ───────────────────────────────────────────────────────────────────────────────────


class Person:
    """Presses buttons, and says which of them were acknowledged."""

    def __init__(self, control: Control) -> None:
        self.control = control

    async def start(self, name: str, brief: str, thread: str = "") -> str:
        run = await self.control.start(name, brief, thread=thread)
        world.say(Known("start", run, 1))
        return run

    async def press(self, verb: str, run: str, *more: Any) -> None:
        """Press a button of a run that may end meanwhile."""
        try:
            ack = await getattr(self.control, verb)(run, *more)
        except Refused:
            return
        world.say(Known(verb, run, ack.position))

    async def lingers(self, run: str) -> None:
        await self.control.until(run, lambda state: state.spent.steps >= 6)

    async def cancels_a_builder(self) -> None:
        run = await self.start(builder.name, "build")
        await self.lingers(run)
        await self.press("cancel", run)
        await self.control.ended(run)

    async def pauses_a_builder(self) -> None:
        run = await self.start(builder.name, "build")
        await self.lingers(run)
        await self.press("pause", run)
        await self.control.until(run, lambda state: state.phase == "paused")

    async def talks_to_a_clerk(self, rounds: int) -> None:
        run = await self.start(clerk.name, str(rounds), "t-talk")
        for number in range(6):
            await self.press("send", "t-talk", f"number {number} of what I have to say")
            await self.press("pause", run)
            await self.press("resume", run)
        await self.control.ended(run)

    async def waits_for_a_clerk(self, rounds: int) -> None:
        await self.control.ended(await self.start(clerk.name, str(rounds)))

    async def redirects_a_builder(self) -> None:
        run = await self.start(builder.name, "build")
        await self.lingers(run)
        await self.press("redirect", run, "build otherwise")
        await self.control.until(run, lambda state: state.brief == "build otherwise")
        await self.press("cancel", run)


async def live(folder: Path, *, last: bool) -> None:
    """Drive some runs, one alone and then many at once; the last life never ends by itself."""
    async with (
        Saying.open(folder / "disk" / "journals.db") as store,
        LocalEngine.open(
            store, AGENTS, workdir=folder / "work", sweep_s=0.05, drain_s=0.1
        ) as engine,
    ):
        person = Person(Control(store, engine))
        await person.waits_for_a_clerk(6)
        async with anyio.create_task_group() as group:
            group.start_soon(person.cancels_a_builder)
            group.start_soon(person.pauses_a_builder)
            group.start_soon(person.redirects_a_builder)
            group.start_soon(person.talks_to_a_clerk, 5)
            for rounds in (3, 5):
                group.start_soon(person.waits_for_a_clerk, rounds)
        await person.start(clerk.name, "8")
        await person.start(clerk.name, "8")
        await person.waits_for_a_clerk(2)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)


def say_into(handle: int, known: Known) -> None:
    os.write(handle, msgspec.json.encode(known) + b"\n")


async def main(folder: Path) -> None:
    sqlite_file.LOG_PAGES = LOG_PAGES  # type: ignore[misc]
    said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    world.say = partial(say_into, said)
    await live(folder, last=False)
    await live(folder, last=True)


if __name__ == "__main__":
    arguments: Sequence[str] = sys.argv[1:]
    asyncio.run(main(Path(arguments[0])))
