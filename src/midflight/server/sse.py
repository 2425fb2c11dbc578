"""One event stream for everything a client watches.

A browser has six connections to a server, so a stream a run would soon leave none for the cancel.
Every ``record`` carries as its id how far each journal was told; a client that comes back with it
gets what follows, and first what open steps have said so far. A ``delta`` is what a step says right
now and has no id: ``text = text[:offset] + piece``, for deltas and ``text.streamed`` alike.

A reader that does not keep up costs its own stream only: what it has not read yet is in the store,
not in memory, and when it takes nothing for a while it is dropped and may come back with its id.
A reader whose key is revoked is told so and hears no more, also in the middle of a busy stream.
"""

from __future__ import annotations

import logging
from typing import Final

import anyio
import msgspec
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from midflight.control import Control
from midflight.errors import MidflightError
from midflight.kernel.record import Recorded, Who
from midflight.overriding import override
from midflight.server.metrics import Metrics
from midflight.server.quotas import Meter
from midflight.stores.base import Delta, LiveWatch

HEARTBEAT_S: Final = 15.0  # proxies end what is silent for 30 s or more
STALL_S: Final = 10.0  # a reader that takes nothing for so long is dropped
KNOWN_S: Final = 15.0  # a key that was revoked is good for so long, in a stream that is open
RETRY_MS: Final = 1000
NOT_KNOWN: Final = "the key with which this stream was opened is not valid any more."
REMEMBERED_MAX: Final = 1024  # records whose JSON is kept for the other watchers
log: Final = logging.getLogger(__name__)


class Pace(Struct, frozen=True):
    """How often a silent stream says that it lives, and how long a reader may take nothing."""

    heartbeat_s: float = HEARTBEAT_S
    stall_s: float = STALL_S


class Streams:
    """The event streams of one app."""

    def __init__(self, meter: Meter, metrics: Metrics, pace: Pace) -> None:
        self.meter, self.metrics, self.pace = meter, metrics, pace
        self._open: set[anyio.CancelScope] = set()
        self._leaving = False
        self._encoded: dict[tuple[str, int], bytes] = {}

    def enter(self, scope: anyio.CancelScope) -> None:
        """A stream begins; if the server is leaving it ends at once."""
        self._open.add(scope)
        if self._leaving:
            scope.cancel()

    def exit(self, scope: anyio.CancelScope) -> None:
        """It has ended."""
        self._open.discard(scope)

    def close(self) -> None:
        """End them all, in good order: the server leaves, and their readers come back later."""
        self._leaving = True
        for scope in tuple(self._open):
            scope.cancel()

    async def until_unknown(self, scope: Scope, stream: anyio.CancelScope) -> None:
        """End a stream when its reader would not be let in any more.

        Whose app has no door of ours in front says itself who may read for how long.
        """
        still_known = scope.get("state", {}).get("still_known")
        if still_known is None:
            return
        while still_known():  # noqa: ASYNC110 - another process may revoke it, and tells nobody
            await anyio.sleep(min(self.pace.heartbeat_s, KNOWN_S))
        stream.cancel()

    def encoded(self, record: Recorded) -> bytes:
        """A record as JSON; once for everybody who watches it now."""
        place = (record.journal, record.position)
        found = self._encoded.get(place)
        if found is None:
            if len(self._encoded) >= REMEMBERED_MAX:
                self._encoded.clear()
            found = self._encoded[place] = msgspec.json.encode(record)
        return found


class Stalled(Exception):
    """The reader takes nothing."""


class EventStream(Response):
    """An answer that goes on until its reader leaves or may not stay, or the server leaves."""

    media_type = "text/event-stream"

    def __init__(
        self, control: Control, streams: Streams, who: Who, cursors: dict[str, int]
    ) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._control = control
        self._streams = streams
        self._who = who
        self._cursors = cursors

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        streams, dropped = self._streams, False
        with streams.meter.stream(self._who.by):
            async with anyio.create_task_group() as tasks:
                streams.enter(tasks.cancel_scope)
                tasks.start_soon(_until_gone, receive, tasks.cancel_scope)
                known = anyio.CancelScope()
                tasks.start_soon(streams.until_unknown, scope, known)
                try:
                    with known:
                        await self._tell(send)
                    if known.cancelled_caught:
                        await self._problem(send, "not_known", NOT_KNOWN)
                except Stalled:
                    dropped = True
                finally:
                    streams.exit(tasks.cancel_scope)
                tasks.cancel_scope.cancel()
        if dropped:  # the answer is left without an end, so the server hangs up
            streams.metrics.count("midflight_streams_dropped_total")
            about = {"action": "reader_dropped", "by": self._who.by, "upto": self._cursors}
            log.warning("A reader that took nothing was dropped", extra=about)
        else:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        try:
            await self._told(send)
        except MidflightError as error:
            log.warning("A stream ended", extra={"action": "stream_failed"}, exc_info=error)
            await self._problem(send, "failed", f"{error} The stream can be taken up again.")

    async def _problem(self, send: Send, error: str, message: str) -> None:
        told = msgspec.json.encode({"error": error, "message": message})
        await self._put(send, b"event: problem\ndata: %b\n\n" % told)

    async def _told(self, send: Send) -> None:
        async with self._control.watch_live(self._cursors) as news:
            await self._put(send, b"retry: %d\n\n" % RETRY_MS)
            await self._forward(send, news)

    async def _forward(self, send: Send, news: LiveWatch) -> None:
        items = aiter(news)
        while True:
            item: Recorded | Delta | None = None
            with anyio.move_on_after(self._streams.pace.heartbeat_s):
                item = await anext(items)
            if item is None:
                items = aiter(news)  # what was not yielded yet is still there
                await self._put(send, b": alive\n\n")
            else:
                await self._put(send, self._event(item))

    def _event(self, item: Recorded | Delta) -> bytes:
        metrics = self._streams.metrics
        if isinstance(item, Delta):
            metrics.count("midflight_stream_events_total", kind="delta")
            return b"event: delta\ndata: %b\n\n" % msgspec.json.encode(item)
        metrics.count("midflight_stream_events_total", kind="record")
        self._cursors[item.journal] = item.position
        where, data = msgspec.json.encode(self._cursors), self._streams.encoded(item)
        return b"event: record\nid: %b\ndata: %b\n\n" % (where, data)

    async def _put(self, send: Send, chunk: bytes) -> None:
        """Write it, as soon as the reader has taken what was written before."""
        with anyio.move_on_after(self._streams.pace.stall_s) as scope:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if scope.cancelled_caught:
            raise Stalled


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
