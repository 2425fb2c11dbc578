"""An assistant with real tools that you can talk to while it works. Offline: the demo model.

With a key of your own: ``python examples/assisted.py anthropic:MODEL`` (or ``openai:MODEL``).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from midflight import local
from midflight.assistant import Profile, assistant
from midflight.models.opening import open_model
from midflight.tools.files import Workspace


def names(folder: Path) -> list[str]:
    """What is in the folder now."""
    return sorted(path.name for path in folder.iterdir() if path.is_file())


async def main(address: str = "demo") -> None:
    """Ask for a note, say something in the middle of it, and look at the conversation."""
    folder = Path(tempfile.mkdtemp())
    (folder / "shop.txt").write_text("tea 3\ncups 5\n", encoding="utf-8")
    helper = assistant("helper", Profile(open_model(address), Workspace(folder).tools))

    async with local("memory:", helper, workdir=folder / "work") as control:
        run = await control.start(helper, "List the files, then write a note about them")
        await asyncio.sleep(0.5)
        answer = await control.send(run, "How is it going?")
        print("It is", answer.status)
        while (state := await control.state(run)).alive:
            if state.questions:  # a tool that needs consent, for example
                question = next(iter(state.questions.values()))
                print("Asked:", question.message)
                await control.answer(run, question.position, "approve")
            await asyncio.sleep(0.05)
        for line in await control.transcript(state.thread):
            if line.text:
                print(f"{line.by or 'agent'}: {line.text}")
        print("Files:", *names(folder))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
