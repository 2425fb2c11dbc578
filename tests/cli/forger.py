"""An agent through which others write to a screen: all that it shows is what it was told."""

from __future__ import annotations

import anyio

from midflight.agents import agent
from midflight.run import Run
from midflight.tools.declaration import tool
from midflight.tools.progress import emit


async def repeat_aloud(what: str, seconds: float) -> str:
    for _ in range(max(1, int(seconds * 20))):
        emit(f"{what} ")
        await anyio.sleep(0.05)
    return what


async def put_down(what: str) -> str:
    return what


repeat = tool(effect="read", name="forger.repeat")(repeat_aloud)
put = tool(effect="write", name="forger.put", label="note")(put_down)


@agent()
async def parrot(run: Run) -> str:
    """Says, does, asks and gives back its brief, which is in the name of its step, too."""
    wanted = run.input or {}
    await run.say(run.brief)
    await run.step(f"Repeat {run.brief}", repeat, run.brief, float(wanted.get("seconds", 0)))
    await run.step("Put", put, run.brief)
    if wanted.get("asks"):
        schema = {"enum": ["yes", run.brief], "x-labels": {"yes": run.brief}}
        await run.ask(run.brief, schema=schema)
    if wanted.get("fails"):
        raise RuntimeError(run.brief)
    return run.brief
