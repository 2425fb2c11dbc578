"""An agent that looks for as long as a file is not there."""

from __future__ import annotations

from pathlib import Path

import anyio

from midflight import tool
from midflight.assistant import Profile, assistant
from midflight.models.model import Prompt
from midflight.models.scripted import Line, ScriptedModel, call, say


@tool(effect="read", name="mortal_bot.look")
async def look() -> str:
    """Look, for as long as it takes."""
    Path("begun").touch()
    while not Path("go").exists():  # noqa: ASYNC110 - another process
        await anyio.sleep(0.01)
    return "seen"


def script(prompt: Prompt) -> Line:
    return say("I have seen it.") if prompt.turns[-1].role == "tool" else call("mortal_bot_look")


works = assistant("mortal-bot", Profile(ScriptedModel(script), [look]))
