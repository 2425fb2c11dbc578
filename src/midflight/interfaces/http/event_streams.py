"""Event streams: their pace and their end, and the one stream of all that a client watches.

A stream of sheets sends a view of each watched journal first, then patches and what is said.
Nothing is kept for a reader but the sheet it was told last, so one that is slow gets the same in
fewer pieces. A reader that comes back gets the views again, and with them all that it has missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from midflight.control import Control
from midflight.errors import MidflightError
from midflight.interfaces.http.access.quotas import Meter, Metrics
from midflight.interfaces.http.live_index import Index
from midflight.interfaces.http.live_journal import PACE_S, Live, Lives, RowNews, SwitchNews
from midflight.journal.record import Actor, Recorded
from midflight.stores.hints import Delta
from midflight.stores.protocol import LiveWatch
from midflight.tasks import owned_tasks
from midflight.tools.secret import clean_logger
from midflight.view import Sheet

HEARTBEAT_S: Final = 15.0  # proxies end what is silent for 30 s or more
STALL_S: Final = 10.0  # a reader that takes nothing for so long is dropped
GRACE_S: Final = 3.0  # a network blip is shorter; a person who presses Stop waits so long
KNOWN_S: Final = 15.0  # a key that was revoked is good for so long, in a stream that is open
NOT_KNOWN: Final = "the key with which this stream was opened is not valid any more."
ALIVE: Final = b": alive\n\n"
REMEMBERED_MAX: Final = 1024  # records whose JSON is kept for the other watchers
REMEMBERED_BYTES_MAX: Final = 16 * 1024 * 1024  # and their bytes; the largest record has as many
NO_MORE: Final[Mapping[str, str]] = MappingProxyType({})
log: Final = clean_logger(__name__)


class Pace(Struct, frozen=True):
    """The pace of a stream: seconds between heartbeats, and seconds a reader may take nothing.

    ``grace_s`` is how long an AG-UI client that left may come back before its run is stopped.
    """

    heartbeat_s: float = HEARTBEAT_S
    stall_s: float = STALL_S
    grace_s: float = GRACE_S


class Streams:
    """The event streams of one app."""

    def __init__(self, meter: Meter, metrics: Metrics, pace: Pace) -> None:
        self.meter, self.metrics, self.pace = meter, metrics, pace
        self._open: set[anyio.CancelScope] = set()
        self._leaving = False
        self._encoded: dict[tuple[str, int], bytes] = {}
        self._encoded_bytes = 0

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
            found = msgspec.json.encode(record)
            full = self._encoded_bytes + len(found) > REMEMBERED_BYTES_MAX
            if full or len(self._encoded) >= REMEMBERED_MAX:
                self._encoded.clear()
                self._encoded_bytes = 0
            self._encoded[place] = found
            self._encoded_bytes += len(found)
        return found


class Stalled(Exception):
    """The reader takes nothing."""


class Streamed(Response):
    """An answer that is a stream of events: every write is bounded, and a reader may leave."""

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, headers: Mapping[str, str] = NO_MORE) -> None:
        super().__init__(headers={"x-accel-buffering": "no", **headers})
        del self.headers["content-length"]  # nobody knows it yet
        self._streams = streams

    async def _put(self, send: Send, chunk: bytes) -> None:
        """Write it, as soon as the reader has taken what was written before."""
        with anyio.move_on_after(self._streams.pace.stall_s) as bound:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if bound.cancelled_caught:
            raise Stalled  # layer reader-takes-nothing-dropped

    async def _until_gone(self, receive: Receive, scope: anyio.CancelScope) -> None:
        """End the stream when its reader has left."""
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    def _dropped(self, by: str, **more: Any) -> None:
        """Note it. The answer is left without an end, so the server hangs up."""
        self._streams.metrics.count("midflight_streams_dropped_total")
        about = {"action": "reader_dropped", "by": by, **more}
        words = "An event stream of %s was ended, because nobody read from it for %g s"
        log.warning(words, by, self._streams.pace.stall_s, extra=about)


RETRY_MS: Final = 1000


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
            words = "An event stream was ended by an error: %s"
            log.warning(words, error, extra={"action": "stream_failed"}, exc_info=error)
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
                await self._put(send, ALIVE)  # layer silent-stream-says-lives
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


# ── sheets and the list of runs ──────────────────────────────────────────────────────────────

BEHIND: Final = "this reader was too slow and missed changes of the list of runs"


class Watched:
    """One journal of one reader: what it was told last."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self._version = 0
        self._sheet: Sheet | None = None
        self._told: dict[str, tuple[int, int]] = {}  # step -> attempt, how far

    def news(self) -> Iterator[tuple[str, bytes]]:
        """Yield events that the reader has not been told yet: the kind of each, and its data."""
        live = self.live
        if live.sheet is None:
            return
        if self._sheet is None:
            yield "view", live.whole()
        elif live.version != self._version:
            changes = live.since(self._version, self._sheet)
            if changes:
                yield "patch", changes
        self._version, self._sheet = live.version, live.sheet
        for delta in self._said(live.texts):
            yield "delta", msgspec.json.encode(delta)

    def _said(self, texts: Mapping[str, Delta]) -> Iterator[Delta]:
        for step, whole in texts.items():
            attempt, upto = self._told.get(step, (whole.attempt, 0))
            offset = upto if attempt == whole.attempt else 0
            if len(whole.text) > offset:
                piece = whole.text[offset:]
                yield Delta(whole.journal, step, whole.attempt, offset, piece)
            self._told[step] = (whole.attempt, len(whole.text))
        for over in [step for step in self._told if step not in texts]:
            del self._told[over]


