"""Drives an assistant until it is killed or done: ``python mortal.py FOLDER``.

Its model wants one batch: a note, a look that waits for a file, another note. Every note is a line
in a ledger, and every prompt a line in a file.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import anyio

from midflight import tool
from midflight.assistant import Profile, assistant
from midflight.control import local
from midflight.models.model import Prompt
from midflight.models.scripted import Line, ScriptedModel, call_all, say

FOLDER = Path(sys.argv[1])


def add_line(name: str, text: str) -> None:
    with (FOLDER / name).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


@tool(effect="once", name="mortal.note")
async def note(text: str) -> str:
    """Note something."""
    add_line("ledger", text)
    return f"noted {text}"


@tool(effect="read", name="mortal.look")
async def look() -> str:
    """Look, for as long as it takes."""
    (FOLDER / "begun").touch()
    while not (FOLDER / "go").exists():  # noqa: ASYNC110 - another process
        await anyio.sleep(0.01)
    return "seen"


def script(prompt: Prompt) -> Line:
    results = [turn.text for turn in prompt.turns if turn.role == "tool"]
    add_line("asked", repr(results))
    if results:
        return say(", ".join(results))
    first, second = ("mortal_note", {"text": "first"}), ("mortal_note", {"text": "second"})
    return call_all(first, ("mortal_look", {}), second)


async def main() -> None:
    works = assistant("mortal", Profile(ScriptedModel(script), [note, look]))
    async with local(FOLDER / "journals.db", works, workdir=FOLDER / "work") as control:
        run = await control.start(works, "Work", key="the one")
        result = await control.result(run)
        (FOLDER / "result").write_text(result, encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
