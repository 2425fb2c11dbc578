"""Pages and services of the public internet as tools; our own network is out of reach."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterable, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio
from msgspec import Struct
from typing_extensions import override

from midflight.errors import InvalidTool, to_install
from midflight.tools.declaration import Tool, ToolFailed, ToolRefused, tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


RESOLVE_S: Final = 10.0
ADDRESSES_MAX: Final = 8  # of one name that are tried

GLOBAL_V6: Final = ip_network("2000::/3")
NOT_GLOBAL: Final = tuple(
    map(
        ip_network,
        (
            "100.64.0.0/10",  # behind a provider's translation; holds a metadata address
            "168.63.129.16/32",  # a cloud's own service for its machines
            "192.0.0.0/24",
            "192.88.99.0/24",
            "198.18.0.0/15",
            "240.0.0.0/4",
            "2001::/23",  # Teredo and other protocol assignments
            "2001:db8::/32",
            "2002::/16",  # 6to4: holds an IPv4 address
            "3fff::/20",
        ),
    )
)
"""What ``is_global`` lets pass in some version of Python, or what only looks public."""


def is_public(address: str) -> bool:
    """Return whether an address belongs to the public internet.

    IPv6 is allowed only from the range that is handed out to everybody: this leaves out what holds
    an IPv4 address inside (mapped, compatible, NAT64), which would be another way to the same door.
    """
    try:
        found = ip_address(address)
    except ValueError:
        return False
    # layer ipv6-holds-ipv4-another-way
    if isinstance(found, IPv6Address) and (found not in GLOBAL_V6 or found.scope_id):
        return False
    special = found.is_multicast or found.is_private or found.is_reserved or not found.is_global
    return not special and not any(_is_in(found, network) for network in NOT_GLOBAL)


def _is_in(address: IPv4Address | IPv6Address, network: object) -> bool:
    return getattr(network, "version", 0) == address.version and address in network  # type: ignore[operator]


async def addresses(host: str, port: int, allow: Sequence[str]) -> list[str]:
    """Return the addresses of a host that a tool may connect to; refuse if there are none.

    ``allow`` names hosts with their ports, such as ``127.0.0.1:8080``, that need not be public.
    """
    try:
        with anyio.fail_after(RESOLVE_S):
            found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolRefused(f"{host} has no address: {error}. Nothing was sent.") from error
    resolved = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))[:ADDRESSES_MAX]
    if f"{host.lower().rstrip('.')}:{port}" in allow:
        return resolved
    public = [address for address in resolved if is_public(address)]  # layer address-judged
    if not public:
        raise ToolRefused(
            f"{host} is not on the public internet. Nothing was sent. A developer may allow it "
            f'with allow=("{host}:{port}",).'
        )
    return public


try:
    import httpcore
    import httpx
except ImportError as error:
    raise InvalidTool("http", f"it needs the extra `http`: {to_install('http')}") from error

BODY_BYTES_MAX: Final = 1_000_000
TIMEOUT_S: Final = 30.0
CONNECT_S: Final = 10.0
REDIRECTS_MAX: Final = 5
HEADERS_MAX: Final = 40
REDIRECTS: Final = (301, 302, 303, 307, 308)
OURS: Final = re.compile(
    r"(host|content-length|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|"
    r"accept-encoding|proxy-.*|x-forwarded-.*|forwarded|idempotency-key)",
    re.IGNORECASE,
)
"""Headers that say where a request goes, begins and ends: a model has no say in them."""
FOR_EVERYBODY: Final = ("accept", "accept-language", "user-agent")
"""Headers that go along to another site. What may be a secret was meant for the first one."""
SHOWN: Final[tuple[str, ...]] = (
    "content-type",
    "content-length",
    "last-modified",
    "etag",
    "location",
    "retry-after",
)
CHARSETS: Final = ("utf-8", "us-ascii", "iso-8859-1", "iso-8859-15", "windows-1252", "utf-16")


class Page(Struct, frozen=True):
    """The answer of a server. An error status is an answer too."""

    status: int
    url: str
    text: str
    headers: dict[str, str]
    note: str = ""


class Http(Struct, frozen=True):
    """Tools for the public internet; ``allow=("127.0.0.1:8080",)`` names other hosts."""

    allow: tuple[str, ...] = ()
    name: str = "http"
    approval: bool | str = True
    timeout_s: float = TIMEOUT_S
    body_bytes_max: int = BODY_BYTES_MAX
    tls: ssl.SSLContext | None = None
    """Where other authorities than the usual ones are to be trusted."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Both of them, for a model."""
        return self.http_get, self.http_send

    @property
    def http_get(self) -> Tool:
        """Reads."""
        limit = self.timeout_s + 5.0
        declare = tool(effect="read", name=f"{self.name}_get", timeout=limit, outside=True)
        return declare(self._get)

    @property
    def http_send(self) -> Tool:
        """Does something, once."""
        declare = tool(
            effect="once",
            name=f"{self.name}_send",
            label="request",
            describe="request {method} {url}",
            approval=self.approval,
            timeout=self.timeout_s + 5.0,
            outside=True,
        )
        return declare(self._send)

    async def _get(
        self,
        url: str,
        method: Literal["GET", "HEAD"] = "GET",
        headers: dict[str, str] | None = None,
    ) -> Page:
        """Fetch a page of the public internet by http or https. Redirects are followed."""
        target, given = _checked_url(url), _checked_headers(headers)
        async with self._pool() as pool, self._in_time(target):
            for _ in range(REDIRECTS_MAX + 1):
                page, location = await self._ask(pool, method, target, given, b"")
                if not location:
                    return page
                onward = _checked_url(location, after=target)
                if _origin(onward) != _origin(target):  # layer secrets-stay-with-site
                    given = {key: v for key, v in given.items() if key.lower() in FOR_EVERYBODY}
                target = onward
        raise ToolFailed(
            f"{url} leads through more than {REDIRECTS_MAX} redirects. No page was read."
        )

    async def _send(
        self,
        url: str,
        method: Literal["POST", "PUT", "PATCH", "DELETE"] = "POST",
        body: str = "",
        headers: dict[str, str] | None = None,
        idempotency_key: str = "",
    ) -> Page:
        """Send a request that may change something, once. A redirect is told and not followed."""
        target, given = _checked_url(url), _checked_headers(headers)
        if idempotency_key:
            mark = blake2b(idempotency_key.encode(), digest_size=16).hexdigest()
            given["Idempotency-Key"] = mark  # the same at a repeat; the run's id is not told
        async with self._pool() as pool, self._in_time(target):
            page, _ = await self._ask(pool, method, target, given, body.encode())
        return page

    async def _ask(
        self,
        pool: httpcore.AsyncConnectionPool,
        method: str,
        url: httpx.URL,
        headers: dict[str, str],
        body: bytes,
    ) -> tuple[Page, str]:
        """Make one request; return its answer, and the target if that is a redirect."""
        sent = {"User-Agent": "midflight", "Accept": "*/*"} | headers
        sent |= {"Host": url.netloc.decode(), "Accept-Encoding": "identity"}
        if body or method in {"POST", "PUT", "PATCH"}:
            sent["Content-Length"] = str(len(body))
        limits = dict.fromkeys(("connect", "read", "write", "pool"), CONNECT_S)
        limits["read"] = self.timeout_s
        try:
            async with pool.stream(
                method,
                _for_pool(url),
                headers=list(sent.items()),
                content=body,
                extensions={"timeout": limits},
            ) as response:
                data, whole = await _bounded(response, self.body_bytes_max)
        except (
            httpcore.ConnectError,
            httpcore.ConnectTimeout,
            httpcore.LocalProtocolError,
        ) as error:
            raise ToolRefused(
                f"{url} cannot be reached: {_words(error)}. Nothing was sent."
            ) from error
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            raise ToolFailed(
                f"{url} did not answer: {_words(error)}. The request may have arrived."
            ) from error
        answered = {
            key.decode("latin-1").lower(): v.decode("latin-1") for key, v in response.headers
        }
        location = answered.get("location", "") if response.status in REDIRECTS else ""
        return _page(url, response.status, answered, data, whole), location

    @asynccontextmanager
    async def _pool(self) -> AsyncIterator[httpcore.AsyncConnectionPool]:
        async with httpcore.AsyncConnectionPool(
            ssl_context=self.tls or _usual_tls(), network_backend=Doorkeeper(self.allow)
        ) as pool:
            yield pool

    @asynccontextmanager
    async def _in_time(self, url: httpx.URL) -> AsyncIterator[None]:
        with anyio.move_on_after(self.timeout_s) as limit:
            yield
        if limit.cancelled_caught:
            raise ToolFailed(
                f"{url} took longer than {self.timeout_s:g} s. The request may have arrived."
            )


