"""Reads and watches journals on a server: the reading half of a store, under the same names.

A watch yields the same events in the same order, also over cuts and restarts. It knows the
positions that it has yielded, so it takes a broken stream up where it was: nothing is missing and
nothing comes twice. The words of open steps are yielded again from their beginning, by the one rule
``text = text[:offset] + piece``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, Union, cast

import anyio
import httpx
import msgspec
from msgspec import Raw, Struct

from midflight.control.any_control import AWAY_S
from midflight.control.remote.link import LATER, Link, Waits, error_of, told
from midflight.errors import InvalidRequest, JournalNotFound, ServerAway
from midflight.journal.event_types import EVENTS
from midflight.journal.fold import fold
from midflight.journal.record import Recorded, Unknown
from midflight.journal.requests import Switch
from midflight.journal.transition_table import State
from midflight.stores.hints import Delta
from midflight.stores.protocol import PAGE, THREAD_PREFIX, Query, Row, empty_state

_events: Final = msgspec.json.Decoder(Union[tuple(EVENTS.values())])  # noqa: UP007 - built at run time
_unknown: Final = msgspec.json.Decoder(Unknown)


class Wired(Struct):
    """A record whose event is still to be read."""

    journal: str
    position: int
    at: float
    event: Raw

    def record(self) -> Recorded:
        """Return the record with its event; an unknown event is kept for the table to judge."""
        return Recorded(self.journal, self.position, self.at, _event(self.event))


class Stretch(Struct):
    """A stretch of a journal, as the server answers it."""

    records: list[Wired]
    next: int | None = None


def _event(raw: Raw) -> Any:
    try:
        return _events.decode(raw)
    except msgspec.ValidationError:
        pass
    try:
        return _unknown.decode(raw)  # the server did not know it either
    except msgspec.ValidationError:
        name = msgspec.json.decode(raw).get("event", "")
        return Unknown(str(name), 0, True, bytes(raw))


SILENCE_S: Final = 45.0  # a living stream says so every 15 s
CLOSING_S: Final = 2.0
FRAME_MAX: Final = 32 * 1024 * 1024

Item = TypeVar("Item", bound=Recorded | Delta)


class Broken(Exception):
    """The stream is at its end, for whatever reason; it can be taken up again."""


class RemoteWatch(Generic[Item]):
    """Yields records while it is entered; with ``live`` also the words of steps between them."""

    def __init__(
        self,
        link: Link,
        cursors: Mapping[str, int],
        *,
        live: bool,
        away_s: float = AWAY_S,
    ) -> None:
        self._link = link
        self._cursors = dict(cursors)
        self._live = live
        self._away_s = away_s
        self._ready: deque[Recorded | Delta] = deque()
        self._rest = b""
        self._response: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._reading: anyio.CancelScope | None = None
        self._waits: Waits | None = None  # while nothing has come since the last cut

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._hang_up()

    def __aiter__(self) -> AsyncIterator[Item]:
        """Yield for as long as the watch is open. May be begun again after a cancel."""
        return self._items()

    async def until(self, done: Callable[[Recorded], bool]) -> None:
        """Give each record to ``done``, until that is true."""
        async for item in self:
            if isinstance(item, Recorded) and done(item):
                return

    def add(self, journal: str, after: int) -> None:
        """Also watch this one; the stream is asked for anew, from where it is."""
        if journal not in self._cursors:
            self._cursors[journal] = after
            if self._reading is not None:
                self._reading.cancel()

    async def _items(self) -> AsyncIterator[Item]:
        while True:
            while self._ready:
                yield cast("Item", self._ready.popleft())
            try:
                await self._more()
            except Broken as broken:
                await self._hang_up()
                self._link.tell(False)
                self._waits = self._waits or Waits(self._away_s)
                if not await self._waits.one():
                    raise ServerAway(self._link.url, str(broken)) from None

    async def _more(self) -> None:
        """Read the next item; however the reading ends, no half-read stream is left behind."""
        whole = False
        try:
            with anyio.CancelScope() as self._reading:
                if self._chunks is None:
                    await self._connect()
                chunk = await self._chunk()
                whole = True
        finally:
            self._reading = None
            if not whole:
                with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSING_S):
                    await self._hang_up()
        if whole:
            self._take(chunk)

    async def _chunk(self) -> bytes:
        assert self._chunks is not None
        try:
            with anyio.fail_after(SILENCE_S):
                return await anext(self._chunks)
        except StopAsyncIteration:
            raise Broken("it ended the stream") from None
        except TimeoutError:
            raise Broken("it fell silent") from None
        except httpx.HTTPError as error:
            raise Broken(str(error) or "the stream was cut") from None

    async def _connect(self) -> None:
        request = self._link.http.build_request(
            "GET",
            "/v1/events",
            params={"watch": list(self._cursors)},
            headers={"last-event-id": msgspec.json.encode(self._cursors).decode("latin-1")},
            timeout=httpx.Timeout(SILENCE_S, connect=5.0),
        )
        try:
            with anyio.fail_after(SILENCE_S):
                self._response = answer = await self._link.http.send(request, stream=True)
                body = b"" if answer.is_success else await answer.aread()
        except (httpx.HTTPError, TimeoutError) as error:
            raise Broken(str(error) or "it did not answer in time") from None
        if not answer.is_success:
            status = answer.status_code
            problem = told(status, body, self._link.url)
            if status in LATER or status == 500:
                raise Broken(problem.message.rstrip("."))
            raise error_of(problem)
        self._chunks = answer.aiter_bytes()

    def _take(self, chunk: bytes) -> None:
        *frames, self._rest = (self._rest + chunk).split(b"\n\n")
        if len(self._rest) > FRAME_MAX:
            raise Broken("it sent too much at once")
        if self._waits is not None:
            self._waits = None
        self._link.tell(True)
        for frame in frames:
            self._frame(frame)

    def _frame(self, frame: bytes) -> None:
        fields = dict(line.partition(b": ")[::2] for line in frame.split(b"\n"))
        match fields.get(b"event"):
            case b"record":
                self._record(fields[b"data"])
            case b"delta" if self._live:
                self._ready.append(msgspec.json.decode(fields[b"data"], type=Delta))
            case b"problem":
                raise Broken(told(500, fields[b"data"], self._link.url).message.rstrip("."))
            case _:
                pass  # a sign of life, or something of a later version

    def _record(self, data: bytes) -> None:
        wired = msgspec.json.decode(data, type=Wired)
        known = self._cursors[wired.journal]
        if wired.position == known + 1:
            self._cursors[wired.journal] = wired.position
            self._ready.append(wired.record())
        elif wired.position > known:
            raise Broken("an event is missing from its stream")

    async def _hang_up(self) -> None:
        response, self._response = self._response, None
        self._chunks, self._rest = None, b""
        if response is not None:
            with anyio.move_on_after(CLOSING_S):
                await response.aclose()


ROWS_MAX: Final = 500  # a page of the index


class _Page(Struct):
    rows: list[Row]
    next: str = ""


class _Switches(Struct):
    switches: list[Switch]


class RemoteJournals:
    """Reads, looks up and watches the journals of a server. All decisions are the server's."""

    def __init__(self, link: Link, *, away_s: float = AWAY_S) -> None:
        self._link = link
        self._away_s = away_s

    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        """Up to ``limit`` events after a position; JournalNotFound for an unknown journal."""
        found: list[Recorded] = []
        while True:  # a server answers with fewer where records are large
            params = {"after": after, "limit": limit - len(found)}
            page = await self._link.get(f"{place_of(journal)}/records", Stretch, params)
            found += [wired.record() for wired in page.records]
            if page.next is None or len(found) >= limit:
                return found
            after = page.next

    async def load(self, journal: str) -> State:
        """Fold a whole journal, a page at a time. The state belongs to the caller."""
        state = empty_state(journal)
        while True:
            page = await self.read(journal, after=state.head)
            fold(state, page)
            if len(page) < PAGE:
                return state

    async def rows(self, query: Query) -> list[Row]:
        """Look the index up, page by page."""
        asked = _asked(query)
        found: list[Row] = []
        while len(found) < query.limit:
            size = min(ROWS_MAX, query.limit - len(found))
            page = await self._link.get(f"/v1/{query.kind}s", _Page, {**asked, "limit": size})
            found += page.rows
            if not page.next:
                break
            asked["before"] = page.next
        return found

    async def row(self, journal: str) -> Row:
        """The index entry of one journal: the next one before whatever would come right after."""
        kind = "thread" if journal.startswith(THREAD_PREFIX) else "run"
        for row in await self.rows(Query(kind=kind, before=f"{journal} ", limit=1)):
            if row.journal == journal:
                return row
        raise JournalNotFound(journal)

    async def switches(self) -> list[Switch]:
        """The kill switches that are on."""
        return (await self._link.get("/v1/operator/switches", _Switches)).switches

    async def now(self) -> float:
        """The server's clock, to the second."""
        return self._link.now()

    def watch(self, cursors: Mapping[str, int]) -> RemoteWatch[Recorded]:
        """Events after the given positions, then live ones. Leaving it cancels nothing."""
        return self._watch(cursors, live=False)

    def watch_live(self, cursors: Mapping[str, int]) -> RemoteWatch[Recorded | Delta]:
        """As ``watch``, with what steps say in between."""
        return self._watch(cursors, live=True)

    def _watch(self, cursors: Mapping[str, int], *, live: bool) -> RemoteWatch[Any]:
        return RemoteWatch(self._link, cursors, live=live, away_s=self._away_s)


def _asked(query: Query) -> dict[str, Any]:
    conditions = {
        "phase": [str(phase) for phase in query.phases],
        "thread": query.thread,
        "agent": query.agent,
        "parent": query.parent,
        "search": query.search,
    }
    given = {name: wanted for name, wanted in conditions.items() if wanted}
    if given and query.kind != "run":
        raise InvalidRequest(
            f"the threads of a server cannot be filtered by {', '.join(given)}: the server always "
            "lists all of them. Look up runs instead. Nothing was changed."
        )
    return {"before": query.before, **given}


def place_of(journal: str) -> str:
    """Return the path of a journal on a server."""
    kind = "threads" if journal.startswith(THREAD_PREFIX) else "runs"
    if "/" in journal or not journal.isprintable():
        raise JournalNotFound(journal)
    return f"/v1/{kind}/{journal}"
