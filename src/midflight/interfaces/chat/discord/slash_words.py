"""The slash commands of Discord."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import discord
from discord import app_commands

from midflight.control.verbs import VERBS
from midflight.interfaces.chat.discord.interactions import Presses

PLAIN = {
    "status": "What it is doing, and how far it is",
    **{verb: VERBS[verb].help for verb in ("pause", "resume", "cancel")},
    "todos": "What is still to be done",
}


def commands_for(presses: Presses) -> Iterator[app_commands.Command[Any, Any, Any]]:
    """Yield all slash commands, for a command tree."""
    for name, words in PLAIN.items():
        yield app_commands.Command(name=name, description=words, callback=_plain(presses, name))

    @app_commands.command(description=VERBS["redirect"].help)
    async def redirect(interaction: discord.Interaction, text: str) -> None:
        await presses.take(interaction, f"/redirect {text}", {})

    @app_commands.command(description=VERBS["ask_aside"].help)
    async def aside(interaction: discord.Interaction, question: str) -> None:
        await presses.take(interaction, f"/aside {question}", {})

    @app_commands.command(description=VERBS["kill"].help)
    @app_commands.describe(scope="all, agent:NAME or thread:ID; this conversation if left out")
    async def kill(interaction: discord.Interaction, scope: str = "", reason: str = "") -> None:
        await presses.take(interaction, f"/kill {scope or '-'} {reason}", {})

    @app_commands.command(description=VERBS["release"].help)
    @app_commands.describe(scope="all, agent:NAME or thread:ID; this conversation if left out")
    async def release(interaction: discord.Interaction, scope: str = "") -> None:
        await presses.take(interaction, f"/release {scope or '-'}", {})

    @app_commands.command(name="continue", description="Go on here with a thread begun elsewhere")
    async def go_on(interaction: discord.Interaction, thread: str) -> None:
        await presses.join(interaction, thread.strip())

    yield from (redirect, aside, kill, release, go_on)


def _plain(presses: Presses, name: str) -> Any:
    async def callback(interaction: discord.Interaction) -> None:
        await presses.take(interaction, f"/{name}", {})

    return callback