class Doorkeeper(httpcore.AsyncNetworkBackend):
    """Opens connections, each to an address that it has looked at itself."""

    def __init__(self, allow: tuple[str, ...]) -> None:
        self._allow = allow
        self._inner = httpcore.AnyIOBackend()

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that answers, of those that are allowed."""
        *others, last = await addresses(host, port, self._allow)
        for address in others:
            try:
                return await self._inner.connect_tcp(address, port, timeout)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._inner.connect_tcp(last, port, timeout)  # layer connection-goes

    @override
    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Never."""
        raise ToolRefused(
            "this tool does not connect to sockets of this machine. Nothing was sent."
        )


async def _bounded(response: httpcore.Response, limit: int) -> tuple[bytes, bool]:
    data = bytearray()
    async for chunk in response.aiter_stream():
        data += chunk
        if len(data) > limit:
            return bytes(data[:limit]), False
    return bytes(data), True


def _page(url: httpx.URL, status: int, headers: dict[str, str], data: bytes, whole: bool) -> Page:
    notes = [] if whole else [f"only the first {len(data):,} bytes are shown"]
    if not whole:
        data = data[: len(data) - 3] if len(data) > 3 else data  # no character cut in two
    text = _decoded(headers.get("content-type", ""), data)
    if text is None or headers.get("content-encoding", "identity") != "identity":
        text = ""
        notes.append(f"not text; {len(data):,} bytes are not shown")
    shown = {name: headers[name][:500] for name in SHOWN if name in headers}
    return Page(status, str(url), text, shown, "; ".join(notes))


