"""Checks a request before any route sees it: its host, its origin and its key must be right."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec import Struct
from starlette.datastructures import Headers, QueryParams
from starlette.requests import HTTPConnection, cookie_parser
from starlette.types import Scope

from midflight.errors import MidflightError
from midflight.inputs import LOOPBACK
from midflight.interfaces.http.access.keyring import Keyring
from midflight.interfaces.http.page import is_page
from midflight.interfaces.http.problems import Problem
from midflight.journal.record import Actor

PREFLIGHT_S: Final = 600  # how long a browser need not ask again
PREFLIGHT: Final = (
    (b"access-control-allow-methods", b"GET, POST"),
    (
        b"access-control-allow-headers",
        b"authorization, content-type, idempotency-key, last-event-id, x-midflight, "
        b"x-midflight-page",
    ),
    (b"access-control-max-age", b"%d" % PREFLIGHT_S),
)


def is_preflight(scope: Scope) -> bool:
    """Return whether this is a browser's preflight request, which carries no key."""
    headers = Headers(scope=scope)
    asks = "origin" in headers and "access-control-request-method" in headers
    return asks and scope["method"] == "OPTIONS"


def allowed(scope: Scope, origins: Collection[str]) -> list[tuple[bytes, bytes]]:
    """The headers with which the browser lets the page read an answer; none if it is not named."""
    origin = Headers(scope=scope).get("origin")
    if origin is None or origin not in origins:
        return []
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-credentials", b"true"),
        (b"access-control-expose-headers", b"retry-after"),
        (b"vary", b"Origin"),
        *(PREFLIGHT if is_preflight(scope) else ()),
    ]


HERE: Final = tuple(f"[{name}]" if ":" in name else name for name in LOOPBACK)
"""The names of this machine as they stand in the ``Host`` header of a request."""

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
CUSTOM_HEADER: Final = "x-midflight"
PAGE_HEADER: Final = "x-midflight-page"
SUBPROTOCOL: Final = "midflight"
PAGE_SUBPROTOCOL: Final = "midflight.page."
"""A page cannot give a WebSocket a header; it offers the page secret after this prefix."""
SECRETS_IN_QUERIES: Final = frozenset(
    {"token", "access_token", "api_key", "apikey", "key", "code", "session", "authorization"}
)
PUBLIC: Final = frozenset({"/healthz", "/openapi.json", "/v1/session"})


