"""The same agent in both modes: it hears a pause between steps, or in the middle of one.

With ``mode="boundary"`` a run looks for requests between steps. With ``"immediate"`` (the default)
it hears them while a step runs, and ends a read or a model call there and then.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import midflight
from midflight import Agent, Client, Run, agent, tool

STEP_S = 0.5


@tool(effect="read")
async def think(about: str) -> str:
    """Take a while, and do nothing to the world."""
    await asyncio.sleep(STEP_S)
    return f"thought about {about}"


async def thinker(run: Run) -> list[str]:
    """Think three times. The two declarations below say when a run hears a pause."""
    return [await run.step(f"Think about {what}", think, what) for what in ("one", "two", "three")]


between_steps = agent("between steps", mode="boundary")(thinker)
at_once = agent("at once", mode="immediate")(thinker)


async def pause_in_the_middle(client: Client, thinking: Agent[list[str]]) -> float:
    """Return the seconds from the press to the hold."""
    run = await client.start(thinking, "think")
    await run.until(lambda state: state.entered)
    await asyncio.sleep(STEP_S / 5)
    pressed = time.perf_counter()
    await run.pause()
    await run.wait_paused()
    took = time.perf_counter() - pressed
    await run.resume()
    assert len(await run.result()) == 3  # a step that was ended is done again, and no other
    return took


async def main() -> None:
    """Press pause a fifth into a step, in each mode."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "midflight.db"
        agents = [between_steps, at_once]
        async with midflight.open(path, agents=agents, workdir=folder) as client:
            for thinking in agents:
                took = await pause_in_the_middle(client, thinking)
                print(f"{thinking.name:14} held after {took * 1000:5.0f} ms")


if __name__ == "__main__":
    asyncio.run(main())