def _decoded(kind: str, data: bytes) -> str | None:
    """A text in the charset that it says it has, if that is a common one; None if it is no text."""
    named = re.search(r"charset=[\"']?([A-Za-z0-9_-]+)", kind)
    charset = named[1].lower() if named and named[1].lower() in CHARSETS else "utf-8"
    if charset == "utf-8" and b"\0" in data:
        return None
    if re.match(r"(image|audio|video|font)/", kind):
        return None
    return data.decode(charset, errors="replace")


def _checked_url(url: str, after: httpx.URL | None = None) -> httpx.URL:
    try:
        found = after.join(url) if after is not None else httpx.URL(url)
    except (httpx.InvalidURL, TypeError, ValueError) as error:
        raise ToolRefused(f"{url[:200]!r} is not a URL: {error}. Nothing was sent.") from None
    if found.scheme not in {"http", "https"} or not found.host:
        raise ToolRefused(f"{url[:200]!r} is not an http or https URL. Nothing was sent.")
    if found.userinfo:
        bare = found.copy_with(userinfo=b"")
        raise ToolRefused(
            f"the address {bare} holds a user name or a password, which is not allowed. Nothing "
            "was sent."
        )
    return found.copy_with(fragment=None)


def _checked_headers(headers: dict[str, str] | None) -> dict[str, str]:
    given = headers or {}
    if len(given) > HEADERS_MAX:
        raise ToolRefused(f"the request has more than {HEADERS_MAX} headers. Nothing was sent.")
    for key, value in given.items():
        # layer no-header-bends-request
        if OURS.fullmatch(key) or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", key):
            raise ToolRefused(f"the header {key[:80]!r} may not be set. Nothing was sent.")
        if not re.fullmatch(r"[\t\x20-\x7e\x80-\xff]*", value):
            raise ToolRefused(
                f"the header {key} has a value that cannot be sent. Nothing was sent."
            )
    return dict(given)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _for_pool(url: httpx.URL) -> httpcore.URL:
    return httpcore.URL(
        scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
    )


@lru_cache(maxsize=1)
def _usual_tls() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
