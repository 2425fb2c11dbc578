"""An event stream of sheets: a view of each watched journal first, then patches and what is said.

Nothing is kept for a reader but the sheet it was told last, so one that is slow gets the same in
fewer pieces. A reader that comes back gets the views again, and with them all that it has missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Final

import anyio
import msgspec
from starlette.types import Send
from typing_extensions import override

from midflight.control import Control
from midflight.errors import MidflightError
from midflight.interfaces.http.live.event_stream import ALIVE, RETRY_MS, EventStream, Streams
from midflight.interfaces.http.live.live_index import Index
from midflight.interfaces.http.live.live_journal import PACE_S, Live, Lives, RowNews, SwitchNews
from midflight.journal.record import Actor
from midflight.stores.watch.hints import Delta
from midflight.tasks import owned_tasks
from midflight.view import Sheet

BEHIND: Final = "this reader was too far behind the list of runs"


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
