"""A process that drives what there is to drive, until its input is closed.

    python sweeper.py ADDRESS FOLDER

Its agent notes in a ledger when it begins and ends something, so that two of them can be compared.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import anyio

from midflight.agents import Agent, agent
from midflight.engines.local_engine import LocalEngine
from midflight.run import Run
from midflight.stores import open_store
from midflight.tools.declaration import tool

AGENT = "sweeper"
LEDGER = "ledger"
WAITS = "wait for"  # a brief that begins so is never done


def note(folder: str, *words: object) -> None:
    line = " ".join(map(str, words)) + "\n"
    with (Path(folder) / LEDGER).open("a", encoding="utf-8") as ledger:
        ledger.write(line)


@tool(effect="once", name="sweeper.do")
async def do(folder: str, what: str) -> None:
    note(folder, "begun", what)
    await anyio.sleep(0.02)
    note(folder, "ended", what)


@tool(effect="read", name="sweeper.wait")
async def wait() -> None:
    await anyio.sleep_forever()


def sweeper(folder: str) -> Agent:
    @agent(AGENT, converses=True, triage_after=0.01)
    async def works(run: Run) -> None:
        if run.brief.startswith(WAITS):
            await run.step("Wait", wait)
        await run.step("Do", do, folder, run.brief)

    return works


async def main() -> None:
    address, folder = sys.argv[1:]
    workdir = Path(folder) / str(os.getpid())
    async with (
        open_store(address) as store,
        LocalEngine.open(store, [sweeper(folder)], workdir=workdir, sweep_s=0.02),
    ):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await anyio.to_thread.run_sync(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
