"""The way in, before any route: access, quotas, and one line of audit for every control.

It stands around the whole app, so a route that somebody adds is closed until they open it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from midflight.audit.visit import Visit, visiting
from midflight.inputs import Clock
from midflight.kernel.record import Actor
from midflight.server.access import SAFE, SUBPROTOCOL, Access
from midflight.server.auditing import DoorAudit
from midflight.server.elsewhere import allowed, is_preflight
from midflight.server.metrics import Metrics
from midflight.server.problems import Problem
from midflight.server.quotas import Meter, swallow

POLICY: Final = 1008  # the code for a WebSocket that is not wanted
audit: Final = logging.getLogger("midflight.audit")
HARDENED: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
"""For answers that do not say otherwise: all of them are data of this moment for one caller."""

HSTS: Final = (b"strict-transport-security", b"max-age=31536000")
"""Where people open the server over TLS, browsers are told never to come without it."""


class Door:
    """An ASGI middleware; ``app`` sees only requests that may come in."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        meter: Meter,
        metrics: Metrics,
        clock: Clock,
        records: DoorAudit,
    ) -> None:
        self._app = app
        self._records = records
        self._access = access
        self._meter = meter
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await self._websocket(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Apply the same rules; a caller that is not let in is told no more than that."""
        with visiting(_visit(scope)) as visit:
            await self._call(scope, receive, send, visit)

    async def _call(self, scope: Scope, receive: Receive, send: Send, visit: Visit) -> None:
        try:
            who = self._access.admit({**scope, "method": "GET"}, local_path(scope))
            self._meter.count_request(who.by if who else f"guest {_client(scope)}")
            if who is None:
                raise Problem(401, "not_known", "who are you?")
        except Problem as problem:
            visit.why = problem.body["error"]
            asked = {**scope, "method": "CALL"}  # by voice
            await self._records.answered(asked, visit, problem.status_code, {})
            await send({"type": "websocket.close", "code": POLICY, "reason": problem.body["error"]})
            return
        state = scope.setdefault("state", {})
        state["who"], state["still_known"] = who, partial(self._access.still_knows, scope)

        async def answer(message: Message) -> None:
            if message["type"] == "websocket.accept" and SUBPROTOCOL in scope["subprotocols"]:
                message = {**message, "subprotocol": SUBPROTOCOL}  # or browsers hang up
            await send(message)

        await self._app(scope, receive, answer)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        with visiting(_visit(scope)) as visit:
            await self._answered(scope, receive, send, visit)

    async def _answered(self, scope: Scope, receive: Receive, send: Send, visit: Visit) -> None:
        began, status, counted = self._clock(), 500, False
        who: Actor | None = None

        async def answer(message: Message) -> None:
            nonlocal status, counted
            if message["type"] == "http.response.start":
                status = message["status"]
                told = getattr(Request(scope).state, "audit", {})
                counted = not await self._records.answered(scope, visit, status, told)
                headers = _hardened(message.get("headers", ()))
                if self._access.public_url.startswith("https://"):
                    headers.append(HSTS)
                message = {**message, "headers": headers + allowed(scope, self._access.origins)}
            await send(message)

        try:
            who = await self._admit(scope, receive, visit)
            state = scope.setdefault("state", {})
            state["who"], state["still_known"] = who, partial(self._access.still_knows, scope)
            inside = _preflight if is_preflight(scope) else self._app
            body = self._meter.body(
                receive,
                caller=who.by if who else f"guest {_client(scope)}",
                limit=self._body_limit(who),
            )
            await inside(scope, body, answer)
        except Problem as problem:
            visit.why = problem.body["error"]
            await problem.response()(scope, receive, answer)
        finally:
            self._note(scope, who, status, self._clock() - began, quiet=counted)

    async def _admit(self, scope: Scope, receive: Receive, visit: Visit) -> Actor | None:
        headers = Headers(scope=scope)
        try:
            who = self._access.admit(scope, local_path(scope))
        except Problem as problem:
            self._meter.count_request(f"stranger {_client(scope)}")
            if not await swallow(receive, stranger=True):
                problem.headers = {**(problem.headers or {}), "connection": "close"}
            raise
        if who is not None:
            visit.by, visit.role = who.by, str(who.role)
        self._meter.count_request(who.by if who else f"guest {_client(scope)}")
        length = headers.get("content-length", "0")
        limit = self._body_limit(who)
        if not length.isdigit() or int(length) > limit:
            raise await self._meter.refused(receive, limit)
        has_body = int(length) > 0 or "transfer-encoding" in headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if has_body and headers.get("content-encoding", "identity").lower() != "identity":
            await swallow(receive, stranger=who is None)
            raise Problem(415, "packed", "send the body as it is, without `Content-Encoding`.")
        if scope["method"] not in SAFE and has_body and kind != "application/json":
            await swallow(receive, stranger=who is None)
            raise Problem(415, "not_json", "send the body as `Content-Type: application/json`.")
        return who

    def _body_limit(self, who: Actor | None) -> int:
        quotas = self._meter.quotas
        return quotas.body_bytes if who else min(quotas.body_bytes, quotas.guest_body_bytes)

    def _note(
        self, scope: Scope, who: Actor | None, status: int, seconds: float, *, quiet: bool
    ) -> None:
        route = getattr(scope.get("route"), "path", "none")
        labels: dict[str, Any] = {"route": route, "method": _method(scope)}
        self._metrics.count("midflight_requests_total", **labels, status=status)
        self._metrics.count("midflight_request_seconds_total", seconds, **labels)
        if scope["method"] in SAFE or quiet:
            return
        audit.info(
            "Control",
            extra={
                "action": "control",
                "by": who.by if who else "",
                "role": str(who.role) if who else "",
                "method": _method(scope),
                "route": route,
                "target": dict(scope.get("path_params", {})),
                "status": status,
                **getattr(Request(scope).state, "audit", {}),
            },
        )


_preflight: Final = Response(status_code=204)
"""All that it says is in the headers that every answer to a named origin has."""


def local_path(scope: Scope) -> str:
    """The path below the place where the app is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) or "/" if root and path.startswith(root) else path


def _method(scope: Scope) -> str:
    known = {"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"}
    return str(scope["method"]) if scope["method"] in known else "other"


def _visit(scope: Scope) -> Visit:
    """Return where a request comes from, and through which of the server's doors."""
    last = str(scope["path"]).rstrip("/").rpartition("/")[2]
    return Visit(last if last in {"agui", "voice"} else "http", _client(scope))


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _hardened(headers: Any) -> list[tuple[bytes, bytes]]:
    said = list(headers)
    names = {name.lower() for name, _ in said}
    return said + [(name, value) for name, value in HARDENED if name not in names]
