"""The way in, before any route: access, quotas, and one record of the audit for every control."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import anyio
from msgspec.structs import replace
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from midflight.audit import (
    DONE,
    FAILED,
    REFUSED,
    Flood,
    Head,
    Visit,
    begin_visit,
    current_visit,
    deed,
    visiting,
)
from midflight.control import Control
from midflight.control.audit_trail import (
    RECORD_S,
    reason,
    record_counted,
    record_now,
    record_refusal,
    summed_up,
)
from midflight.errors import MidflightError, StoreError
from midflight.inputs import Clock, new_id
from midflight.interfaces.http.access.access import SAFE, SUBPROTOCOL, Access, allowed, is_preflight
from midflight.interfaces.http.access.quotas import Meter, Metrics, swallow
from midflight.interfaces.http.problems import Problem
from midflight.journal.record import Actor

LOGIN: Final = "/v1/session"
ACTIONS: Final = {LOGIN: "login", "/v1/leave": "logout"}
TENDED_S: Final = 5.0  # after which keys and counts are looked at
HEAD_S: Final = 60.0  # after which the head is logged, if there is a new one
LAST_S: Final = 2.0
log: Final = logging.getLogger("midflight.audit")


class DoorAudit:
    """Records what comes to the door of an app."""

    def __init__(self, control: Control, access: Access, clock: Callable[[], float]) -> None:
        self._control, self._access = control, access
        self._floods = Flood(clock)  # of strangers
        self._floods_of_callers = Flood(clock)  # or strangers could use up the records of others

    async def answered(self, scope: Scope, visit: Visit, status: int, told: dict[str, Any]) -> bool:
        """Record a request that is about to be answered; False if it is only counted."""
        if visit.records or not self._concerns(scope, status):  # layer door-refuses-recorded
            return True
        refused = status >= 400
        source = f"{visit.by} {visit.address}".strip()
        floods = self._floods_of_callers if visit.by else self._floods
        if refused and not floods.admits(source):  # layer flood-of-refusals-few-records
            return False
        about = {"method": str(scope["method"]), "status": status}
        asked = deed(
            *_asked(scope),
            id=new_id(),
            outcome=_outcome(status),
            why=visit.why or (f"http_{status}" if refused else ""),
            about=about,
        )
        by, role = told.get("by", asked.by), told.get("role", asked.role)
        await self.tend()
        await record_now(self._control.store, replace(asked, by=by, role=role))
        return True

    def _concerns(self, scope: Scope, status: int) -> bool:
        """Return whether it is a control, or somebody who could not come in."""
        if scope["method"] not in SAFE:
            return True
        headers = Headers(scope=scope)
        return status == 401 and ("authorization" in headers or self._has_cookie(headers))

    def _has_cookie(self, headers: Headers) -> bool:
        return bool(self._access.session_in(headers))

    async def tend(self, *, last: bool = False) -> None:
        """Record changes of keys, and refusals that were counted."""
        for floods in (self._floods, self._floods_of_callers):
            await record_now(self._control.store, *summed_up(floods, "http", all_of_them=last))
        await record_counted(self._control, last=last)
        await self._keys()

    async def _keys(self) -> None:
        try:
            changes = self._access.keyring.changes()
            if not changes:
                return
            with anyio.fail_after(RECORD_S, shield=True):
                await self._control.store.audit(*changes)
            ids = [change.id for change in changes]
            await anyio.to_thread.run_sync(self._access.keyring.forget_changes, ids)
        except (MidflightError, OSError) as error:  # they stay in the file, for the next time
            about = {"action": "key_changes_not_recorded", "error": str(error)}
            words = "Changes of keys could not be recorded in the audit yet; trying again: %s"
            log.error(words, error, extra=about)

    async def run(self) -> None:
        """Tend to it for as long as a server runs, and log the head of the chain."""
        known, told_at = Head(), 0.0
        try:
            while True:
                await self.tend()
                if anyio.current_time() >= told_at + HEAD_S:
                    told_at = anyio.current_time()
                    known = await self._tell_head(known)
                await anyio.sleep(TENDED_S)
        finally:
            with anyio.move_on_after(LAST_S, shield=True):
                await self.tend(last=True)
                await self._tell_head(known)

    async def _tell_head(self, known: Head) -> Head:
        """Log the head of the chain: with a log that is kept elsewhere the chain can be checked."""
        try:
            head = await self._control.store.audit_head()
        except StoreError:
            return known
        if head != known:
            log.info("Audit head", extra={"action": "audit_head", "head": head.text})
        return head


def at_own_door(name: str, request: Request, who: Actor) -> Visit | None:
    """Have a router that stands in an app of others say where this request comes from.

    Gives None where our own door stands around the app: it records what is refused.
    """
    if current_visit().door:
        return None
    address = request.client.host if request.client else ""
    visit = Visit(name, address, by=who.by, role=str(who.role))
    begin_visit(visit)  # a request has a context of its own, which ends with it
    return visit


async def refused_at(
    visit: Visit | None, control: Control, target: str, error: Problem | MidflightError
) -> None:
    """Record what such a router has refused, unless a verb has recorded it."""
    if visit is not None and not visit.records:
        why = error.body["error"] if isinstance(error, Problem) else reason(error)
        await record_refusal(control, deed("request", target, id=new_id(), why=why))


def _outcome(status: int) -> str:
    if status < 400:
        return DONE
    return REFUSED if status < 500 else FAILED


def _asked(scope: Scope) -> tuple[str, str]:
    """Return what a request asks for and of what, from its path: no route may have seen it."""
    path = str(scope["path"])
    for ending, action in ACTIONS.items():
        if path.endswith(ending):
            return action, ""
    if scope["method"] in SAFE:
        return "login", ""
    *before, last = path.rstrip("/").split("/") or [""]
    return last.replace("-", " ") or "request", before[-1] if before else ""


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
                raise Problem(
                    401,
                    "not_known",
                    "this server does not know who you are. Open a link that lets you in.",
                )
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
        # layer body-json-and-says
        if scope["method"] not in SAFE and has_body and kind != "application/json":
            await swallow(receive, stranger=who is None)
            raise Problem(415, "not_json", "send the body as `Content-Type: application/json`.")
        return who

    def _body_limit(self, who: Actor | None) -> int:
        quotas = self._meter.quotas
        # layer body-before-login-small
        return quotas.body_bytes if who else min(quotas.body_bytes, quotas.guest_body_bytes)

    def _note(
        self, scope: Scope, who: Actor | None, status: int, seconds: float, *, quiet: bool
    ) -> None:
        route = getattr(scope.get("route"), "path", "none")
        labels: dict[str, Any] = {"route": route, "method": _method(scope)}
        self._metrics.count("midflight_requests_total", **labels, status=status)
        self._metrics.count("midflight_request_seconds_total", seconds, **labels)
        if scope["method"] in SAFE or quiet:  # layer control-leaves-line-of-audit
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
