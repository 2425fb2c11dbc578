"""Discord on loopback: its REST and its gateway, as far as a bot can tell.

It refuses what Discord refuses: texts, labels and ids that are too long, a second answer to an
interaction, an answer after three seconds, a wrong token, more requests than a bucket holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import yarl
from aiohttp import web
from discord.gateway import DiscordWebSocket
from discord.http import Route

from chat.gateway import Gateway
from chat.guild import TEXT, THREAD, Channel, Interaction, Message, User, made_at, snowflake
from midflight.inputs import wall_clock

TOKEN = "a-token-of-a-bot"
BOT = User("900000000000000900", "midflight", bot=True)
GUILD = "700000000000000700"
GENERAL = "701000000000000701"
AT = f"<@{BOT.id}>"
EPHEMERAL = 64
SUPPRESS_EMBEDS = 4
IN_TIME_S = 30.0
"""The service itself gives three seconds; tests whose story that is look how long it took."""


class StandIn:
    """The service. ``Person`` (``person.py``) writes and presses."""

    def __init__(self) -> None:
        self.channels: dict[str, Channel] = {}
        self.messages: dict[str, Message] = {}
        self.interactions: dict[str, Interaction] = {}
        self.commands: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.people: dict[str, User] = {}
        self.gateway = Gateway(self._greeting)
        self.gateway.token = TOKEN
        self.requests: list[tuple[str, str]] = []
        self.refused: list[tuple[str, str]] = []
        self.to_refuse: list[tuple[int, dict[str, Any]]] = []
        self.per_channel = (10_000, 5.0)
        self.fetched: list[str] = []  # addresses in messages, for previews
        self.threads_forbidden = self.files_forbidden = self.replies_forbidden = False
        self.upload_max = 10_000_000
        self.nonces_kept_s = 180.0  # “a few minutes”
        self.takes_buttons = True
        self.closed_channels: set[str] = set()
        self.hold_answers: anyio.Event | None = None
        self.held = 0
        self._spent: dict[str, list[float]] = {}
        self.address = ""
        self.add(Channel(GENERAL, TEXT, GUILD, "general"))

    def add(self, channel: Channel) -> Channel:
        return self.channels.setdefault(channel.id, channel)

    # ── what tests look at ───────────────────────────────────────────────────────────────────

    def shown(self, chat: str) -> list[Message]:
        """What the bot shows in a chat now, in order."""
        here = [m for m in self.messages.values() if m.channel == chat and m.author is BOT]
        return [m for m in here if not m.deleted]

    def text(self, chat: str) -> str:
        return "\n".join(message.content for message in self.shown(chat))

    async def until(self, ready: Callable[[], Any], seconds: float = 10.0) -> Any:
        """Wait for something to be so, and give it."""
        with anyio.move_on_after(seconds):
            while not (found := ready()):  # noqa: ASYNC110 - what is waited for has no event
                await anyio.sleep(0.01)
            return found
        shown = "\n".join(f"{m.channel}: {m.content} {m.labels}" for m in self.messages.values())
        answers = "\n".join(each.text for each in self.interactions.values())
        raise AssertionError(f"not within {seconds} s. Shown:\n{shown}\nAnswered:\n{answers}")

    async def until_shown(self, chat: str, text: str, seconds: float = 10.0) -> Message:
        """Wait for a message of the bot with these words in it; the last of them."""

        def found() -> Message | None:
            return next((m for m in reversed(self.shown(chat)) if text in m.content), None)

        message = await self.until(found, seconds)
        assert isinstance(message, Message)
        return message

    # ── the gateway ──────────────────────────────────────────────────────────────────────────

    def _greeting(self) -> list[tuple[str, dict[str, Any]]]:
        ready = {
            "v": 10,
            "user": BOT.payload,
            "guilds": [{"id": GUILD, "unavailable": True}],
            "session_id": f"session-{self.gateway.session}",
            "resume_gateway_url": self.gateway.address,
            "application": {"id": BOT.id, "flags": 0},
            "private_channels": [],
        }
        return [("READY", ready), ("GUILD_CREATE", self._guild())]

    def _guild(self) -> dict[str, Any]:
        here = [c for c in self.channels.values() if c.guild]
        return {
            "id": GUILD,
            "name": "Office",
            "owner_id": "1",
            "roles": [_role(GUILD, "@everyone"), _role("31", "staff"), _role("32", "guests")],
            "channels": [c.payload(BOT) for c in here if c.kind == TEXT],
            "threads": [c.payload(BOT) for c in here if c.kind == THREAD],
            "members": [BOT.member | {"user": BOT.payload}],
            "member_count": 1,
            "emojis": [],
            "stickers": [],
            "features": [],
            "presences": [],
            "voice_states": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
            "preferred_locale": "en-US",
            "verification_level": 0,
            "default_message_notifications": 0,
            "explicit_content_filter": 0,
            "mfa_level": 0,
            "nsfw_level": 0,
            "premium_tier": 0,
            "system_channel_flags": 0,
            "large": False,
            "unavailable": False,
        }

    def payload(self, message: Message) -> dict[str, Any]:
        mentions = [BOT.payload] if AT in message.content else []
        return message.payload(self.channels[message.channel].guild, mentions)

    # ── REST ─────────────────────────────────────────────────────────────────────────────────

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._door], client_max_size=30_000_000)
        api = "/api/v10"
        app.add_routes([
            web.get("/gateway", self.gateway.handle),
            web.get("/cdn/{name}", self._cdn),
            web.get(f"{api}/users/@me", self._me),
            web.get(f"{api}/oauth2/applications/@me", self._application),
            web.put(f"{api}/applications/{{app}}/commands", self._commands),
            web.get(f"{api}/channels/{{chat}}", self._channel),
            web.get(f"{api}/guilds/{{guild}}/members/{{user}}", self._member),
            web.get(f"{api}/channels/{{chat}}/messages", self._history),
            web.post(f"{api}/channels/{{chat}}/messages", self._create),
            web.patch(f"{api}/channels/{{chat}}/messages/{{message}}", self._edit),
            web.post(f"{api}/channels/{{chat}}/messages/{{message}}/threads", self._thread),
            web.post(f"{api}/interactions/{{id}}/{{token}}/callback", self._callback),
            web.post(f"{api}/webhooks/{{app}}/{{token}}", self._followup),
        ])  # fmt: skip
        return app

    @web.middleware
    async def _door(self, request: web.Request, handler: Any) -> web.StreamResponse:
        path = request.path.removeprefix("/api/v10")
        if not request.path.startswith("/api/"):
            response: web.StreamResponse = await handler(request)
            return response
        self.requests.append((request.method, path))
        by_token = path.startswith(("/interactions/", "/webhooks/"))
        if not by_token and request.headers.get("Authorization") != f"Bot {self.gateway.token}":
            return problem(401, 0, "401: Unauthorized")
        if self.to_refuse:
            status, body = self.to_refuse.pop(0)
            return self._turned_away(request, status, body)
        left, reset = self._take_from_bucket(request)
        if left < 0:
            body = {"message": "You are being rate limited.", "retry_after": reset, "global": False}
            return self._turned_away(request, 429, body)
        response = await handler(request)
        response.headers["X-RateLimit-Limit"] = str(self.per_channel[0])
        response.headers["X-RateLimit-Remaining"] = str(left)
        response.headers["X-RateLimit-Reset-After"] = f"{reset:.3f}"
        response.headers["X-RateLimit-Bucket"] = request.method.lower()
        return response

    def _turned_away(self, request: web.Request, status: int, body: dict[str, Any]) -> web.Response:
        self.refused.append((request.method, request.path))
        headers = {"Via": "1.1 google"}
        if status == 429:
            headers["Retry-After"] = str(body["retry_after"])
        return as_json(body, status=status, headers=headers)

    def _take_from_bucket(self, request: web.Request) -> tuple[int, float]:
        chat = request.match_info.get("chat", "")
        limit, per = self.per_channel
        if not chat:
            return limit, 0.0
        now = wall_clock()
        spent = [at for at in self._spent.get(f"{request.method}{chat}", []) if at > now - per]
        if len(spent) >= limit:
            return -1, round(spent[0] + per - now, 3)
        self._spent[f"{request.method}{chat}"] = [*spent, now]
        return limit - len(spent) - 1, (spent[0] if spent else now) + per - now

    async def _me(self, request: web.Request) -> web.Response:
        return as_json(BOT.payload)

    async def _application(self, request: web.Request) -> web.Response:
        body = {"id": BOT.id, "name": "midflight", "description": "", "icon": None, "flags": 0}
        body |= {"bot_public": False, "bot_require_code_grant": False, "verify_key": ""}
        return as_json(body | {"owner": User("1", "owner").payload})

    async def _commands(self, request: web.Request) -> web.Response:
        extra = {"application_id": BOT.id, "version": "1", "default_member_permissions": None}
        given = await request.json()
        self.commands = [each | extra | {"id": snowflake()} for each in given]
        return as_json(self.commands)

    async def _cdn(self, request: web.Request) -> web.Response:
        return web.Response(body=self.files[request.match_info["name"]])

    async def _channel(self, request: web.Request) -> web.Response:
        return as_json(self.channels[request.match_info["chat"]].payload(BOT))

    async def _member(self, request: web.Request) -> web.Response:
        user = self.people[request.match_info["user"]]
        return as_json(user.member | {"user": user.payload})

    async def _history(self, request: web.Request) -> web.Response:
        chat, asked = request.match_info["chat"], request.query
        here = [m for m in self.messages.values() if m.channel == chat and not m.deleted]
        if chat in self.closed_channels:
            return problem(404, 10003, "Unknown Channel")
        after, limit = int(asked.get("after", "0")), int(asked.get("limit", "50"))
        before = int(asked.get("before", str(1 << 63)))
        found = [m for m in here if after < int(m.id) < before]
        found = found[:limit] if "after" in asked else found[-limit:]
        sent = [self.payload(m) for m in reversed(found)]
        return as_json([{k: v for k, v in m.items() if k != "member"} for m in sent])

    async def _create(self, request: web.Request) -> web.Response:
        chat = request.match_info["chat"]
        if chat in self.closed_channels or chat not in self.channels:
            return problem(404, 10003, "Unknown Channel")
        body, files = await parts(request)
        if why := wrong(body):
            return problem(400, 50035, why)
        if body.get("components") and not self.takes_buttons:
            return problem(400, 50035, "Invalid Form Body")
        if files and self.files_forbidden:
            return problem(403, 50013, "Missing Permissions")
        if body.get("message_reference") and self.replies_forbidden:
            return problem(400, 160002, "Cannot reply without permission to read message history")
        if sum(len(data) for _, data in files) > self.upload_max:
            return problem(413, 40005, "Request entity too large")
        ours = [m for m in self.messages.values() if m.channel == chat and m.author is BOT]
        fresh = [m for m in ours if m.nonce and wall_clock() - made_at(m.id) < self.nonces_kept_s]
        same = (m for m in fresh if m.nonce == body.get("nonce"))
        if body.get("enforce_nonce") and (message := next(same, None)) is not None:
            return as_json(self.payload(message))
        message = Message(
            snowflake(),
            chat,
            BOT,
            body.get("content") or "",
            body.get("components", []),
            [self.attachment(name, data) for name, data in files],
            body.get("message_reference"),
            str(body.get("nonce", "")),
        )
        self.messages[message.id] = message
        self._fetch_for_previews(body)
        await self.gateway.dispatch("MESSAGE_CREATE", self.payload(message))
        return as_json(self.payload(message))

    def _fetch_for_previews(self, body: dict[str, Any]) -> None:
        """Discord fetches each address in a message, to show what is there, unless told not to."""
        if not body.get("flags", 0) & SUPPRESS_EMBEDS:
            self.fetched += re.findall(r"https?://\S+", body.get("content") or "")

    async def _edit(self, request: web.Request) -> web.Response:
        message = self.messages.get(request.match_info["message"])
        if message is None or message.deleted:
            return problem(404, 10008, "Unknown Message")
        body, _ = await parts(request)
        if why := wrong(body):
            return problem(400, 50035, why)
        message.edits.append(message.content)
        message.content = body.get("content", message.content)
        message.components = body.get("components", message.components)
        return as_json(self.payload(message))

    async def _thread(self, request: web.Request) -> web.Response:
        if self.threads_forbidden:
            return problem(403, 50013, "Missing Permissions")
        parent, message = request.match_info["chat"], request.match_info["message"]
        if message in self.channels:
            return problem(400, 160004, "A thread has already been created for this message")
        name = (await request.json())["name"]
        channel = self.add(Channel(message, THREAD, GUILD, name, parent))
        await self.gateway.dispatch("THREAD_CREATE", channel.payload(BOT))
        return as_json(channel.payload(BOT))

    def attachment(self, name: str, data: bytes, kind: str = "") -> dict[str, Any]:
        number = snowflake()
        self.files[number] = data
        url = f"{self.address}/cdn/{number}"
        body = {"id": number, "filename": name, "size": len(data), "url": url, "proxy_url": url}
        return body | ({"content_type": kind} if kind else {})

    # ── interactions ─────────────────────────────────────────────────────────────────────────

    async def _callback(self, request: web.Request) -> web.Response:
        found = self.interactions.get(request.match_info["token"])
        if found is None or wall_clock() - found.sent_at > IN_TIME_S:
            return problem(404, 10062, "Unknown interaction")
        if found.acknowledged:
            return problem(400, 40060, "Interaction has already been acknowledged.")
        body, _ = await parts(request)
        data = body.get("data") or {}
        if why := wrong_modal(data) if body["type"] == 9 else wrong(data):
            return problem(400, 50035, why)
        found.acknowledged, found.acknowledged_after = body["type"], wall_clock() - found.sent_at
        if body["type"] == 9:
            found.modal = data
        if body["type"] == 4:
            found.answers.append(self._answer(found, data))
            self._fetch_for_previews(data)
        inner = {"id": found.id, "type": found.kind, "response_message_loading": False}
        return as_json({"interaction": inner})

    async def _followup(self, request: web.Request) -> web.Response:
        found = self.interactions.get(request.match_info["token"])
        if found is None or not found.acknowledged:
            return problem(404, 10015, "Unknown Webhook")
        if found.expired:
            return problem(401, 50027, "Invalid Webhook Token")
        body, _ = await parts(request)
        if why := wrong(body):
            return problem(400, 50035, why)
        if self.hold_answers is not None:
            self.held += 1
            await self.hold_answers.wait()
        found.answers.append(self._answer(found, body))
        self._fetch_for_previews(body)
        return as_json(self.payload(found.answers[-1]))

    def _answer(self, found: Interaction, data: dict[str, Any]) -> Message:
        content, parts_shown = data.get("content") or "", data.get("components", [])
        flags = data.get("flags", 0)
        return Message(snowflake(), found.channel, BOT, content, parts_shown, flags=flags)


# ── what Discord refuses ─────────────────────────────────────────────────────────────────────────


def _role(number: str, name: str) -> dict[str, Any]:
    return {"id": number, "name": name, "permissions": "0", "position": 0, "colors": {}}


def as_json(body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """As Discord answers: without a charset, which discord.py does not expect."""
    packed = json.dumps(body).encode()
    return web.Response(
        body=packed, status=status, headers=headers, content_type="application/json"
    )


def problem(status: int, code: int, message: str) -> web.Response:
    return as_json({"code": code, "message": message}, status=status)


async def parts(request: web.Request) -> tuple[dict[str, Any], list[tuple[str, bytes]]]:
    """The body of a request, and the files that come with it."""
    if not request.content_type.startswith("multipart/"):
        body: dict[str, Any] = await request.json()
        return body, []
    form = await request.post()
    files = [(f.filename, f.file.read()) for f in form.values() if isinstance(f, web.FileField)]
    return json.loads(str(form["payload_json"])), files


def wrong(body: dict[str, Any]) -> str:
    """Why Discord would not take a message, if it would not."""
    rows = body.get("components") or []
    shown = [part for row in rows for part in row["components"]]
    codes = [part["custom_id"] for part in shown]
    buttons = [part for part in shown if part["type"] == 2]
    menus = [part for part in shown if part["type"] == 3]
    empty = "content" in body and not (body["content"] or body.get("attachments"))
    pings = (body.get("allowed_mentions") or {}).get("parse") != []
    reasons = {
        "it would ping whomever it names": bool(body.get("content")) and pings,
        "content is too long": len(body.get("content") or "") > 2000,
        "cannot send an empty message": empty,
        "nonce is too long": len(str(body.get("nonce") or "")) > 25,
        "too many rows": len(rows) > 5,
        "too many buttons in a row": any(len(row["components"]) > 5 for row in rows),
        "label": any(not 0 < len(part["label"]) <= 80 for part in buttons),
        "custom_id is too long": any(not 0 < len(code) <= 100 for code in codes),
        "custom_id is not unique": len(set(codes)) < len(codes),
        "options": any(not 0 < len(part["options"]) <= 25 for part in menus),
    }
    return next((why for why, is_so in reasons.items() if is_so), "")


def wrong_modal(data: dict[str, Any]) -> str:
    fields = [label["component"] for label in data["components"]]
    texts = [part for part in fields if part["type"] == 4]
    reasons = {
        "title": not 0 < len(data["title"]) <= 45,
        "fields": not 0 < len(fields) <= 5,
        "label": any(not 0 < len(label["label"]) <= 45 for label in data["components"]),
        "value": any(len(part.get("value") or "") > 4000 for part in texts),
        "custom_id": len(data["custom_id"]) > 100,
    }
    return next((why for why, is_so in reasons.items() if is_so), "")


@asynccontextmanager
async def standing_in() -> AsyncIterator[StandIn]:
    """Serve on a free port of loopback, and point discord.py there."""
    service = StandIn()
    runner = web.AppRunner(service.app(), access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    service.address = f"http://127.0.0.1:{port}"
    service.gateway.address = f"ws://127.0.0.1:{port}/gateway"
    base, gateway = Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY
    Route.BASE = f"{service.address}/api/v10"
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(service.gateway.address)
    try:
        yield service
    finally:
        Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = base, gateway
        await runner.cleanup()
