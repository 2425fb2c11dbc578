"""A person undoes what a run has done, after the run has ended.

An undo leaves alone what somebody else has changed meanwhile, and the receipt says so.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import midflight
from midflight import ChangedSince, EffectRecord, Run, agent, tool


def remove_draft(written: EffectRecord) -> None:
    """Remove a draft, unless somebody has worked on it."""
    path = Path(written.args[0])
    if path.read_text(encoding="utf-8") != written.args[1]:
        raise ChangedSince(f"{path.name} was edited")
    path.unlink()


@tool(effect="once", label="draft", undo=remove_draft)
def write_draft(path: str, text: str) -> str:
    """Write a draft, which can be undone."""
    Path(path).write_text(text, encoding="utf-8")
    return path


@tool(effect="once", label="announcement")
async def announce(text: str) -> str:
    """Announce something, which cannot be undone."""
    return f"announced: {text}"


@agent
async def writer(run: Run) -> str:
    """Write two drafts and announce them."""
    for name in ("summary", "details"):
        await run.step(f"Write {name}", write_draft, str(run.workdir / name), f"The {name}.")
    return await run.step("Announce", announce, "two drafts")


async def main() -> None:
    """Let the run end, edit a draft as another person would, and undo the run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "midflight.db"
        async with midflight.open(path, agents=[writer], workdir=folder) as client:
            run = await client.start(writer, "write")
            print(await run.result())
            print("undo would say:", (await run.preview())["undo"].consequence)
            drafts = Path(folder) / run.id
            (drafts / "summary").write_text("The summary, improved by Ann.")
            receipt = await run.undo_and_wait()
            for line in receipt.lines:
                print("  ", line.text)
            print("left:", sorted(draft.name for draft in drafts.iterdir()))


if __name__ == "__main__":
    asyncio.run(main())
