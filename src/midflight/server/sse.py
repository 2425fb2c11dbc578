"""One event stream for everything a client watches.

A browser has six connections to a server, so a stream a run would soon leave none for the cancel.
Every ``record`` carries as its id how far each journal was told; a client that comes back with it
gets what follows, and first what open steps have said so far. A ``delta`` is what a step says right
now and has no id: ``text = text[:offset] + piece``, for deltas and ``text.streamed`` alike.

A reader that was dropped, because it took nothing for a while, may come back with its id.
A reader whose key is revoked is told so and hears no more, also in the middle of a busy stream.
"""

from __future__ import annotations

from typing import Final

import anyio
import msgspec
from starlette.types import Receive, Scope, Send

from midflight.control import Control
from midflight.errors import MidflightError
from midflight.kernel.record import Actor, Recorded
from midflight.overriding import override
from midflight.server.streaming import ALIVE, NOT_KNOWN, Stalled, Streamed, Streams
from midflight.stores.protocol import Delta, LiveWatch
from midflight.tools.secret import clean_logger

RETRY_MS: Final = 1000
log: Final = clean_logger(__name__)


class EventStream(Streamed):
    """An answer that goes on until its reader leaves or may not stay, or the server leaves."""

    def __init__(
        self, control: Control, streams: Streams, who: Actor, cursors: dict[str, int]
    ) -> None:
        super().__init__(streams)
        self._control = control
        self._who = who
        self._cursors = cursors

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        streams, dropped = self._streams, False
        with streams.meter.stream(self._who.by):
            async with anyio.create_task_group() as tasks:
                streams.enter(tasks.cancel_scope)
                tasks.start_soon(self._until_gone, receive, tasks.cancel_scope)
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
        if dropped:
            self._dropped(self._who.by, upto=self._cursors)
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
                await self._put(send, ALIVE)
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
