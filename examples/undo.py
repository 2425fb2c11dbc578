"""Undo: by a cancel, newest first, or later, when the run has long ended.

What was changed by somebody else meanwhile is left alone, and the receipt says so.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from midflight import ChangedSince, Control, Performed, Run, agent, local, tool


def remove_draft(written: Performed) -> None:
    """Take a draft away, unless somebody has worked on it."""
    path = Path(written.args[0])
    if path.read_text(encoding="utf-8") != written.args[1]:
        raise ChangedSince(f"{path.name} was edited")
    path.unlink()


@tool(effect="once", noun="draft", undo=remove_draft)
def write_draft(path: str, text: str) -> str:
    """An effect that can be undone."""
    Path(path).write_text(text, encoding="utf-8")
    return path


@tool(effect="once", noun="announcement")
async def announce(text: str) -> str:
    """An effect that cannot."""
    return f"announced: {text}"


@agent()
async def writer(run: Run) -> str:
    """Two drafts and an announcement."""
    for name in ("summary", "details"):
        await run.step(f"Write {name}", write_draft, str(run.workdir / name), f"The {name}.")
    return str(await run.step("Announce", announce, "two drafts"))


async def show(control: Control, run: str) -> None:
    """The receipt accounts for every effect."""
    for line in (await control.receipt(run)).lines:
        print("  ", line.text)


async def main() -> None:
    """The run ends, somebody edits a draft, and then it is all to be undone."""
    with tempfile.TemporaryDirectory() as folder:
        async with local(Path(folder) / "midflight.db", writer, workdir=folder) as control:
            run = await control.start(writer, "write")
            print(await control.result(run))
            print("undo would say:", (await control.preview(run))["undo"].consequence)
            (Path(folder) / run / "summary").write_text("The summary, improved by Ann.")
            await control.undo(run)
            await control.until(run, lambda state: not (state.undo_wanted or state.undos))
            await show(control, run)
            print("left:", sorted(path.name for path in (Path(folder) / run).iterdir()))


if __name__ == "__main__":
    asyncio.run(main())
