"""Bounds for one caller: bytes in a body, requests in a second, streams; and figures of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import anyio
from msgspec import Struct
from starlette.types import Message, Receive

from midflight.control import Control
from midflight.inputs import Clock
from midflight.interfaces.http.problems import Problem
from midflight.journal.phases import LIVE
from midflight.stores.protocol import Query

CALLERS_MAX: Final = 10_000  # whose rate is remembered; beyond that all begin anew
SMALL: Final = 4 * 1024  # bytes of a request that is never too much: a stop is one
SWALLOWED_MAX: Final = 64 * 1024 * 1024  # of a body that is too large: or its sender hears nothing
SWALLOWED_OF_STRANGERS_MAX: Final = 64 * 1024  # they may have to do without the answer
SWALLOWED_S: Final = 10.0


class Quotas(Struct, frozen=True):
    """Limits of one caller; ``streams_in_all`` is for everybody together.

    ``guest_body_bytes`` is for routes that are open to all. A body has to come in ``body_s``.
    """

    body_bytes: int = 1024 * 1024
    guest_body_bytes: int = 4096
    body_s: float = 20.0
    bytes_per_s: float = 256 * 1024
    bytes_burst: int = 32 * 1024 * 1024
    requests_per_s: float = 50.0
    burst: int = 200
    streams: int = 32
    streams_in_all: int = 2_000


Left: TypeAlias = dict[str, tuple[float, float]]
"""A caller -> what they may still send at once, as of when."""


def _refilled(known: Left, caller: str, rate: float, burst: float, now: float) -> float:
    """Return what a caller may send at once now: it fills up again with time."""
    if len(known) > CALLERS_MAX:
        known.clear()
    left, since = known.get(caller, (float(burst), now))
    return min(burst, left + max(0.0, now - since) * rate)


class Meter:
    """Counts what callers do."""

    def __init__(self, quotas: Quotas, clock: Clock) -> None:
        self.quotas = quotas
        self._clock = clock
        self._left: Left = {}  # requests
        self._bytes_left: Left = {}
        self._streams: Counter[str] = Counter()

    def count_request(self, caller: str) -> None:
        """One more request; refused when the caller is too quick."""
        rate, now = self.quotas.requests_per_s, self._clock()
        left = _refilled(self._left, caller, rate, self.quotas.burst, now)
        if left < 1:  # layer too-quick-has-to-wait
            wait = max(1, round((1 - left) / rate))
            raise Problem(
                429,
                "too_quick",
                f"you have sent more than {rate:g} requests a second. Wait {wait} s.",
                headers={"retry-after": str(wait)},
            )
        self._left[caller] = (left - 1, now)

    @property
    def streams(self) -> int:
        """The number of streams that are open, of all callers."""
        return self._streams.total()

    @contextmanager
    def stream(self, caller: str) -> Iterator[None]:
        """Count a stream for as long as it is open."""
        full = self.streams >= self.quotas.streams_in_all
        if full or self._streams[caller] >= self.quotas.streams:
            raise Problem(
                429,
                "too_many_streams",
                f"{'the server has' if full else 'you have'} reached the limit of open streams. "
                "Close one first: one stream can watch many runs.",
                headers={"retry-after": "5"},
            )
        self._streams[caller] += 1
        try:
            yield
        finally:
            self._streams[caller] -= 1
            self._streams += Counter()  # drops those that are at zero

    def count_bytes(self, caller: str, size: int) -> None:
        """Count a body; a large one is refused while the caller has sent too much of late."""
        rate, now = self.quotas.bytes_per_s, self._clock()
        left = _refilled(self._bytes_left, caller, rate, self.quotas.bytes_burst, now)
        if left < size and size > SMALL:
            wait = max(1, round((size - left) / rate))
            raise Problem(
                429,
                "too_much",
                f"you have sent more than {rate:,.0f} bytes a second for too long. Wait {wait} s. "
                f"Requests of up to {SMALL:,} bytes are still taken.",
                headers={"retry-after": str(wait)},
            )
        self._bytes_left[caller] = (left - size, now)

    def body(self, receive: Receive, *, caller: str = "", limit: int | None = None) -> Receive:
        """Return the same body, refused where it becomes too large or does not come in time."""
        allowed = self.quotas.body_bytes if limit is None else limit
        seen, complete, deadline = 0, False, anyio.current_time() + self.quotas.body_s

        async def counted() -> Message:
            nonlocal seen, complete
            if complete:
                return await receive()  # waits for the client to go, as long as that takes
            message: Message | None = None
            with anyio.move_on_at(deadline):
                message = await receive()
            if message is None:
                raise Problem(
                    408,
                    "too_slow",
                    f"the body of the request did not arrive within {self.quotas.body_s:g} s. "
                    "Send it again.",
                    headers={"connection": "close"},
                )
            complete = not message.get("more_body", False)
            seen += len(message.get("body", b""))
            if seen > allowed:  # layer body-measured-while-comes
                raise await self.refused(receive, limit, message)
            if complete:
                self.count_bytes(caller, seen)
            return message

        return counted

    async def refused(
        self, receive: Receive, limit: int | None = None, message: Message | None = None
    ) -> Problem:
        """Return what the sender of a large body is told, once the rest of the body is read.

        Of a stranger's little is read, and the connection may end with the answer.
        """
        limit = self.quotas.body_bytes if limit is None else limit
        stranger = limit <= self.quotas.guest_body_bytes
        whole = await swallow(receive, message, stranger=stranger)
        return Problem(
            413,
            "too_large",
            f"the body is larger than {limit:,} bytes.",
            headers={} if whole else {"connection": "close"},
            limit=limit,
        )


async def swallow(
    receive: Receive, message: Message | None = None, *, stranger: bool = False
) -> bool:
    """Take the rest of a body in, within bounds: a client reads no answer while it sends.

    Return whether that was all of it. If not, the answer has to end the connection.
    """
    # layer stranger-body-refused-little
    seen, most = 0, SWALLOWED_OF_STRANGERS_MAX if stranger else SWALLOWED_MAX
    with anyio.move_on_after(SWALLOWED_S):
        while message is None or message.get("more_body", False):
            message = await receive()
            seen += len(message.get("body", b""))
            if message["type"] != "http.request" or seen > most:
                return False
        return True
    return False


COUNTED_MAX: Final = 10_000  # live runs; beyond that the gauge says as many
HELP: Final = {
    "midflight_requests_total": "HTTP requests, by route, method and status.",
    "midflight_request_seconds_total": "Time spent on HTTP requests, by route and method.",
    "midflight_streams_dropped_total": "Event streams ended because their reader was too slow.",
    "midflight_stream_events_total": "Events sent on event streams, by kind.",
    "midflight_voice_seconds_total": "Speech on voice lines: heard from people, spoken to them.",
}


class Metrics:
    """Counts in this process since it began."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._seconds: Counter[tuple[str, str]] = Counter()

    def count(self, name: str, amount: float = 1, /, **labels: str | int) -> None:
        """Add to a counter."""
        shown = ",".join(f'{key}="{_escaped(str(value))}"' for key, value in labels.items())
        where = self._seconds if "seconds" in name else self._counts
        where[name, shown] += amount  # type: ignore[assignment]

    async def text(self, control: Control, meter: Meter) -> str:
        """All of them, and how many runs are in which phase now."""
        lines: list[str] = []
        for name, about in HELP.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} counter"]
            found = sorted((*self._counts.items(), *self._seconds.items()))
            lines += [
                f"{name}{{{labels}}} {value:g}" if labels else f"{name} {value:g}"
                for (counter, labels), value in found
                if counter == name
            ]
        rows = await control.runs(Query(phases=LIVE, limit=COUNTED_MAX))
        phases = Counter(row.phase for row in rows)
        lines += _gauge("midflight_runs", "Runs that have not ended, by phase.")
        lines += [f'midflight_runs{{phase="{phase}"}} {phases[phase]}' for phase in LIVE]
        lines += _gauge("midflight_streams", "Event streams that are open.")
        lines.append(f"midflight_streams {meter.streams}")
        lines += _gauge("midflight_kill_switches", "Kill switches that are on.")
        lines.append(f"midflight_kill_switches {len(await control.switches())}")
        return "\n".join(lines) + "\n"


def _gauge(name: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} gauge"]


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
