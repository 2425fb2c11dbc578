"""A message of Discord as a text for an agent: its words, and the files beside it that are text."""

from __future__ import annotations

import re
from typing import Final

import aiohttp
import anyio
import discord

from midflight.channels.shapes import Heard

FILE_BYTES_MAX: Final = 64 * 1024
FETCH_S: Final = 10.0
TEXT_KINDS: Final = re.compile(r"text/|application/(json|xml|yaml|toml|x-yaml|x-ndjson|javascript)")


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
