"""A program whose tool, undo or check would never end; its block is to end all the same."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading

import anyio

from midflight.agents import agent
from midflight.control import local
from midflight.run import Run
from midflight.tools.declaration import Tool, tool
from midflight.tools.options import EffectRecord

BEGUN = threading.Event()


async def deaf() -> None:
    BEGUN.set()
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


def blocked() -> None:
    BEGUN.set()
    threading.Event().wait()


async def deaf_helper(_: EffectRecord) -> None:
    await deaf()


def blocked_helper(_: EffectRecord) -> None:
    blocked()


async def nothing() -> None: ...


async def fails() -> None:
    raise ConnectionError("reset by peer")


async def main(kind: str, path: str) -> None:
    tools: dict[str, Tool] = {
        "deaf tool": tool(name="left.deaf")(deaf),
        "blocked tool": tool(name="left.blocked")(blocked),
        "deaf undo": tool(name="left.undo", undo=deaf_helper)(nothing),
        "blocked undo": tool(name="left.blocked-undo", undo=blocked_helper)(nothing),
        "deaf check": tool(name="left.check", check=deaf_helper)(fails),
        "blocked check": tool(name="left.blocked-check", check=blocked_helper)(fails),
    }
    declared = tools[kind]

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make", declared)
        await run.ask("Go on?")

    async with local(path, clerk, workdir=f"{path}.work", drain_s=0.1) as control:
        run = await control.start(clerk, "work")
        if "undo" in kind:
            await control.until(run, lambda state: bool(state.questions))
            await control.cancel(run)
        await anyio.to_thread.run_sync(BEGUN.wait)
    sys.stdout.write("left\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    sys.stdout.write("ended\n")
