"""Posts and edits in Discord; its failures become errors of a channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp
import discord
from anyio import to_thread

from midflight.channels.base import ChatGone, NotNow, NotTaken, PostGone
from midflight.channels.discord_shapes import TEXT_MAX, nonce, pieces, view_of
from midflight.channels.shapes import Post

NAME: Final = "discord"
UNKNOWN_MESSAGE: Final = 10008
NO_REPLIES: Final = 160002  # the bot may not read the history of the channel
TOO_LARGE: Final = 413
NOTE_MAX: Final = 300
ELSEWHERE: Final = "Answer on the page or in a terminal."
REVOKED: Final = (
    "Discord does not accept the token any more. Make a new one in the developer portal, set it, "
    "and start again: runs and messages are kept, and the chats go on where they were."
)
Refuse = Callable[[str], Awaitable[None]]
"""Called with the reason when Discord does not let us in any more."""


class DiscordChannel:
    """The channel: posts and edits."""

    name = NAME

    def __init__(self, client: discord.Client, refuse: Refuse) -> None:
        self._client = client
        self._edge = Edge(refuse)

    async def post(self, chat: str, post: Post) -> str:
        """Post in as many messages as it takes; the last of them has the buttons."""
        texts, files = await to_thread.run_sync(pieces, post)  # it reads files
        message = ""
        place = self._client.get_partial_messageable(int(chat))
        for number, text in enumerate(texts, 1):
            more: dict[str, Any] = {}
            if number == len(texts):
                view = view_of(post)
                more = {"files": files} if files else {}
                more |= {"view": view} if view is not None else {}
            if number == 1 and post.answers:
                more["reference"] = discord.MessageReference(
                    message_id=int(post.answers), channel_id=int(chat), fail_if_not_exists=False
                )
            if post.key:
                more["nonce"] = nonce(f"{chat} {post.key}", number)
            async with self._edge:
                message = str((await self._send(place, text, more)).id)
        return message

    async def _send(
        self, place: discord.PartialMessageable, text: str, more: dict[str, Any]
    ) -> discord.Message:
        """Send a message, or as much of it as the bot may send: a missing right loses no chat.

        Links get no preview: fetching an address that a model has written could carry a secret
        to the owner of that address.
        """
        try:
            return await place.send(text, suppress_embeds=True, **more)
        except discord.HTTPException as error:
            if error.code == NO_REPLIES and more.pop("reference", None) is not None:
                return await self._send(place, text, more)
            why = _kept_from(error)
            files = more.pop("files", []) if why else []
            if not files:
                raise
        names = ", ".join(file.filename for file in files)
        note = f"-# {why}, and not shown here: {names}"[:NOTE_MAX]
        if more.pop("view", None) is not None:  # nobody answers what they cannot read
            note = f"{note}. {ELSEWHERE}"
        shorter = f"{text[: TEXT_MAX - NOTE_MAX - len(ELSEWHERE) - 3]}\n{note}"
        return await place.send(shorter, suppress_embeds=True, **more)

    async def edit(self, chat: str, message: str, post: Post) -> None:
        """Replace the text and the buttons of a message."""
        place = self._client.get_partial_messageable(int(chat))
        texts, _ = pieces(post)
        async with self._edge:
            partial = place.get_partial_message(int(message))
            await partial.edit(content=texts[0], view=view_of(post))


def _kept_from(error: discord.HTTPException) -> str:
    """Return why files may have been refused; empty if the error is not about files."""
    if error.status == TOO_LARGE:
        return "Too much for Discord"
    return (
        "The bot may not attach files in this chat" if isinstance(error, discord.Forbidden) else ""
    )


class Edge:
    """Turns errors of Discord into those of a channel, around each call."""

    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse

    async def __aenter__(self) -> None:
        """Nothing to do."""

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Raise ``NotNow`` for an error that may pass, and another channel error for the rest."""
        match error:
            case discord.NotFound(code=code) if code == UNKNOWN_MESSAGE:
                raise PostGone(str(error)) from error
            case discord.NotFound() | discord.Forbidden():
                raise ChatGone(str(error)) from error
            case discord.HTTPException(status=401):
                await self._refuse(REVOKED)
                raise NotNow(str(error)) from error
            case discord.HTTPException(status=status) if status < 500 and status != 429:
                raise NotTaken(str(error)) from error
            case discord.DiscordException() | aiohttp.ClientError() | OSError():
                raise NotNow(str(error) or type(error).__name__) from error
            case _:
                return
