"""A little world of Discord: people, channels, messages, in the shapes of its API (version 10)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from midflight.inputs import wall_clock

EPOCH_MS = 1_420_070_400_000
DM, TEXT, THREAD = 1, 0, 11

_numbers = itertools.count(1)


def snowflake(at: float = 0.0) -> str:
    """An id as Discord makes them: later ones are larger."""
    made = int((at or wall_clock()) * 1000) - EPOCH_MS
    return str(made << 22 | (next(_numbers) & 0x3FFFFF))


def made_at(number: str) -> float:
    """And back: when an id was made."""
    return ((int(number) >> 22) + EPOCH_MS) / 1000


def timestamp() -> str:
    return datetime.fromtimestamp(wall_clock(), UTC).isoformat()


@dataclass
class User:
    """Somebody, with the roles that they have in the guild."""

    id: str
    name: str
    roles: tuple[str, ...] = ()
    bot: bool = False

    @property
    def payload(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "username": self.name,
            "discriminator": "0",
            "global_name": None,
            "avatar": None,
            "bot": self.bot,
        }

    @property
    def member(self) -> dict[str, Any]:
        return {
            "roles": list(self.roles),
            "joined_at": timestamp(),
            "deaf": False,
            "mute": False,
            "flags": 0,
            "permissions": "0",
        }


@dataclass
class Message:
    """A message as it is shown now, and how often it was edited."""

    id: str
    channel: str
    author: User
    content: str
    components: list[Any] = field(default_factory=list)
    attachments: list[dict[str, Any]] = field(default_factory=list)
    reference: dict[str, Any] | None = None
    nonce: str = ""
    edits: list[str] = field(default_factory=list)
    flags: int = 0
    deleted: bool = False

    @property
    def buttons(self) -> list[dict[str, Any]]:
        rows = (row["components"] for row in self.components)
        return [part for row in rows for part in row if part["type"] == 2]

    @property
    def menus(self) -> list[dict[str, Any]]:
        rows = (row["components"] for row in self.components)
        return [part for row in rows for part in row if part["type"] == 3]

    def button(self, label: str) -> dict[str, Any]:
        """The button whose label begins like this."""
        return next(part for part in self.buttons if part["label"].startswith(label))

    @property
    def labels(self) -> list[str]:
        return [part["label"] for part in self.buttons]

    def payload(self, guild: str | None, mentions: list[dict[str, Any]]) -> dict[str, Any]:
        body: dict[str, Any] = {
            "id": self.id,
            "channel_id": self.channel,
            "author": self.author.payload,
            "content": self.content,
            "timestamp": timestamp(),
            "edited_timestamp": timestamp() if self.edits else None,
            "tts": False,
            "mention_everyone": False,
            "mentions": mentions,
            "mention_roles": [],
            "attachments": self.attachments,
            "embeds": [],
            "pinned": False,
            "type": 0,
            "flags": self.flags,
            "components": self.components,
        }
        if self.nonce:
            body["nonce"] = self.nonce
        if guild is not None:
            body |= {"guild_id": guild, "member": self.author.member}
        return body


@dataclass
class Interaction:
    """A press, a command or a form, and what has come back for it."""

    id: str
    token: str
    user: User
    channel: str
    kind: int
    sent_at: float
    acknowledged: int = 0
    acknowledged_after: float = 0.0
    expired: bool = False  # after fifteen minutes it takes no answer
    modal: dict[str, Any] | None = None
    answers: list[Message] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What who has pressed can read."""
        return "\n".join(message.content for message in self.answers)


@dataclass
class Channel:
    id: str
    kind: int
    guild: str | None = None
    name: str = ""
    parent: str = ""
    recipient: User | None = None

    def payload(self, bot: User) -> dict[str, Any]:
        body: dict[str, Any] = {"id": self.id, "type": self.kind, "last_message_id": None}
        if self.kind == DM:
            assert self.recipient is not None
            return body | {"recipients": [self.recipient.payload]}
        body |= {
            "guild_id": self.guild,
            "name": self.name,
            "position": 0,
            "permission_overwrites": [],
            "nsfw": False,
            "parent_id": self.parent or None,
        }
        if self.kind == THREAD:
            body |= {
                "owner_id": bot.id,
                "message_count": 0,
                "member_count": 1,
                "rate_limit_per_user": 0,
                "thread_metadata": {
                    "archived": False,
                    "auto_archive_duration": 1440,
                    "archive_timestamp": timestamp(),
                    "locked": False,
                },
            }
        return body
