"""Agents for the commands to work with: one of each kind that people meet."""

from __future__ import annotations

import anyio

from midflight.run import Run, agent
from midflight.tools.base import Performed, tool
from midflight.tools.progress import emit


async def look_for(seconds: float, about: str) -> str:
    for _ in range(int(seconds * 20)):
        emit(f"{about} ")
        await anyio.sleep(0.05)
    return about


async def file_away(what: str) -> str:
    return f"filed {what}"


async def take_back(performed: Performed) -> None:
    pass


look = tool(effect="read", name="staff.look")(look_for)
file = tool(effect="write", name="staff.file", noun="note", undo=take_back)(file_away)


@agent()
async def porter(run: Run) -> str:
    """Files something, then looks about for as long as its input says."""
    await run.plan("File", "Look", "Close")
    await run.step("File", file, run.brief)
    await run.step("Look", look, float((run.input or {}).get("seconds", 30)), run.brief)
    closed: str = await run.step("Close", look, 0.0, run.brief)
    return f"closed {closed}"


@agent()
async def asker(run: Run) -> str:
    """Asks before it does anything."""
    answer = await run.ask(
        "Which colour?", schema={"enum": ["red", "green"], "x-labels": {"red": "As before"}}
    )
    return f"{answer.payload} by {answer.by}"


@agent(converses=True)
async def host(run: Run) -> str:
    """Talks."""
    await run.inbox()
    await run.step("Look", look, 30.0, run.brief)
    return "talked"


@agent()
async def broken(run: Run) -> None:
    """Fails."""
    raise RuntimeError("the roof is off")
