"""Discord: DMs, mentions and threads as conversations with an agent, over its official gateway.

Needs the extra ``discord``. The client hands what Discord delivers to the switchboard, and posts
and edits for it through discord.py, which waits for rate limits by itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import aiohttp
import discord

from midflight.errors import to_install
from midflight.interfaces.chat.channel import Post
from midflight.interfaces.chat.chat_memory import Memory
from midflight.interfaces.chat.discord_posts import Bot, heard_from

if find_spec("discord") is None:
    raise ImportError(f"midflight discord needs an extra: {to_install('discord')}")

import anyio
from discord import app_commands

from midflight.agents import Agent
from midflight.control import Control
from midflight.errors import MidflightError
from midflight.inputs import Clock, wall_clock
from midflight.interfaces.chat.channel import STRANGER, People
from midflight.interfaces.chat.discord_interactions import Presses, commands_for
from midflight.interfaces.chat.discord_posts import (
    NAME,
    REVOKED,
    DiscordChannel,
    nonce,
)
from midflight.interfaces.chat.switchboard import Switchboard
from midflight.journal.record import Actor

CLOSE_S: Final = 5.0
GUILDS_S: Final = 0.5  # nothing here needs them to be known first
STRANGERS_MAX: Final = 1_024
THREAD_EXISTS: Final = 160004


Greet = Callable[[str], None]
"""Called once, with the bot's name, when Discord has let it in."""


class DiscordRefused(MidflightError):
    """Discord does not let us in."""


CONTENT: Final = (
    "Discord does not let this bot read messages: turn on “Message Content Intent” for it in the "
    "developer portal, and start again. Nothing was changed."
)


class Client(discord.Client):
    """Hands what Discord delivers to the switchboard."""

    board: Switchboard

    def __init__(self, greet: Greet | None = None, clock: Clock = wall_clock) -> None:
        intents = discord.Intents.none()
        intents.guilds = intents.guild_messages = intents.dm_messages = True
        intents.message_content = True
        super().__init__(  # layer nobody-pinged-by-what-agent-says
            intents=intents,
            allowed_mentions=discord.AllowedMentions.none(),
            max_messages=None,
            chunk_guilds_at_startup=False,
            guild_ready_timeout=GUILDS_S,
        )
        self.tree = app_commands.CommandTree(self)
        self.presses = Presses(self, clock)
        self._strangers: dict[tuple[int, int], None] = {}
        self.refused = ""
        self.greet = greet

    async def refuse(self, why: str) -> None:
        """Close, and keep the reason."""
        self.refused = self.refused or why
        await self._close()

    async def leave(self) -> None:
        """Close, and begin nothing after the end."""
        waits_for_guilds = self._connection._ready_task
        if waits_for_guilds is not None:
            waits_for_guilds.cancel()
        await self._close()

    async def _close(self) -> None:
        """Close also when we are cancelled: threads and sockets would stay behind.

        All callers wait for the same task: a cancelled one would cancel it for the others.
        """
        with anyio.move_on_after(CLOSE_S, shield=True):
            await self.close()

    def who(self, user: discord.abc.User, chat: str) -> Actor | None:
        """Return the person behind a user of Discord, with their role; None for a stranger."""
        roles = [str(role) for role in getattr(user, "_roles", ())]  # also of a guild not known yet
        return self.board.people.who(str(user.id), user.name, channel=NAME, chat=chat, roles=roles)

    # ── texts ────────────────────────────────────────────────────────────────────────────────

    async def on_ready(self) -> None:
        """Greet at the first session, and look up what came in while there was none."""
        assert self.user is not None
        greet, self.greet = self.greet, None
        if greet is not None:
            greet(self.user.name)
        for memory in self.board.chats:
            await catch_up(self, memory)

    async def on_message(self, message: discord.Message) -> None:
        """Take a message that somebody has written, if it is for us."""
        if message.author.bot or message.is_system():
            return
        chat = await self._chat_of(message)
        if not chat:
            return
        who = self.who(message.author, chat)
        if who is None:
            await self.board.turn_away(chat, "send", user=str(message.author.id))
            await self._turn_away(message)
            return
        await self.board.open(chat, since=str(message.id - 1))
        assert self.user is not None
        await self.board.hear(chat, await heard_from(message, self.user.id), who)

    async def _chat_of(self, message: discord.Message) -> str:
        """Return the conversation that a message belongs to; empty if it is not for us."""
        here = str(message.channel.id)
        memory = self.board.memory(here)
        mentioned = self.user in message.mentions  # also by an answer to what it has said
        if message.guild is None or (memory is not None and not memory.mentions_only):
            return here
        if not mentioned:
            return ""
        if isinstance(message.channel, discord.Thread) or memory is not None:
            return here
        if self.who(message.author, here) is None:
            return here
        return await self._thread_for(message)

    async def _thread_for(self, message: discord.Message) -> str:
        """Begin a thread at a mention, with the id of its message; or go on in the channel."""
        words = re.sub(r"<@[!&]?\d+>", "", message.content).strip()
        try:
            await message.create_thread(name=(words or "Conversation")[:80])
        except discord.HTTPException as error:
            if error.code != THREAD_EXISTS:
                await self.board.open(
                    str(message.channel.id), mentions_only=True, since=str(message.id - 1)
                )
                return str(message.channel.id)
        return str(message.id)

    async def _turn_away(self, message: discord.Message) -> None:
        place = (message.channel.id, message.author.id)
        if place in self._strangers:
            return
        self._strangers[place] = None
        while len(self._strangers) > STRANGERS_MAX:
            del self._strangers[next(iter(self._strangers))]
        with suppress(discord.HTTPException):  # where we may not write there is nobody to tell
            await message.channel.send(STRANGER, nonce=nonce(f"stranger {message.id}", 1))

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        """Correct a message that somebody has changed."""
        author: Any = payload.data.get("author", {})
        chat = str(payload.channel_id)
        if author.get("bot") or self.board.memory(chat) is None or "content" not in payload.data:
            return
        assert self.user is not None
        heard = await heard_from(payload.message, self.user.id)
        if heard.text:
            await self.board.correct(chat, str(payload.message_id), heard.text)

    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        """Withdraw a message that somebody has removed."""
        await self.board.withdraw(str(payload.channel_id), str(payload.message_id))

    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        """Withdraw all messages that somebody has removed at once."""
        for message in sorted(payload.message_ids):
            await self.board.withdraw(str(payload.channel_id), str(message))

    # ── presses ──────────────────────────────────────────────────────────────────────────────

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        """Take a press of a button, a menu or a form; the command tree takes commands."""
        await self.presses.hear(interaction)


