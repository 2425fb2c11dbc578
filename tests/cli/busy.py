"""An agent that does one thing after the other, and notes each in a file."""

from __future__ import annotations

import asyncio
import os

from midflight import Run, agent, tool


@tool(effect="once")
async def note(path: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, b"done\n")
    os.close(handle)
    await asyncio.sleep(0.02)


@agent()
async def busy(run: Run) -> None:
    for number in range(10_000):
        await run.step(f"Note {number}", note, run.brief)
