"""An assistant with real tools that you can talk to while it works. Offline: the demo model.

With a key of your own: ``python examples/assisted.py anthropic:MODEL`` (or ``openai:MODEL``).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import midflight
from midflight.assistant import Profile, assistant
from midflight.models import open_model
from midflight.tools.files import Workspace


def names(folder: Path) -> list[str]:
    """List the files in the folder."""
    return sorted(path.name for path in folder.iterdir() if path.is_file())


async def main(address: str = "demo") -> None:
    """Ask for a note, say something in the middle of it, and look at the conversation."""
    folder = Path(tempfile.mkdtemp())
    (folder / "shop.txt").write_text("tea 3\ncups 5\n", encoding="utf-8")
    helper = assistant("helper", Profile(open_model(address), Workspace(folder).tools))

    async with midflight.open("memory:", agents=[helper], workdir=folder / "work") as client:
        run = await client.start(helper, "List the files, then write a note about them")
        await asyncio.sleep(0.5)
        ack = await run.send("How is it going?")
        print("It is", ack.status)
        while (await run.until(lambda state: bool(state.questions) or not state.alive)).alive:
            for question in await run.questions():  # a tool that needs consent, for example
                print("Asked:", question.message)
                await question.approve()
        thread = await run.thread()
        for line in await thread.transcript():
            if line.text:
                print(f"{line.by or 'agent'}: {line.text}")
        print("Files:", *names(folder))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
