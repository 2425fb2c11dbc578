"""Somebody in front of the stand-in of Discord: writes, edits, removes, presses, fills forms."""

from __future__ import annotations

from typing import Any

from chat.guild import DM, Channel, Interaction, Message, User, snowflake
from chat.stand_in import BOT, StandIn
from midflight.inputs import wall_clock


class Person:
    """Somebody in front of Discord."""

    def __init__(self, service: StandIn, user: User) -> None:
        self.service, self.user = service, user
        service.people[user.id] = user

    def dm(self) -> str:
        """The id of their conversation with the bot."""
        channel = Channel(f"2{self.user.id[1:]}", DM, recipient=self.user)
        return self.service.add(channel).id

    async def says(
        self,
        chat: str,
        text: str,
        *,
        times: int = 1,
        files: list[tuple[str, bytes, str]] | None = None,
    ) -> Message:
        attached = [self.service.attachment(*each) for each in files or []]
        message = Message(snowflake(), chat, self.user, text, attachments=attached)
        self.service.messages[message.id] = message
        sent = self.service.payload(message)
        await self.service.gateway.dispatch("MESSAGE_CREATE", sent, times=times)
        return message

    async def edits(self, message: Message, text: str) -> None:
        message.edits.append(message.content)
        message.content = text
        await self.service.gateway.dispatch("MESSAGE_UPDATE", self.service.payload(message))

    async def deletes(self, message: Message) -> None:
        message.deleted = True
        gone = {"id": message.id, "channel_id": message.channel}
        guild = self.service.channels[message.channel].guild
        gone |= {"guild_id": guild} if guild else {}
        await self.service.gateway.dispatch("MESSAGE_DELETE", gone)

    async def clears(self, *messages: Message) -> None:
        """Remove several at once, as moderators do."""
        gone = {"ids": [m.id for m in messages], "channel_id": messages[0].channel}
        guild = self.service.channels[messages[0].channel].guild
        await self.service.gateway.dispatch("MESSAGE_DELETE_BULK", gone | {"guild_id": guild})

    async def presses(
        self, message: Message, label: str, *, times: int = 1, ago: float = 0.0
    ) -> Interaction:
        code = message.button(label)["custom_id"]
        return await self.presses_code(message, code, times=times, ago=ago)

    async def presses_code(
        self, message: Message, code: str, *, times: int = 1, ago: float = 0.0
    ) -> Interaction:
        data = {"custom_id": code, "component_type": 2}
        return await self._interacts(message.channel, 3, data, message, times=times, ago=ago)

    async def chooses(self, message: Message, label: str) -> Interaction:
        for menu in message.menus:
            for option in menu["options"]:
                if option["label"] == label:
                    data = {"custom_id": menu["custom_id"], "component_type": 3}
                    data["values"] = [option["value"]]
                    return await self._interacts(message.channel, 3, data, message)
        raise LookupError(label)

    async def fills(self, opened: Interaction, **values: str) -> Interaction:
        """Send the form that a press has opened."""
        modal = await self.service.until(lambda: opened.modal)
        parts_sent = []
        for label in modal["components"]:
            field = label["component"]
            name = field["custom_id"]
            given: dict[str, Any] = {"type": field["type"], "custom_id": name, "id": 2}
            if field["type"] == 3:
                usual = next((o["value"] for o in field["options"] if o.get("default")), "")
                given["values"] = [values.get(name, usual)]
            else:
                given["value"] = values.get(name, field.get("value", ""))
            parts_sent.append({"type": 18, "id": 1, "component": given})
        data = {"custom_id": modal["custom_id"], "components": parts_sent}
        return await self._interacts(opened.channel, 5, data)

    async def commands(self, chat: str, name: str, **options: str) -> Interaction:
        found = next(each for each in self.service.commands if each["name"] == name)
        given = [{"name": key, "type": 3, "value": value} for key, value in options.items()]
        data = {"id": found["id"], "name": name, "type": 1, "options": given}
        return await self._interacts(chat, 2, data)

    async def _interacts(
        self,
        chat: str,
        kind: int,
        data: dict[str, Any],
        message: Message | None = None,
        *,
        times: int = 1,
        ago: float = 0.0,
    ) -> Interaction:
        service = self.service
        channel, at = service.channels[chat], wall_clock() - ago
        made = Interaction(snowflake(at), f"token-{snowflake()}", self.user, chat, kind, at)
        service.interactions[made.token] = made
        body: dict[str, Any] = {
            "id": made.id,
            "application_id": BOT.id,
            "type": kind,
            "data": data,
            "channel": channel.payload(BOT),
            "channel_id": chat,
            "token": made.token,
            "version": 1,
            "attachment_size_limit": 10_000_000,
            "entitlements": [],
            "authorizing_integration_owners": {},
            "context": 0 if channel.guild else 1,
            "locale": "en-US",
        }
        if message is not None:
            body["message"] = service.payload(message)
        if channel.guild:
            member = self.user.member | {"user": self.user.payload}
            body |= {"guild_id": channel.guild, "member": member}
        else:
            body["user"] = self.user.payload
        await service.gateway.dispatch("INTERACTION_CREATE", body, times=times)
        return made
