"""Drives one run and may be told to end: ``python leaver.py FOLDER WHAT DRAIN_S``."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import anyio

from midflight import NotDone, Run, agent, tool
from midflight.control import Control, local
from midflight.tools.declaration import Tool

FOLDER, WHAT, DRAIN_S = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])


def note(name: str) -> None:
    (FOLDER / name).touch()


async def patiently() -> str:
    note("begun")
    while not (FOLDER / "go").exists():  # noqa: ASYNC110 - there is no event to wait for
        await anyio.sleep(0.005)
    return "done"


async def carefully() -> str:
    try:
        return await patiently()
    except asyncio.CancelledError:
        raise NotDone from None


def patiently_in_a_thread() -> str:
    note("begun")
    while not (FOLDER / "go").exists():
        time.sleep(0.005)
    return "done"


TOOLS: dict[str, Tool] = {
    "read": tool(effect="read", name="leaver.read")(patiently),
    "effect": tool(effect="once", name="leaver.effect")(patiently),
    "careful": tool(effect="once", name="leaver.careful")(carefully),
    "thread": tool(effect="once", name="leaver.thread")(patiently_in_a_thread),
    "unasked": tool(effect="read", name="leaver.unasked")(patiently),
}


@agent()
async def clerk(run: Run) -> object:
    await run.step("First", TOOLS[WHAT])
    return await run.step("Second", TOOLS[WHAT])


async def watch_for_questions(control: Control, run: str) -> None:
    await control.until(run, lambda state: bool(state.questions))
    note("asked")


async def main() -> None:
    place, signals = FOLDER / "journals.db", WHAT != "unasked"
    async with (
        local(place, clerk, workdir=FOLDER / "work", drain_s=DRAIN_S, signals=signals) as control,
        anyio.create_task_group() as group,
    ):
        run = await control.start(clerk, "work", key="one")
        group.start_soon(watch_for_questions, control, run)
        await control.result(run)
        group.cancel_scope.cancel()
    note("behind the block")


if __name__ == "__main__":
    asyncio.run(main())