async def serve(
    control: Control,
    agent: Agent,
    *,
    token: str,
    people: People,
    folder: str | Path,
    workdir: str | Path | None = None,
    greet: Greet | None = None,
) -> None:
    """Serve on Discord until cancelled; raise ``DiscordRefused`` if Discord does not let us in."""
    client = Client(greet)
    try:
        await client.login(token)
        for each in commands_for(client.presses):
            client.tree.add_command(each)
        await client.tree.sync()
        async with Switchboard(
            control,
            DiscordChannel(client, client.refuse),
            agent,
            folder=folder,
            people=people,
            workdir=workdir,
        ) as board:
            client.board = board
            await client.presses.answer_the_left()
            await client.connect()
    except discord.LoginFailure:
        raise DiscordRefused(REVOKED) from None
    except discord.PrivilegedIntentsRequired:
        raise DiscordRefused(CONTENT) from None
    except discord.ConnectionClosed as closed:
        why = REVOKED if closed.code == 4004 else f"Discord has closed with code {closed.code}."
        raise DiscordRefused(why) from None
    except discord.HTTPException as error:
        raise DiscordRefused(f"Discord refused the bot: {error}. Nothing was changed.") from None
    finally:
        await client.leave()
    if client.refused:
        raise DiscordRefused(client.refused)


log: Final = logging.getLogger("midflight.interfaces.chat")

LOOKED_AT_MAX: Final = 500  # messages of a chat, the newest
OVERLAP: Final = 64  # of what was heard last: chats do not always deliver in order
TOO_MANY: Final = (
    f"I was away, and have looked through the newest {LOOKED_AT_MAX} messages here. What was "
    "written to me before those meanwhile was not read: send it again."
)


async def catch_up(client: Bot, memory: Memory) -> None:
    """Take the messages that were missed in a chat, and changes to those that wait unread."""
    try:
        await _look(client, memory)
    except (discord.HTTPException, aiohttp.ClientError) as error:
        words = "What was written in chat %s while the bot was away could not be read: %s"
        log.warning(words, memory.chat, error, extra={"chat": memory.chat})
    except RuntimeError:
        if not client.is_closed():  # a closed session: the next process looks
            raise


async def _look(client: Bot, memory: Memory) -> None:
    board, chat = client.board, memory.chat
    waiting = await board.waiting(chat) - {chat}  # a thread's first message is not in the thread
    known = [*memory.heard[-OVERLAP:], *waiting] or [memory.since]
    since = min(int(message or 0) for message in known)
    if not since:
        return
    there = await _newest(client, int(chat), since - 1)
    for message in there:
        if str(message.id) in waiting:
            await _compare(client, message)  # layer changed-while-we-away
        elif not board.has_heard(chat, str(message.id)):
            await _hear(client, memory, message)
    is_cut = len(there) == LOOKED_AT_MAX and since < there[0].id
    oldest = there[0].id if is_cut else since  # older messages may be there, and were not looked at
    for number in waiting - {str(message.id) for message in there}:
        if int(number) >= oldest:
            await board.withdraw(chat, number)  # layer removed-while-we-away
    if is_cut:
        await board.say(chat, Post(TOO_MANY, f"away:{there[-1].id}"))


async def _newest(client: Bot, chat: int, after: int) -> list[discord.Message]:
    """Return the newest messages behind one, in the order in which they were written."""
    place = client.get_channel(chat) or await client.fetch_channel(chat)
    assert isinstance(place, discord.abc.Messageable)
    # layer much-missed-newest-looked
    behind = place.history(limit=LOOKED_AT_MAX, after=discord.Object(after), oldest_first=False)
    return [message async for message in behind][::-1]


async def _compare(client: Bot, message: discord.Message) -> None:
    assert client.user is not None
    if message.edited_at is not None:
        heard = await heard_from(message, client.user.id)
        if heard.text:
            await client.board.correct(str(message.channel.id), heard.id, heard.text)


async def _hear(client: Bot, memory: Memory, message: discord.Message) -> None:
    if memory.mentions_only and client.user not in message.mentions:
        return
    await _with_roles(message)  # layer missed-looked-up-with-roles
    is_old = message.id < max(map(int, memory.heard), default=0)
    if is_old and client.who(message.author, memory.chat) is None:
        return  # a stranger, and told so when it came
    await client.on_message(message)


async def _with_roles(message: discord.Message) -> None:
    """Fetch the roles of a message's author: a message that was looked up does not have them."""
    here = message.guild
    if here is not None and isinstance(message.author, discord.User) and not message.author.bot:
        with suppress(discord.NotFound):  # an author who has left the guild has no roles
            message.author = await here.fetch_member(message.author.id)
