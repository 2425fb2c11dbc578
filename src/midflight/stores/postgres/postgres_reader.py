"""Looking things up in Postgres: journals, the read model, what is due, blobs, the clock."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from midflight.errors import CorruptEntry, JournalNotFound
from midflight.kernel.decide import Switch
from midflight.kernel.record import Recorded
from midflight.stores.codec import decode
from midflight.stores.postgres.links import Pool
from midflight.stores.postgres.postgres_rows import row_of
from midflight.stores.postgres.postgres_server import ANSWER_S, LONG_S, SQL
from midflight.stores.protocol import PAGE, Query, Row

SEARCH_S: Final = 10.0  # no index finds words: a search may have to look at every row


class PostgresReader:
    """Reads on whichever connection of the pool is free."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        """See ``Store.read``."""
        page = await self.fetch("read_events", journal, after, limit, answer_s=LONG_S)
        if not page:
            await self.row(journal)
        return [decode(*row) for row in page]

    async def row(self, journal: str) -> Row:
        """See ``Store.row``."""
        rows = await self.fetch("row", journal)
        if not rows:
            raise JournalNotFound(journal)
        return row_of(rows[0])

    async def rows(self, query: Query) -> list[Row]:
        """See ``Store.rows``."""
        *wanted, search = msgspec.structs.astuple(query)
        name, more = ("search_rows", [query.words]) if search else ("rows", [])
        answer_s = SEARCH_S if search else LONG_S
        return [row_of(row) for row in await self.fetch(name, *wanted, *more, answer_s=answer_s)]

    async def due(self, limit: int = 100) -> list[Row]:
        """See ``Store.due``."""
        return [row_of(row) for row in await self.fetch("due", limit)]

    async def blob(self, digest: str) -> bytes:
        """See ``Store.blob``."""
        found = await self.fetch("blob", digest, answer_s=LONG_S)
        if not found:
            raise CorruptEntry("blobs", 0, f"there is no blob {digest}")
        return bytes(found[0]["body"])

    async def switches(self) -> list[Switch]:
        """See ``Store.switches``."""
        return [Switch(*row) for row in await self.fetch("switches")]

    async def now(self) -> float:
        """See ``Store.now``."""
        ((now,),) = await self.fetch("clock")
        return float(now)

    async def fetch(self, name: str, *arguments: object, answer_s: float = ANSWER_S) -> list[Any]:
        """Read the rows that a statement finds, by the statement's name."""
        return await self.select(SQL[name], *arguments, answer_s=answer_s)

    async def select(
        self, statement: str, *arguments: object, answer_s: float = LONG_S
    ) -> list[Any]:
        """Read the rows that a statement finds."""
        return await self._pool.do(lambda c: c.fetch(statement, *arguments), answer_s=answer_s)
