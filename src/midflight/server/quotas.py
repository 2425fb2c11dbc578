"""How much one caller may ask for: bytes in a body, requests in a second, streams at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio
from msgspec import Struct
from starlette.types import Message, Receive

from midflight.inputs import Clock
from midflight.server.problems import Problem

CALLERS_MAX: Final = 10_000  # whose rate is remembered; beyond that all begin anew
SWALLOWED_MAX: Final = 64 * 1024 * 1024  # of a body that is too large: or its sender hears nothing
SWALLOWED_S: Final = 10.0


class Quotas(Struct, frozen=True):
    """Limits of one caller; ``streams_in_all`` is for everybody together."""

    body_bytes: int = 1024 * 1024
    requests_per_s: float = 50.0
    burst: int = 200
    streams: int = 32
    streams_in_all: int = 2_000


class Meter:
    """Counts what callers do."""

    def __init__(self, quotas: Quotas, clock: Clock) -> None:
        self.quotas = quotas
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}  # caller -> requests left, as of when
        self._streams: Counter[str] = Counter()

    def count_request(self, caller: str) -> None:
        """One more request; refused when the caller is too quick."""
        rate, burst, now = self.quotas.requests_per_s, self.quotas.burst, self._clock()
        if len(self._left) > CALLERS_MAX:
            self._left.clear()
        left, since = self._left.get(caller, (float(burst), now))
        left = min(burst, left + max(0.0, now - since) * rate)
        if left < 1:
            wait = max(1, round((1 - left) / rate))
            raise Problem(
                429,
                "too_quick",
                f"more than {rate:g} requests a second. Wait {wait} s.",
                headers={"retry-after": str(wait)},
            )
        self._left[caller] = (left - 1, now)

    @property
    def streams(self) -> int:
        """How many are open."""
        return self._streams.total()

    @contextmanager
    def stream(self, caller: str) -> Iterator[None]:
        """Count a stream for as long as it is open."""
        full = self.streams >= self.quotas.streams_in_all
        if full or self._streams[caller] >= self.quotas.streams:
            raise Problem(
                429,
                "too_many_streams",
                f"{'the server has' if full else 'you have'} as many streams open as it may. One "
                "stream can watch many runs.",
                headers={"retry-after": "5"},
            )
        self._streams[caller] += 1
        try:
            yield
        finally:
            self._streams[caller] -= 1
            self._streams += Counter()  # drops those that are at zero

    def body(self, receive: Receive) -> Receive:
        """The same body, refused where it becomes too large."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.quotas.body_bytes:
                await swallow(receive, message)
                raise self.too_large()
            return message

        return counted

    def too_large(self) -> Problem:
        """What the sender of a large body is told."""
        limit = self.quotas.body_bytes
        return Problem(413, "too_large", f"the body is larger than {limit:,} bytes.", limit=limit)


async def swallow(receive: Receive, message: Message | None = None) -> None:
    """Take the rest of a body in, within bounds: who still sends cannot read the answer."""
    seen = 0
    with anyio.move_on_after(SWALLOWED_S):
        while message is None or message.get("more_body", False):
            message = await receive()
            seen += len(message.get("body", b""))
            if message["type"] != "http.request" or seen > SWALLOWED_MAX:
                return
