"""The Protocol of a channel: to post and to edit. The switchboard does everything else."""

from __future__ import annotations

from typing import Protocol

from midflight.channels.shapes import Post
from midflight.errors import MidflightError


class ChatGone(MidflightError):
    """The chat is not there any more, or we may not write in it. Nothing more is posted there."""


class NotNow(MidflightError):
    """The chat cannot be reached at the moment. The post is tried again later."""


class PostGone(MidflightError):
    """Somebody has removed the message that was to be edited."""


class NotTaken(MidflightError):
    """The chat does not take this post, or this edit, as it is. It is shown more plainly."""


class Channel(Protocol):
    """A kind of chat. Its ``name`` is part of its people's names and of its threads' ids."""

    name: str

    async def post(self, chat: str, post: Post) -> str:
        """Show it and give the chat's own id for it. Repeated under its key it shows nothing new.

        Raises ``NotNow`` where trying again may help, ``ChatGone`` where nothing is taken any more,
        and ``NotTaken`` where another post may be.
        """

    async def edit(self, chat: str, message: str, post: Post) -> None:
        """Show this instead of what was posted; ``PostGone`` if that is not there any more."""