class Access(Struct):
    """The rules by which a request is let in: a keyring, and the hosts and origins that may ask.

    ``hosts`` are the names under which the server may be asked for, without ports; ``origins``
    are pages of other sites that may use it, such as ``https://desk.example.com``. ``public_url``
    is the origin that people see where something in front of the server speaks TLS.
    """

    keyring: Keyring
    hosts: Collection[str] = HERE
    origins: Collection[str] = ()
    public_url: str = ""
    public: Collection[str] = PUBLIC

    def admit(self, scope: Scope, path: str) -> Actor | None:
        """Return the caller, or None where nobody has to say who they are; else raise ``Problem``.

        Pages, paths that are open to all and preflight requests need no key.
        """
        headers = Headers(scope=scope)
        self._check_host(headers)  # layer host-checked
        self._check_origin(headers)
        _check_query(scope["query_string"].decode("latin-1"))  # layer secret-in-query-refused
        # layer stranger-not-let
        if path in self.public or (is_page(path) and scope["method"] in SAFE):
            return None
        if is_preflight(scope):
            return None
        return self._identify(headers, str(scope["method"]))

    def is_secure(self, scheme: str) -> bool:
        """Return whether browsers come over TLS, to this server or to a proxy in front of it."""
        # layer behind-tls-cookie-goes-over-tls
        return scheme == "https" or self.public_url.startswith("https://")

    def cookie_name(self, headers: Headers) -> str:
        """Return how the cookie is called; where people come over TLS no other host can set it."""
        prefix = "__Host-" if self.public_url.startswith("https://") else ""
        return prefix + cookie_name(headers)

    def session_in(self, headers: Headers) -> str:
        """Return the session's cookie that a request brings; empty if it brings none."""
        return cookie_parser(headers.get("cookie", "")).get(self.cookie_name(headers), "")

    def still_knows(self, scope: Scope) -> bool:
        """Return whether this request would still be let in now; in doubt it would not."""
        try:
            self._identify(Headers(scope=scope), "GET")
        except (Problem, MidflightError, OSError):
            return False
        return True

    def _check_host(self, headers: Headers) -> None:
        names = headers.getlist("host")
        host = names[0] if len(names) == 1 else ""
        if "*" not in self.hosts and _split(host)[0].lower() not in self.hosts:
            raise Problem(
                421,
                "wrong_host",
                "this server does not answer to the host name in this request. Use the address "
                "that the server printed, or start it with `--allow-host NAME`.",
            )

    def _check_origin(self, headers: Headers) -> None:
        """Refuse requests of pages that are neither our own nor of an origin that was named."""
        origin = headers.get("origin")
        if origin is None:
            return
        named = origin in self.origins or bool(origin and origin == self.public_url)
        if not named and not self._is_own(origin, headers.get("host", "")):  # layer origin-checked
            raise Problem(
                403,
                "wrong_origin",
                "this request came from a page of another site, which may not use this server. The "
                "server's operator can allow the site with `--allow-origin URL`.",
            )

    def _is_own(self, origin: str, host: str) -> bool:
        """Return whether the page came from this server, over TLS where people open it over TLS.

        Without the rule about TLS, somebody on the way could write a page under our name, and a
        browser sends no preflight request before such a page opens a WebSocket.
        """
        scheme, _, name = origin.partition("://")
        if scheme not in {"http", "https"} or not name or name != host:  # layer no-page-without
            return False
        # layer behind-tls-page-came-without
        return scheme == "https" or not self.public_url or _split(name)[0].lower() in HERE

    def _identify(self, headers: Headers, method: str) -> Actor:
        authorization = headers.get("authorization")
        if authorization is not None:
            return self._bearer(authorization)
        cookie = self.session_in(headers)
        who = self.keyring.of_session(cookie, page_secret_in(headers)) if cookie else None
        if who is None:
            raise Problem(
                401,
                "not_known",
                "this server does not know who you are. Open a link that lets you in, or send a "
                "token as `Authorization: Bearer …`.",
                headers={"www-authenticate": "Bearer"},
            )
        if method not in SAFE and CUSTOM_HEADER not in headers:  # layer press-by-cookie-needs
            raise Problem(
                403,
                "header_missing",
                "a request with a cookie needs the header `X-Midflight: 1` too.",
            )
        return who

    def _bearer(self, authorization: str) -> Actor:
        scheme, _, token = authorization.partition(" ")
        who = self.keyring.of_token(token.strip()) if scheme.lower() == "bearer" else None
        if who is None:
            raise Problem(
                401,
                "not_known",
                "this token is not valid here. Ask the operator of the server for another.",
                headers={"www-authenticate": "Bearer"},
            )
        return who


def cookie_name(headers: Headers) -> str:
    """Return a cookie name with the port: browsers send cookies to every port of a host."""
    return f"midflight_{_split(headers.get('host', ''))[1] or 'http'}"


def page_secret_in(headers: Headers) -> str:
    """Return the page secret that a request brings; empty if it brings none."""
    offered = headers.get("sec-websocket-protocol", "").split(",")
    for protocol in map(str.strip, offered):
        if protocol.startswith(PAGE_SUBPROTOCOL):
            return protocol.removeprefix(PAGE_SUBPROTOCOL)
    return headers.get(PAGE_HEADER, "")


def caller(connection: HTTPConnection) -> Actor:
    """Return the caller, whom the door has let in already; every route depends on this."""
    who: Actor = connection.state.who
    return who


def _split(host: str) -> tuple[str, str]:
    """Name and port; none where there are only the colons of an IPv6 address."""
    name, colon, port = host.rpartition(":")
    return (name, port) if colon and port.isascii() and port.isdigit() else (host, "")


def _check_query(query: str) -> None:
    if query and SECRETS_IN_QUERIES & {name.lower() for name in QueryParams(query)}:
        raise Problem(
            400,
            "secret_in_url",
            "the URL of this request carries a secret, and URLs end up in logs, so the request was "
            "refused. Send a token as `Authorization: Bearer …`. Others may have read the secret "
            "in this URL: have it revoked, and use a new one.",
        )
