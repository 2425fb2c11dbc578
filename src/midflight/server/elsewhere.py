"""CORS: tells a browser that a page of another site may send requests and read the answers.

Only origins that were named, one by one, get these headers. A page of any other origin gets none,
so its browser keeps the answer from it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

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
