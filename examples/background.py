"""Background work: the main run hands heavy tasks to others, and stays free to talk.

A pause holds them all, a cancel stops and undoes them all, and no child can spend more than its
share.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from midflight import Limits, Run, agent, local, tool


@tool(effect="read")
async def look_up(topic: str) -> str:
    """Heavy work."""
    await asyncio.sleep(0.8)
    return f"three facts about {topic}"


@agent()
async def researcher(run: Run) -> str:
    """A background run is a run like any other."""
    return str(await run.step("Look it up", look_up, run.brief))


@agent(limits=Limits(steps=20))
async def editor(run: Run) -> list[str]:
    """Starts three at once, answers what people write meanwhile, and collects the results."""
    topics = ["tides", "bees", "glass"]
    children = [await run.spawn(researcher, topic, limits=Limits(steps=5)) for topic in topics]
    found = []
    for child in children:
        found.append(await child.result())
        for message in (m for m in await run.inbox() if m.role != "background"):
            await run.say(f"You wrote {message.text!r}. {len(found)} of {len(topics)} are done.")
    return found


async def main() -> None:
    """Write to it while it works."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "midflight.db"
        async with local(path, editor, researcher, workdir=folder) as control:
            run = await control.start(editor, "Three articles")
            await control.until(run, lambda state: len(state.children) == 3)
            sent = await control.send(run, "How is it going?")
            print(await control.result(run))
            for record in await control.store.read(sent.run):
                event = record.event
                print("  ", type(event).__name__, getattr(event, "text", ""))


if __name__ == "__main__":
    asyncio.run(main())
