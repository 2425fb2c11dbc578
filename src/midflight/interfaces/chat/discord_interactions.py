"""Buttons, menus, forms and slash commands of Discord: done once, and answered in time.

Discord wants a sign within three seconds, and takes an answer for a quarter of an hour. After that
a press is answered in the chat. The next process answers the presses that this one has left.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any, Final

import aiohttp
import anyio
import discord
from discord import app_commands

from midflight.control.verbs import VERBS
from midflight.inputs import Clock
from midflight.interfaces.chat.channel import STRANGER, Action, Form, Post
from midflight.interfaces.chat.discord_posts import (
    Bot,
    filled,
    modal_of,
    pieces,
    straight,
    view_of,
)
from midflight.interfaces.chat.switchboard import LATE_S
from midflight.journal.record import Actor

log: Final = logging.getLogger("midflight.interfaces.chat")

FORM_S: Final = 2.0  # a form has to be there within three seconds, and nothing may come before it
SEEN_MAX: Final = 1_024


class Presses:
    """Takes what is pressed or commanded to the switchboard, and its answer back."""

    def __init__(self, client: Bot, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._seen: dict[int, None] = {}

    async def hear(self, interaction: discord.Interaction) -> None:
        """Take a press of a button, a menu or a form; the command tree takes commands."""
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
        who = self._client.who(interaction.user, chat)
        try:
            if who is None:
                await self._turn_away(interaction, chat)
            elif wants_form:
                await self._open_form(interaction, chat, code, who)
            else:
                await self._press(interaction, chat, code, who, fields)
        except discord.HTTPException as error:  # Discord tells them that it failed
            words = "A press or command in chat %s could not be answered: %s"
            log.warning(words, chat, error, extra={"chat": chat})

    async def _turn_away(self, interaction: discord.Interaction, chat: str) -> None:
        await self._client.board.turn_away(chat, "press", user=str(interaction.user.id))
        await interaction.response.send_message(STRANGER, ephemeral=True)

    async def join(self, interaction: discord.Interaction, thread: str) -> None:
        """``/continue``: this chat goes on with a thread that was begun elsewhere."""
        chat = str(interaction.channel_id)
        who = self._client.who(interaction.user, chat)
        if who is None:
            await self._turn_away(interaction, chat)
            return
        await interaction.response.defer(ephemeral=True, thinking=True)
        is_hall = interaction.guild_id is not None and not isinstance(
            interaction.channel, discord.Thread
        )  # where people talk to each other too
        done = await self._client.board.join(
            chat, thread, who, mentions_only=is_hall, since=str(interaction.id)
        )
        await interaction.followup.send(straight(done.text), ephemeral=True, suppress_embeds=True)

    async def _open_form(
        self, interaction: discord.Interaction, chat: str, code: str, who: Actor
    ) -> None:
        action = Action.read(code)
        assert action is not None  # or its verb would not ask for a form
        found: Form | Post = Post(
            f"The form could not be made within {FORM_S:g} seconds. Nothing was changed: press "
            "again."
        )
        with anyio.move_on_after(FORM_S):
            found = await self._client.board.form(chat, action, who)
        if isinstance(found, Form):
            await interaction.response.send_modal(modal_of(found))
        else:
            await interaction.response.send_message(
                straight(found.text), ephemeral=True, suppress_embeds=True
            )

    async def _press(
        self,
        interaction: discord.Interaction,
        chat: str,
        code: str,
        who: Actor,
        fields: dict[str, str],
    ) -> None:
        key = f"i{interaction.id}"
        way = json.dumps([interaction.application_id, interaction.token])
        # layer press-written-down-before-done
        await self._client.board.remember(chat, key, code, who, way=way, fields=fields)
        in_time, late = True, False
        try:
            await interaction.response.defer(ephemeral=True, thinking=True)
        except discord.HTTPException:
            in_time = False  # it is done all the same, and said where everybody sees it
            late = self._clock() - interaction.created_at.timestamp() > LATE_S
        done = await self._client.board.press(chat, code, who, key=key, fields=fields, late=late)
        await self._answer(chat, key, way, done, in_time=in_time)

    async def _answer(
        self, chat: str, key: str, way: str, done: Post, *, in_time: bool = True
    ) -> None:
        """Answer the person who pressed, or in the chat if Discord takes that answer no more."""
        application, token = json.loads(way)
        known: Any = {"id": application, "type": 3, "token": token}  # 3: an application's
        hook = discord.Webhook.from_state(data=known, state=self._client._connection)
        view, ((*before, last), _) = view_of(done), pieces(done)
        more: dict[str, Any] = {"view": view} if view is not None else {}
        try:
            if in_time:
                for text in before:
                    await hook.send(text, ephemeral=True, suppress_embeds=True)
                await hook.send(last, ephemeral=True, suppress_embeds=True, **more)
        # layer expired-way-to-answer-not-taken
        except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
            in_time = False  # after a quarter of an hour, for one, Discord takes none any more
            log.info("Answered in the chat: %s", error, extra={"chat": chat})
        if not in_time and self._client.is_closed():
            return  # the next process answers it
        if in_time:
            await self._client.board.answered(chat, key)
        else:
            post = Post(done.text, f"late:{key}", buttons=done.buttons)
            await self._client.board.say(chat, post, settles=key)

    async def answer_the_left(self) -> None:
        """Answer presses that an earlier process has taken and not answered, before any others."""
        for memory in self._client.board.chats:
            for key, pending in list(memory.pending.items()):
                done = await self._client.board.press_again(memory, key)
                await self._answer(memory.chat, key, pending.way, done)


def _wants_form(code: str) -> bool:
    action = Action.read(code)
    return action is not None and action.wants_form


def _chosen(code: str, value: str) -> str:
    action = Action.read(code)
    return Action(action.verb, action.run, action.at, value).code if action is not None else code


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
