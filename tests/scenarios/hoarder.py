"""A program that has very many paused runs, and says what they cost it.

    python hoarder.py FOLDER evict COUNT     start so many, pause them all, let them go
    python hoarder.py FOLDER open            open the store in which they are

Each says, as JSON on one line, how much memory it held before and after, in bytes, and what some of
the runs returned when they were resumed.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import re
import sys
from pathlib import Path

import anyio
import msgspec

from midflight.agents import Agent, agent
from midflight.control import Control, local
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.stores.protocol import Query
from midflight.tools.declaration import tool

FOLDER = Path(sys.argv[1])
FOLDER.mkdir(parents=True, exist_ok=True)
AT_ONCE = 500
ALL = 1_000_000
gc.set_threshold(100_000, 20, 100)  # or half the time goes into looking at what is still in use
going_on = asyncio.Event()
expected: set[int] = set()
all_begun = asyncio.Event()


@tool(effect="read", stall=600)  # on a slow machine ten thousand would be said to stall
async def count_up(number: int) -> int:
    """Hangs until the story has come to its second half."""
    expected.discard(number)
    if not expected:
        all_begun.set()
    await going_on.wait()
    return number + 1


@agent(name="patient")
async def patient(run: Run) -> int:
    return int(await run.step("Count", count_up, run.input))


quickly_let_go = Agent(patient.name, patient.function, evict_after=0.05)


def memory() -> int:
    """Return how many bytes of memory this process holds, without what it has freed.

    Only anonymous memory counts: how many pages of a library are private depends on which other
    processes run. The test sets ``PYTHONMALLOC=malloc``, because Python's own allocator gives
    memory back by the megabyte, and one object keeps a megabyte from being given back.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    text = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    (kilobytes,) = re.findall(r"^Anonymous:\s+(\d+) kB", text, re.MULTILINE)
    return 1024 * int(kilobytes)


async def resume_some(control: Control, runs: list[str]) -> list[object]:
    going_on.set()
    for run in runs:
        await control.resume(run)
    return [await control.result(run) for run in runs]


async def start(control: Control, count: int) -> None:
    """Start so many, and wait until each hangs in its step."""
    all_begun.clear()
    expected.update(range(count))

    async def some(first: int) -> None:
        for number in range(first, count, AT_ONCE):
            await control.start(quickly_let_go, "wait", input=number)

    async with anyio.create_task_group() as tasks:
        for first in range(min(AT_ONCE, count)):
            tasks.start_soon(some, first)
    await all_begun.wait()


async def pause_all(control: Control) -> None:
    """Pause whatever runs, and wait until no function is in memory any more."""
    while rows := await control.runs(Query(phases=(Phase.RUNNING,), limit=AT_ONCE)):
        async with anyio.create_task_group() as tasks:
            for row in rows:
                tasks.start_soon(control.pause, row.journal)
    while any(row.driver for row in await control.runs(Query(limit=ALL))):  # noqa: ASYNC110 - of all
        await anyio.sleep(0.5)


async def evict(control: Control, count: int) -> dict[str, object]:
    await start(control, 20)  # what is made once, at the first run, is none of theirs
    await pause_all(control)
    before = memory()
    await start(control, count)
    live = memory()
    await pause_all(control)
    await anyio.sleep(3)  # the list of them all that was just looked at is none of theirs either
    after = memory()
    results = await resume_some(control, await some_paused(control))
    return {"before": before, "live": live, "after": after, "results": results}


async def some_paused(control: Control) -> list[str]:
    rows = await control.runs(Query(phases=(Phase.PAUSED,), limit=ALL))
    return [row.journal for row in rows[:: max(1, len(rows) // 4)]]


async def look(before: int) -> dict[str, object]:
    async with local(FOLDER / "journals.db", quickly_let_go, workdir=FOLDER / "work") as control:
        await anyio.sleep(2.5)  # the engine has swept the whole store, and once more
        after = memory()
        paused = len(await control.runs(Query(phases=(Phase.PAUSED,), limit=ALL)))
        results = await resume_some(control, await some_paused(control))
        return {"before": before, "after": after, "paused": paused, "results": results}


async def main(what: str, count: int = 0) -> None:
    if what == "open":
        told = await look(memory())
    else:
        async with local(
            FOLDER / "journals.db", quickly_let_go, workdir=FOLDER / "work"
        ) as control:
            told = await evict(control, count)
    sys.stdout.write(msgspec.json.encode(told).decode() + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[2], *map(int, sys.argv[3:])))
