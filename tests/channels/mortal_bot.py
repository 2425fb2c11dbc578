"""``midflight discord`` in a process of its own, with Discord's addresses from the environment.

Its agent looks for as long as a file is not there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from midflight import tool
from midflight.assistant import Profile, assistant
from midflight.cli.main import main
from midflight.models.base import Prompt
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

if __name__ == "__main__":
    Route.BASE = os.environ["DISCORD_REST"]
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(os.environ["DISCORD_GATEWAY"])
    sys.exit(main(sys.argv[1:]))
