"""Drives one run whose tool is a process that does not end: ``python keeper.py FOLDER [limit]``.

With ``limit`` the tool has ``LIMIT_S``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from midflight import Run, agent, tool
from midflight.control import local

LIMIT_S = 3.0  # in which a busy machine starts Python


@tool(effect="once", runs="process")
def keep_on(note: str) -> None:
    draft = Path(f"{note}.draft")
    draft.write_text(f"{os.getpid()} {os.getppid()}", encoding="utf-8")
    draft.rename(note)
    time.sleep(1000)


@tool(effect="once", runs="process", timeout=LIMIT_S)
def keep_on_shortly(note: str) -> None:
    keep_on(note)


def pids(folder: Path) -> tuple[int, int]:
    """The tool's process and its supervisor's, when they are there."""
    deadline = time.monotonic() + 40
    while not (folder / "pids").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    tool, supervisor = (folder / "pids").read_text(encoding="utf-8").split()
    return int(tool), int(supervisor)


@agent()
async def clerk(run: Run) -> None:
    await run.step("Keep on", keep_on, run.brief)


@agent()
async def hurried_clerk(run: Run) -> None:
    await run.step("Keep on", keep_on_shortly, run.brief)


async def main(folder: Path, limit: str = "") -> None:
    hired = hurried_clerk if limit else clerk
    async with local(folder / "journals.db", hired, workdir=folder / "work") as control:
        await control.ended(await control.start(hired, str(folder / "pids")))


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # the tool is found by the name of its module
    from scenarios.keeper import main as as_module

    asyncio.run(as_module(Path(sys.argv[1]), *sys.argv[2:]))
