"""Background work: the main run hands heavy tasks to background runs, and stays free to talk.

A pause holds them all, a cancel stops and undoes them all, and no background run can spend more
than its share.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import midflight
from midflight import Limits, Run, agent, tool


@tool(effect="read")
async def look_up(topic: str) -> str:
    """Do heavy work."""
    await asyncio.sleep(0.8)
    return f"three facts about {topic}"


@agent
async def researcher(run: Run) -> str:
    """Look one topic up. A background run is a run like any other."""
    return await run.step("Look it up", look_up, run.brief)


@agent(limits=Limits(steps=20))
async def editor(run: Run) -> list[str]:
    """Start three runs at once, answer messages meanwhile, and collect the results."""
    topics = ["tides", "bees", "glass"]
    children = [await run.spawn(researcher, topic, limits=Limits(steps=5)) for topic in topics]
    found = []
    for child in children:
        found.append(await child.result())
        for message in (m for m in await run.inbox() if m.role != "background"):
            await run.say(f"You wrote {message.text!r}. {len(found)} of {len(topics)} are done.")
    return found


async def main() -> None:
    """Write to the editor while it works."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "midflight.db"
        async with midflight.open(path, agents=[editor, researcher], workdir=folder) as client:
            run = await client.start(editor, "Three articles")
            await run.until(lambda state: len(state.children) == 3)
            await run.send("How is it going?")
            print(await run.result())
            thread = await run.thread()
            for line in await thread.transcript():
                print("  ", line.kind, line.text)


if __name__ == "__main__":
    asyncio.run(main())