class ViewStream(EventStream):
    """An answer that goes on until its reader leaves or may not stay, or the server leaves."""

    def __init__(
        self,
        control: Control,
        streams: Streams,
        who: Actor,
        heads: dict[str, int],
        *,
        lives: Lives,
        index: Index,
        with_index: bool,
    ) -> None:
        super().__init__(control, streams, who, heads)
        self._lives, self._index, self._with_index = lives, index, with_index
        self._news = anyio.Event()
        # layer comes-late-told-how-stands
        self._news.set()  # a sheet may be there already
        self._failure: MidflightError | None = None
        self._seen = 0
        self._switched = -1

    def _stir(self) -> None:
        self._news.set()

    @override
    async def _told(self, send: Send) -> None:
        with ExitStack() as stack:
            watched = [
                Watched(stack.enter_context(self._lives.watched(journal, head, self._stir)))
                for journal, head in self._cursors.items()
            ]
            if self._with_index:
                stack.enter_context(self._index.watchers.hearing(self._stir))
            shared: tuple[Live | Index, ...] = (*(one.live for one in watched), self._index)
            async with owned_tasks(*(partial(self._attend, one) for one in shared)):
                await self._put(send, b"retry: %d\n\n" % RETRY_MS)
                if self._with_index:
                    await self._begin_index(send)
                await self._go_on(send, watched)
        if self._failure is not None:
            raise self._failure

    async def _attend(self, shared: Live | Index) -> None:
        try:
            await shared.attend()
        except MidflightError as error:
            self._failure = error
            self._news.set()

    async def _go_on(self, send: Send, watched: list[Watched]) -> None:
        heartbeat_s = self._streams.pace.heartbeat_s
        while self._failure is None:
            with anyio.move_on_after(heartbeat_s) as silence:
                await self._news.wait()
            if silence.cancelled_caught:
                await self._put(send, ALIVE)
                continue
            self._news = anyio.Event()
            for one in watched:
                for kind, data in one.news():
                    self._cursors[one.live.journal] = one.live.head
                    await self._tell_of(send, kind, data)
            if self._with_index:
                await self._changes(send)
            await anyio.sleep(PACE_S)

    async def _begin_index(self, send: Send) -> None:
        """All that a list begins with; what changes from here on has a higher version."""
        self._seen = self._index.version
        self._switched = self._index.switched
        now = await self._control.store.now()
        switches = SwitchNews(now, await self._control.switches())
        await self._tell_of(send, "switches", msgspec.json.encode(switches))
        for row in await self._index.shown():
            await self._tell_of(send, "row", msgspec.json.encode(RowNews(now, row)))

    async def _changes(self, send: Send) -> None:
        index = self._index
        if index.version == self._seen:
            return
        rows = index.since(self._seen)
        if rows is None:
            raise MidflightError(f"{BEHIND}.")
        self._seen = index.version
        now = await self._control.store.now()
        if index.switched != self._switched:
            self._switched = index.switched
            switches = msgspec.json.encode(SwitchNews(now, index.switches))
            await self._tell_of(send, "switches", switches)
        for row in rows:
            await self._tell_of(send, "row", msgspec.json.encode(RowNews(now, row)))

    async def _tell_of(self, send: Send, kind: str, data: bytes) -> None:
        self._streams.metrics.count("midflight_stream_events_total", kind=kind)
        where = b"id: %b\n" % msgspec.json.encode(self._cursors) if kind != "delta" else b""
        await self._put(send, b"event: %b\n%bdata: %b\n\n" % (kind.encode(), where, data))
