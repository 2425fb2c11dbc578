"""Looking things up in a SQLite file: journals, the read model, what is due, blobs, the clock.

All of it through one reader thread, whose connection never holds a statement open across an await.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import msgspec

from midflight.audit.chain import Head, Link
from midflight.errors import CorruptEntry, JournalNotFound
from midflight.inputs import Clock
from midflight.kernel.decide import Switch
from midflight.kernel.machine import State
from midflight.kernel.record import Recorded
from midflight.stores.protocol import PAGE, Query, Row, closed
from midflight.stores.sqlite.open_files import OpenFiles
from midflight.stores.sqlite.sqlite_file import explained, is_damage
from midflight.stores.sqlite.transaction import (
    SQL,
    audit_head,
    audit_page,
    fold_page,
    read_events,
    row_of,
)

T = TypeVar("T")


class SqliteReader:
    """Reads in a thread of its own, on a cursor that is for nothing else."""

    def __init__(self, files: OpenFiles, thread: ThreadPoolExecutor, clock: Clock) -> None:
        self._path = files.path
        self._hold = files.hold
        self._leases = files.leases
        self._db = files.reading
        self._thread = thread
        self._clock = clock
        self._closed = False

    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        """See ``Store.read``."""
        page = await self._look(lambda: read_events(self._db, journal, after, limit))
        if not page:
            await self.row(journal)
        return page

    async def row(self, journal: str) -> Row:
        """See ``Store.row``."""
        rows = await self.select("row", (journal,))
        if not rows:
            raise JournalNotFound(journal)
        return row_of(rows[0])

    async def rows(self, query: Query) -> list[Row]:
        """See ``Store.rows``."""
        wanted = msgspec.structs.asdict(query)
        wanted["phases"] = msgspec.json.encode(query.phases).decode()
        wanted["words"] = msgspec.json.encode(query.words).decode()
        return [row_of(found) for found in await self.select("rows", wanted)]

    async def due(self, limit: int = 100) -> list[Row]:
        """See ``Store.due``."""
        now = self._clock()
        found = [row_of(values) for values in await self.select("due", (now,))]
        alive: dict[str, bool] = {"": False}
        for row in found:
            if row.driver not in alive:
                alive[row.driver] = not self._leases.gone(row.driver)
        return [
            row
            for row in found
            if (row.due_at is not None and row.due_at <= now) or not alive[row.driver]
        ][:limit]

    async def switches(self) -> list[Switch]:
        """See ``Store.switches``."""
        return [Switch(*values) for values in await self.select("switches", ())]

    async def blob(self, digest: str) -> bytes:
        """See ``Store.blob``."""
        found = await self.select("read_blob", (digest,))
        if not found:
            raise CorruptEntry("blobs", 0, f"there is no blob {digest}")
        return bytes(found[0][0])

    async def audit_page(self, after: int = 0, limit: int = PAGE) -> list[Link]:
        """See ``Store.audit_page``."""
        return await self._look(lambda: audit_page(self._db, after, limit))

    async def audit_head(self) -> Head:
        """See ``Store.audit_head``."""
        return await self._look(lambda: audit_head(self._db))

    async def fold_on(self, state: State) -> None:
        """Fold the rest of a journal, a page at a time."""
        while await self.in_reader(partial(fold_page, self._db, state)):
            pass

    async def select(self, name: str, arguments: Any) -> list[Any]:
        """Read the rows that a statement finds."""
        return await self._look(lambda: self._db.execute(SQL[name], arguments).fetchall())

    async def _look(self, work: Callable[[], T]) -> T:
        """Read in the reader's thread, and once more if what was read is damaged.

        A program in this process that opens and closes the store's files takes SQLite's locks away.
        A read that is under way then may find its part of the log overwritten; the next does not.
        """

        def looking() -> T:
            self._hold.look_before()
            try:
                return work()
            except (CorruptEntry, sqlite3.DatabaseError) as error:
                if isinstance(error, CorruptEntry) or is_damage(error):
                    return work()
                raise

        return await self.in_reader(looking)

    def check_open(self) -> None:
        """Raise if the store was closed."""
        if self._closed:
            raise closed()

    def close(self) -> None:
        """Refuse to read anything more."""
        self._closed = True

    async def in_reader(self, work: Callable[[], T]) -> T:
        """Do something in the reader's thread, without a look at the file first."""
        self.check_open()
        with explained(self._path):
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
