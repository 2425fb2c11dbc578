"""Looks things up on a server: the reading half of a store, under the same names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from midflight.control.remote.link import Link
from midflight.control.remote.remote_watch import AWAY_S, RemoteWatch
from midflight.control.remote.wire_records import Stretch
from midflight.errors import InvalidRequest, JournalNotFound
from midflight.journal.fold import fold
from midflight.journal.record import Recorded
from midflight.journal.requests import Switch
from midflight.journal.transition_table import State
from midflight.stores.protocol import PAGE, THREAD_PREFIX, Query, Row, empty_state
from midflight.stores.watch.hints import Delta

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
            f"a server lists all its threads: they cannot be filtered by {', '.join(given)}. "
            "Look up runs instead. Nothing was changed."
        )
    return {"before": query.before, **given}


def place_of(journal: str) -> str:
    """Return the path of a journal on a server."""
    kind = "threads" if journal.startswith(THREAD_PREFIX) else "runs"
    if "/" in journal or not journal.isprintable():
        raise JournalNotFound(journal)
    return f"/v1/{kind}/{journal}"
