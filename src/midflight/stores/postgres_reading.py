"""Looking things up in Postgres: journals, the read model, what is due, blobs, the clock."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from midflight.errors import CorruptEntry, JournalNotFound
from midflight.kernel.record import Recorded
from midflight.stores.base import PAGE, JournalClock, Query, Row
from midflight.stores.codec import decode
from midflight.stores.postgres_links import Pool
from midflight.stores.postgres_rows import row_of
from midflight.stores.postgres_server import ANSWER_S, LONG_S, SQL
from midflight.stores.watched import Watched

SEARCH_S: Final = 10.0  # no index finds words: a search may have to look at every row


class PostgresReading(Watched):
    """The part of the store that changes nothing."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(self.read)
        self._pool = pool

    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        """See ``Store.read``."""
        page = await self._fetch("read_events", journal, after, limit, answer_s=LONG_S)
        if not page:
            await self.row(journal)
        return [decode(*row) for row in page]

    async def row(self, journal: str) -> Row:
        """See ``Store.row``."""
        rows = await self._fetch("row", journal)
        if not rows:
            raise JournalNotFound(journal)
        return row_of(rows[0])

    async def rows(self, query: Query) -> list[Row]:
        """See ``Store.rows``."""
        *wanted, search = msgspec.structs.astuple(query)
        name, more = ("search_rows", [query.words]) if search else ("rows", [])
        answer_s = SEARCH_S if search else LONG_S
        return [row_of(row) for row in await self._fetch(name, *wanted, *more, answer_s=answer_s)]

    async def due(self, limit: int = 100) -> list[Row]:
        """See ``Store.due``."""
        return [row_of(row) for row in await self._fetch("due", limit)]

    async def clock_of(self, journal: str) -> JournalClock:
        """See ``Store.clock_of``."""
        del journal
        return JournalClock()

    async def blob(self, digest: str) -> bytes:
        """See ``Store.blob``."""
        found = await self._fetch("blob", digest, answer_s=LONG_S)
        if not found:
            raise CorruptEntry("blobs", 0, f"there is no blob {digest}")
        return bytes(found[0]["body"])

    async def now(self) -> float:
        """See ``Store.now``."""
        ((now,),) = await self._fetch("clock")
        return float(now)

    async def _fetch(self, name: str, *arguments: object, answer_s: float = ANSWER_S) -> list[Any]:
        return await self._select(SQL[name], *arguments, answer_s=answer_s)

    async def _select(
        self, statement: str, *arguments: object, answer_s: float = LONG_S
    ) -> list[Any]:
        return await self._pool.do(lambda c: c.fetch(statement, *arguments), answer_s=answer_s)
