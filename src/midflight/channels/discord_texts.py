"""A message of Discord as a text for an agent: its words, and the files beside it that are text."""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

import aiohttp
import anyio
import discord

from midflight.channels.shapes import Heard
from midflight.channels.switchboard import Switchboard
from midflight.kernel.record import Actor

FILE_BYTES_MAX: Final = 64 * 1024
FETCH_S: Final = 10.0
TEXT_KINDS: Final = re.compile(r"text/|application/(json|xml|yaml|toml|x-yaml|x-ndjson|javascript)")


class Bot(Protocol):
    """Our client of Discord, as far as its parts know it."""

    board: Switchboard
    _connection: Any

    @property
    def user(self) -> discord.ClientUser | None:
        """Our own user, once we are known."""

    def is_closed(self) -> bool:
        """Return whether the connection was closed for good."""

    def get_channel(self, channel_id: int, /) -> Any:
        """Return a channel that is known already."""

    async def fetch_channel(self, channel_id: int, /) -> Any:
        """Look a channel up."""

    def who(self, user: discord.abc.User, chat: str) -> Actor | None:
        """Return the person behind a user, with their role; None for a stranger."""

    async def on_message(self, message: discord.Message) -> None:
        """Take a message that somebody has written, if it is for us."""


async def heard_from(message: discord.Message, us: int) -> Heard:
    """Return the words of a message, without the mention of us, and of the files beside it."""
    words = re.sub(rf"<@!?{us}>", "", message.content).strip()
    parts, notes = [words] if words else [], []
    for attachment in message.attachments:
        text, why_not = await _text_of(attachment)
        if why_not:
            notes.append(f"{attachment.filename} was not read: {why_not}.")
        else:
            parts.append(f"[{attachment.filename}]\n{text}")
    if parts and notes:  # or the agent would not know that there was more
        parts += [f"[{note}]" for note in notes]
    return Heard(str(message.id), "\n\n".join(parts), tuple(notes))


async def _text_of(attachment: discord.Attachment) -> tuple[str, str]:
    kind = attachment.content_type or "an unknown kind"
    if not TEXT_KINDS.match(kind):
        return "", f"it is {kind}, and I read text only"
    if attachment.size > FILE_BYTES_MAX:
        return "", f"it has {attachment.size:,} bytes, and I read {FILE_BYTES_MAX:,} at most"
    try:
        with anyio.fail_after(FETCH_S):
            data = await attachment.read()
    except (TimeoutError, discord.DiscordException, aiohttp.ClientError, OSError) as error:
        return "", f"Discord did not give it ({type(error).__name__}); send it again"
    try:
        return data.decode(), ""
    except UnicodeDecodeError:
        return "", "it is not UTF-8"
