"""Catching up: messages that were written, changed or removed while we were not on Discord."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

import aiohttp
import discord

from midflight.interfaces.chat.channel import Post
from midflight.interfaces.chat.chat_memory import Memory
from midflight.interfaces.chat.discord.discord_posts import Bot, heard_from

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
        log.warning("Cannot look up what was missed: %s", error, extra={"chat": memory.chat})
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
            await _compare(client, message)
        elif not board.has_heard(chat, str(message.id)):
            await _hear(client, memory, message)
    is_cut = len(there) == LOOKED_AT_MAX and since < there[0].id
    oldest = there[0].id if is_cut else since  # older messages may be there, and were not looked at
    for number in waiting - {str(message.id) for message in there}:
        if int(number) >= oldest:
            await board.withdraw(chat, number)
    if is_cut:
        await board.say(chat, Post(TOO_MANY, f"away:{there[-1].id}"))


async def _newest(client: Bot, chat: int, after: int) -> list[discord.Message]:
    """Return the newest messages behind one, in the order in which they were written."""
    place = client.get_channel(chat) or await client.fetch_channel(chat)
    assert isinstance(place, discord.abc.Messageable)
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
    await _with_roles(message)
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
