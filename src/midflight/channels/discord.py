"""Discord: DMs, mentions and threads as conversations with an agent, over its official gateway.

Needs the extra ``discord``. What Discord delivers is handed to the switchboard; what that wants
shown is posted and edited through discord.py, which waits for rate limits by itself.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

if find_spec("discord") is None:
    raise ImportError("midflight discord needs an extra: pip install 'midflight[discord]'")

import aiohttp
import anyio
import discord
from discord import app_commands

from midflight.channels.discord_commands import commands_for
from midflight.channels.discord_missed import catch_up
from midflight.channels.discord_posts import NAME, REVOKED, DiscordChannel
from midflight.channels.discord_shapes import filled, modal_of, nonce, pieces, straight, view_of
from midflight.channels.discord_texts import heard_from
from midflight.channels.people import STRANGER, People
from midflight.channels.shapes import Action, Form, Post
from midflight.channels.switchboard import LATE_S, Switchboard
from midflight.control import Control
from midflight.errors import MidflightError
from midflight.inputs import Clock, wall_clock
from midflight.kernel.record import Who
from midflight.run import Agent

log: Final = logging.getLogger("midflight.channels")

CLOSE_S: Final = 5.0
GUILDS_S: Final = 0.5  # nothing here needs them to be known first
FORM_S: Final = 2.0  # a form has to be there within three seconds, and nothing may come before it
SEEN_MAX: Final = 1_024
THREAD_EXISTS: Final = 160004


Greet = Callable[[str], None]
"""Told once, when Discord has let us in, under which name we are there."""


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
        super().__init__(
            intents=intents,
            allowed_mentions=discord.AllowedMentions.none(),
            max_messages=None,
            chunk_guilds_at_startup=False,
            guild_ready_timeout=GUILDS_S,
        )
        self.tree = app_commands.CommandTree(self)
        self._seen: dict[int, None] = {}
        self._strangers: dict[tuple[int, int], None] = {}
        self.refused = ""
        self.greet = greet
        self._clock = clock

    async def refuse(self, why: str) -> None:
        """End, with the reason."""
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

        And all who close wait for the same task: who is cancelled at it would cancel the others.
        """
        with anyio.move_on_after(CLOSE_S, shield=True):
            await self.close()

    def who(self, user: discord.abc.User, chat: str) -> Who | None:
        """Who this is to us."""
        roles = [str(role) for role in getattr(user, "_roles", ())]  # also of a guild not known yet
        return self.board.people.who(str(user.id), user.name, channel=NAME, chat=chat, roles=roles)

    # ── texts ────────────────────────────────────────────────────────────────────────────────

    async def on_ready(self) -> None:
        """A new session: what came while we were away is looked up."""
        assert self.user is not None
        greet, self.greet = self.greet, None
        if greet is not None:
            greet(self.user.name)
        for memory in self.board.chats:
            await catch_up(self, memory)

    async def on_message(self, message: discord.Message) -> None:
        """Somebody has written something; it may be for us."""
        if message.author.bot or message.is_system():
            return
        chat = await self._chat_of(message)
        if not chat:
            return
        who = self.who(message.author, chat)
        if who is None:
            await self._turn_away(message)
            return
        await self.board.open(chat, since=str(message.id - 1))
        assert self.user is not None
        await self.board.hear(chat, await heard_from(message, self.user.id), who)

    async def _chat_of(self, message: discord.Message) -> str:
        """The conversation that a message belongs to; empty if it is not for us."""
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
        """A mention begins a thread, which has the id of its message; or goes on where it is."""
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
        while len(self._strangers) > SEEN_MAX:
            del self._strangers[next(iter(self._strangers))]
        with suppress(discord.HTTPException):  # where we may not write there is nobody to tell
            await message.channel.send(STRANGER, nonce=nonce(f"stranger {message.id}", 1))

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        """Somebody has changed their words."""
        author: Any = payload.data.get("author", {})
        chat = str(payload.channel_id)
        if author.get("bot") or self.board.memory(chat) is None or "content" not in payload.data:
            return
        assert self.user is not None
        heard = await heard_from(payload.message, self.user.id)
        if heard.text:
            await self.board.correct(chat, str(payload.message_id), heard.text)

    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        """Somebody has taken their words back."""
        await self.board.withdraw(str(payload.channel_id), str(payload.message_id))

    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        """Somebody has cleared a stretch."""
        for message in sorted(payload.message_ids):
            await self.board.withdraw(str(payload.channel_id), str(message))

    # ── presses ──────────────────────────────────────────────────────────────────────────────

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        """A button, a menu or a form; commands have a place of their own."""
        kinds = discord.InteractionType
        if interaction.type not in {kinds.component, kinds.modal_submit}:
            return
        data: dict[str, Any] = dict(interaction.data or {})
        code = str(data.get("custom_id", "")).partition("#")[0]
        fields = filled(data.get("components", []))
        if data.get("values"):
            code = _chosen(code, str(data["values"][0]))
        wants_form = interaction.type is kinds.component and _wants_form(code)
        await self.take(interaction, code, fields, wants_form=wants_form)

    async def take(
        self,
        interaction: discord.Interaction,
        code: str,
        fields: dict[str, str],
        *,
        wants_form: bool = False,
    ) -> None:
        """Do what was pressed or commanded, and answer in time: within three seconds, at first."""
        if interaction.id in self._seen:
            return
        self._seen[interaction.id] = None
        while len(self._seen) > SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        chat = str(interaction.channel_id)
        who = self.who(interaction.user, chat)
        try:
            if who is None:
                await interaction.response.send_message(STRANGER, ephemeral=True)
            elif wants_form:
                await self._open_form(interaction, chat, code, who)
            else:
                await self._press(interaction, chat, code, who, fields)
        except discord.HTTPException as error:  # Discord says to who has pressed that it failed
            log.warning("A press could not be answered: %s", error, extra={"chat": chat})

    async def join(self, interaction: discord.Interaction, thread: str) -> None:
        """``/continue``: this chat goes on with a thread that was begun elsewhere."""
        chat = str(interaction.channel_id)
        who = self.who(interaction.user, chat)
        if who is None:
            await interaction.response.send_message(STRANGER, ephemeral=True)
            return
        await interaction.response.defer(ephemeral=True, thinking=True)
        is_hall = interaction.guild_id is not None and not isinstance(
            interaction.channel, discord.Thread
        )  # where people talk to each other too
        done = await self.board.join(
            chat, thread, who, mentions_only=is_hall, since=str(interaction.id)
        )
        await interaction.followup.send(straight(done.text), ephemeral=True)

    async def _open_form(
        self, interaction: discord.Interaction, chat: str, code: str, who: Who
    ) -> None:
        action = Action.read(code)
        assert action is not None  # or its verb would not ask for a form
        found: Form | Post = Post("I am slow at this moment. Nothing was changed: press it again.")
        with anyio.move_on_after(FORM_S):
            found = await self.board.form(chat, action, who)
        if isinstance(found, Form):
            await interaction.response.send_modal(modal_of(found))
        else:
            await interaction.response.send_message(straight(found.text), ephemeral=True)

    async def _press(
        self,
        interaction: discord.Interaction,
        chat: str,
        code: str,
        who: Who,
        fields: dict[str, str],
    ) -> None:
        key = f"i{interaction.id}"
        way = json.dumps([interaction.application_id, interaction.token])
        await self.board.remember(chat, key, code, who, way=way, fields=fields)
        in_time, late = True, False
        try:
            await interaction.response.defer(ephemeral=True, thinking=True)
        except discord.HTTPException:
            in_time = False  # it is done all the same, and said where everybody sees it
            late = self._clock() - interaction.created_at.timestamp() > LATE_S
        done = await self.board.press(chat, code, who, key=key, fields=fields, late=late)
        await self._answer(chat, key, way, done, in_time=in_time)

    async def _answer(
        self, chat: str, key: str, way: str, done: Post, *, in_time: bool = True
    ) -> None:
        """To who has pressed, or in the chat where that is not possible any more."""
        application, token = json.loads(way)
        known: Any = {"id": application, "type": 3, "token": token}  # 3: an application's
        hook = discord.Webhook.from_state(data=known, state=self._connection)
        view, ((*before, last), _) = view_of(done), pieces(done)
        more: dict[str, Any] = {"view": view} if view is not None else {}
        try:
            if in_time:
                for text in before:
                    await hook.send(text, ephemeral=True)
                await hook.send(last, ephemeral=True, **more)
        except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
            in_time = False  # after a quarter of an hour, for one, Discord takes none any more
            log.info("Answered in the chat: %s", error, extra={"chat": chat})
        if not in_time and self.is_closed():
            return  # the next life answers it
        if in_time:
            await self.board.answered(chat, key)
        else:
            post = Post(done.text, f"late:{key}", buttons=done.buttons)
            await self.board.say(chat, post, settles=key)

    async def answer_the_left(self) -> None:
        """Presses that an earlier life has taken and not answered. Before any of this one comes."""
        for memory in self.board.chats:
            for key, pending in list(memory.pending.items()):
                done = await self.board.press_again(memory, key)
                await self._answer(memory.chat, key, pending.way, done)


def _wants_form(code: str) -> bool:
    action = Action.read(code)
    return action is not None and action.wants_form


def _chosen(code: str, value: str) -> str:
    action = Action.read(code)
    return Action(action.verb, action.run, action.at, value).code if action is not None else code


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
    """Be there until cancelled. Raises ``DiscordRefused`` when Discord does not let us in."""
    client = Client(greet)
    try:
        await client.login(token)
        for each in commands_for(client):
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
            await client.answer_the_left()
            await client.connect()
    except discord.LoginFailure:
        raise DiscordRefused(REVOKED) from None
    except discord.PrivilegedIntentsRequired:
        raise DiscordRefused(CONTENT) from None
    except discord.ConnectionClosed as closed:
        why = REVOKED if closed.code == 4004 else f"Discord has closed with code {closed.code}."
        raise DiscordRefused(why) from None
    except discord.HTTPException as error:
        raise DiscordRefused(f"Discord refuses: {error}. Nothing was changed.") from None
    finally:
        await client.leave()
    if client.refused:
        raise DiscordRefused(client.refused)
