"""Agents that ``midflight serve`` is given in tests."""

from __future__ import annotations

import anyio

from midflight.agents import agent
from midflight.run import Run
from midflight.tools.declaration import tool
from midflight.tools.progress import emit


async def write_slowly(words: int) -> str:
    for number in range(words):
        emit(f"{number} ")
        await anyio.sleep(0.05)
    return "written"


async def file_it(what: str) -> str:
    await anyio.sleep(0.3)
    return f"filed {what}"


write = tool(effect="read", name="clerk.write")(write_slowly)
keep = tool(effect="write", name="clerk.file", label="note")(file_it)


@agent()
async def clerk(run: Run) -> str:
    await run.step("File", keep, "a note")
    written: str = await run.step("Write", write, int(run.brief))
    return written
