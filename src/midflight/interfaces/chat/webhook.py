"""A channel over plain HTTP: deliveries signed as the Standard Webhooks specification says."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from hashlib import sha256
from typing import Any, Final

import anyio
import msgspec
from anyio import to_thread
from msgspec import Struct

from midflight.errors import InvalidRequest, MidflightError, to_install
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.interfaces.chat.channel import (
    STRANGER,
    Action,
    ChatGone,
    Form,
    Heard,
    NotNow,
    NotTaken,
    Post,
    PostGone,
    attached,
    mark,
)
from midflight.interfaces.chat.switchboard import Switchboard
from midflight.tools.declaration import ToolRefused

TOLERANCE_S: Final = 300.0
SECRET_BYTES_MIN: Final = 24
SEEN_MAX: Final = 100_000  # within the tolerance; more than that is not a chat
PREFIX: Final = "whsec_"


class NotGenuine(InvalidRequest):
    """A delivery has a wrong signature, is too old, or was taken before."""


class Signer:
    """Signs what goes out and checks what comes in, with one secret for each way or for both."""

    def __init__(self, secret: str, *, clock: Clock = wall_clock) -> None:
        self._secret = _decoded(secret)
        self._clock = clock
        self._seen: dict[str, float] = {}

    def sign(self, delivery: str, body: bytes) -> dict[str, str]:
        """Return the headers that go with a body."""
        stamp = str(int(self._clock()))
        return {
            "webhook-id": delivery,
            "webhook-timestamp": stamp,
            "webhook-signature": self._signature(delivery, stamp, body),
        }

    def check(self, headers: Mapping[str, str], body: bytes) -> str:
        """Give the id of a delivery that is genuine, fresh and new; raise ``NotGenuine`` if not."""
        delivery, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        is_stamped = stamp.isascii() and stamp.isdigit() and len(stamp) <= 12
        if not 0 < len(delivery) <= 128 or not is_stamped:
            raise NotGenuine("the delivery has no id or no timestamp. Nothing was changed.")
        given = headers.get("webhook-signature", "").split(" ")[:8]
        right = self._signature(delivery, stamp, body)
        genuine = [hmac.compare_digest(each.encode(), right.encode()) for each in given]
        if not any(genuine):  # layer has-not-signed-not-heard
            raise NotGenuine(
                "the signature of the delivery is wrong: check that both sides use the same "
                "secret. Nothing was changed."
            )
        now = self._clock()
        if abs(now - int(stamp)) > TOLERANCE_S:  # layer old-not-taken
            raise NotGenuine(
                f"the timestamp of the delivery and the clock of this server are "
                f"{abs(int(now - int(stamp)))} s apart: check the clocks, or send it anew. Nothing "
                "was changed."
            )
        self._once(right, now)
        return delivery

    def forget(self, headers: Mapping[str, str], body: bytes) -> None:
        """Forget a delivery that could not be taken, so that the same one may come again."""
        delivery, stamp = headers["webhook-id"], headers["webhook-timestamp"]
        self._seen.pop(self._signature(delivery, stamp, body), None)

    def _once(self, signature: str, now: float) -> None:
        """Refuse a signature that was seen before: a sender that tries again signs again."""
        if signature in self._seen:  # layer copy-not-taken
            raise NotGenuine("this delivery was received before. Nothing was changed.")
        while self._seen and now - next(iter(self._seen.values())) > 2 * TOLERANCE_S:
            del self._seen[next(iter(self._seen))]  # the oldest came first
        if len(self._seen) >= SEEN_MAX:
            raise NotGenuine(
                "too many deliveries at once; send it again later. Nothing was changed."
            )
        self._seen[signature] = now

    def _signature(self, delivery: str, stamp: str, body: bytes) -> str:
        signed = b".".join([delivery.encode(), stamp.encode(), body])
        return "v1," + base64.b64encode(hmac.new(self._secret, signed, sha256).digest()).decode()


def _decoded(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        key = b""
    if len(key) < SECRET_BYTES_MIN:
        raise InvalidRequest(
            f"the secret of the webhook is not valid: it must be {PREFIX}, followed by at least "
            f"{SECRET_BYTES_MIN} bytes in base64. Nothing was started."
        )
    return key


try:
    import httpcore

    from midflight.tools.http import Doorkeeper
except ImportError as error:
    needs = f"midflight.interfaces.chat.webhook needs an extra: {to_install('http')}"
    raise ImportError(needs) from error

NAME: Final = "webhook"
BODY_BYTES_MAX: Final = 256 * 1024
TIMEOUT_S: Final = 10.0
RETRY_AFTER_MAX_S: Final = 60.0
ABOUT_THIS: Final = frozenset({400, 413, 415, 422})  # other refusals are about us, or pass
AGAIN: Final = "Send it again under its id: nothing is done twice."

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Delivered(Struct, forbid_unknown_fields=True):
    """A delivery to us, with one of ``text``, ``press``, ``command``, ``edit`` and ``remove``.

    ``press`` is the code of a button, with ``fields`` where it has opened a form.
    """

    chat: str
    user: str
    name: str = ""
    text: str = ""
    press: str = ""
    command: str = ""
    fields: dict[str, str] | None = None
    edit: str = ""
    remove: str = ""


class Webhook:
    """Posts to ``url``; as an ASGI app it takes what is posted to it, once ``board`` is set."""

    name = NAME
    board: Switchboard

    def __init__(
        self, url: str, signer: Signer, *, allow: tuple[str, ...] = (), ids: Ids = new_id
    ) -> None:
        self._url, self._signer, self._allow, self._ids = url, signer, allow, ids

    # ── out ──────────────────────────────────────────────────────────────────────────────────

    async def post(self, chat: str, post: Post) -> str:
        """Deliver a post; return the id that the receiver gives it, or else ours."""
        ours = mark(f"{chat} {post.key}") if post.key else ""
        shown = await to_thread.run_sync(_shown, post)  # it reads files
        answer = await self._deliver({"type": "post", "chat": chat, "id": ours, **shown})
        return str(answer.get("id") or ours)

    async def edit(self, chat: str, message: str, post: Post) -> None:
        """Deliver a post that replaces another one."""
        await self._deliver({"type": "edit", "chat": chat, "id": message, **_shown(post)})

    async def _deliver(self, delivery: dict[str, Any]) -> dict[str, Any]:
        body = msgspec.json.encode(delivery)
        signed = self._signer.sign(self._ids(), body)  # what is shown has an id of its own
        headers = [("Content-Type", "application/json"), *signed.items()]
        try:
            with anyio.fail_after(TIMEOUT_S):
                async with httpcore.AsyncConnectionPool(  # layer private-addresses-not-told
                    network_backend=Doorkeeper(self._allow)
                ) as pool:
                    response = await pool.request("POST", self._url, headers=headers, content=body)
        except (ToolRefused, TimeoutError, httpcore.NetworkError, httpcore.ProtocolError) as error:
            why = str(error) or "it did not answer in time"
            raise NotNow(f"a delivery to {self._url} failed: {why}") from error
        return await _judged(self._url, response, edits=delivery["type"] == "edit")

    # ── in ───────────────────────────────────────────────────────────────────────────────────

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Take one delivery, and answer it with its result."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await _answer(send, 405, {"error": "a delivery has to be a POST. Nothing was changed."})
            return
        body = await _body(receive)
        if body is None:
            told = f"a delivery may have {BODY_BYTES_MAX:,} bytes, and this one has more."
            await _answer(send, 413, {"error": f"{told} It was not read."})
            return
        headers = {
            name.decode("latin-1").lower(): v.decode("latin-1") for name, v in scope["headers"]
        }
        try:
            delivery = self._signer.check(headers, body)
        except NotGenuine as error:
            client = scope.get("client") or ("",)
            await self.board.turn_away("", "login", user=str(client[0]), why="not_genuine")
            await _answer(send, 401, {"error": str(error)})
            return
        try:
            given = msgspec.json.decode(body, type=Delivered)
        except msgspec.MsgspecError as error:
            told = f"the delivery is not as docs/channels.md says: {error}."
            await _answer(send, 400, {"error": f"{told} Nothing was changed."})
            return
        try:
            taken = await self._take(delivery, given)
        except BaseException as error:
            self._signer.forget(headers, body)
            if not isinstance(error, MidflightError):
                raise
            taken = 503, {"error": f"{error} {AGAIN}"}
        await _answer(send, *taken)

    async def _take(self, delivery: str, given: Delivered) -> tuple[int, dict[str, Any]]:
        who = self.board.people.who(
            given.user, given.name or given.user, channel=NAME, chat=given.chat
        )
        if who is None:
            await self.board.turn_away(given.chat, "send", user=given.user)
            return 403, {"error": STRANGER}
        if given.press or given.command:
            return 200, await self._press(delivery, given, who)
        try:
            if given.edit:
                await self.board.correct(given.chat, given.edit, given.text, by=who.by)
            elif given.remove:
                await self.board.withdraw(given.chat, given.remove, by=who.by)
            else:
                await self.board.hear(given.chat, Heard(delivery, given.text), who)
        except InvalidRequest as error:
            return 403, {"error": str(error)}
        return 202, {}

    async def _press(self, delivery: str, given: Delivered, who: Any) -> dict[str, Any]:
        action = Action.read(given.press)
        if action is not None and action.wants_form and given.fields is None:
            form = await self.board.form(given.chat, action, who)
            return msgspec.to_builtins(form) if isinstance(form, Form) else _shown(form)
        code = given.press or given.command
        done = await self.board.press(
            given.chat, code, who, key=f"w{delivery}", fields=given.fields
        )
        return _shown(done)


def _shown(post: Post) -> dict[str, Any]:
    """Return a post for JSON: buttons with the codes that presses send back, files in base64."""
    buttons = [
        {"label": b.label, "press": b.action.code, "style": b.style, "enabled": b.enabled}
        for b in post.buttons
    ]
    for label, value in post.menu.options if post.menu is not None else ():
        assert post.menu is not None
        action = msgspec.structs.replace(post.menu.action, choice=value)
        buttons.append({"label": label, "press": action.code, "style": "plain", "enabled": True})
    packed = [
        {"name": name, "base64": base64.b64encode(data).decode()} for name, data in attached(post)
    ]
    return {"text": post.text, "answers": post.answers, "buttons": buttons, "files": packed}


async def _judged(url: str, response: httpcore.Response, *, edits: bool) -> dict[str, Any]:
    status = response.status
    if 200 <= status < 300:
        try:
            return msgspec.json.decode(response.content or b"{}", type=dict[str, Any])
        except msgspec.MsgspecError:
            return {}
    if status == 410:
        raise ChatGone(f"{url} answered 410 (Gone), so nothing more is sent to it")
    if status == 429:
        headers = {name.lower(): value for name, value in response.headers}
        wait = headers.get(b"retry-after", b"1")
        await anyio.sleep(min(float(wait) if wait.isdigit() else 1.0, RETRY_AFTER_MAX_S))
    if status == 429 or status >= 500:
        raise NotNow(f"{url} answers {status}")
    why = f"{url} does not take it ({status})"
    if edits and status == 404:
        raise PostGone(why)
    raise NotTaken(why) if status in ABOUT_THIS else NotNow(why)


async def _body(receive: Receive) -> bytes | None:
    found = bytearray()
    while True:
        message = await receive()
        found += message.get("body", b"")
        if len(found) > BODY_BYTES_MAX:
            return None
        if not message.get("more_body"):
            return bytes(found)


async def _answer(send: Send, status: int, body: dict[str, Any]) -> None:
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": msgspec.json.encode(body)})
