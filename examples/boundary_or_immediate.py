"""The same agent in both modes: heard between steps, or in the middle of one.

``mode="boundary"`` is the simple main loop that looks for input between steps. ``"immediate"`` (the
default) hears it while a step runs, and ends a read or a model call there and then.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from midflight import Agent, Control, Run, agent, local, tool

STEP_S = 0.5


@tool(effect="read")
async def think(about: str) -> str:
    """Takes a while, and does nothing to the world."""
    await asyncio.sleep(STEP_S)
    return f"thought about {about}"


async def thinker(run: Run) -> list[str]:
    """One function; how it is declared says when it hears."""
    return [await run.step(f"Think about {what}", think, what) for what in ("one", "two", "three")]


between_steps = agent("between steps", mode="boundary")(thinker)
at_once = agent("at once", mode="immediate")(thinker)


async def pause_in_the_middle(control: Control, thinking: Agent) -> float:
    """Seconds from the press to the hold."""
    run = await control.start(thinking, "think")
    await control.until(run, lambda state: state.entered)
    await asyncio.sleep(STEP_S / 5)
    pressed = time.perf_counter()
    await control.applied(await control.pause(run))
    took = time.perf_counter() - pressed
    await control.resume(run)
    assert len(await control.result(run)) == 3  # what was ended was done again, and nothing else
    return took


async def main() -> None:
    """Press pause a fifth into a step, in each mode."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "midflight.db"
        async with local(path, between_steps, at_once, workdir=folder) as control:
            for thinking in (between_steps, at_once):
                took = await pause_in_the_middle(control, thinking)
                print(f"{thinking.name:14} held after {took * 1000:5.0f} ms")


if __name__ == "__main__":
    asyncio.run(main())
