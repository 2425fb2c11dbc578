"""Drives an agent that converses, until it is killed or all is done: ``python deep.py FOLDER``.

Each run waits in its second step for a file named like its brief. What it does to the world is a
line in a ledger, under its idempotency key.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import anyio

from midflight import Run, agent, tool
from midflight.control import local

FOLDER = Path(sys.argv[1])


@tool(effect="write", name="deep.note")
async def note(text: str, idempotency_key: str = "") -> str:
    with (FOLDER / "ledger").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{idempotency_key} {text}\n")
    return text


@tool(effect="read", name="deep.wait")
async def wait(text: str) -> str:
    (FOLDER / f"begun {text}").touch()
    while not (FOLDER / "go").exists():  # noqa: ASYNC110 - there is no event to wait for
        await anyio.sleep(0.01)
    return text


@agent("deep", converses=True, triage_after=0.05)
async def deep(run: Run) -> list[str]:
    """Two lines in the ledger, and a wait in between."""
    await run.step("Begin", note, f"{run.brief} begun")
    await run.step("Wait", wait, run.brief)
    await run.step("End", note, f"{run.brief} done")
    return [run.brief, *(message.text for message in await run.inbox())]


async def main() -> None:
    async with local(FOLDER / "journals.db", deep, workdir=FOLDER / "work") as control:
        first = await control.start(deep, "A", key="A")
        (FOLDER / "thread").write_text((await control.state(first)).thread, encoding="utf-8")
        await control.ended(first)


if __name__ == "__main__":
    asyncio.run(main())
