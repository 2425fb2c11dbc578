"""Looking things up in a SQLite file: journals, the read model, what is due, blobs, the clock.

All of it through one reader thread, whose connection never holds a statement open across an await.
"""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import msgspec

from midflight.audit.chain import Head, Link
from midflight.errors import CorruptEntry, JournalNotFound, StoreReadOnly, StoreUnavailable
from midflight.inputs import Clock, steady, wall_clock
from midflight.kernel.decide import Switch
from midflight.kernel.record import Recorded
from midflight.stores.base import PAGE, JournalClock, Query, Row
from midflight.stores.clock_steps import ClockSteps
from midflight.stores.sqlite_file import explain, is_damage
from midflight.stores.sqlite_hold import Hold
from midflight.stores.sqlite_lease import Leases
from midflight.stores.sqlite_transaction import SQL, audit_head, audit_page, read_events, row_of
from midflight.stores.watched import Watched, closed

T = TypeVar("T")


class SqliteReading(Watched):
    """The part of the store that only reads; opening the file gives it its cursor and leases."""

    _db: sqlite3.Cursor  # one for all: see ``Transaction``
    _leases: Leases
    _hold: Hold

    def __init__(
        self, path: Path, clock: Clock, expected: Callable[[], None], steadily: Clock | None = None
    ) -> None:
        super().__init__(self.read, expected)
        self._path = path
        self._clock = clock
        self._steps = ClockSteps(clock, steadily or (steady if clock is wall_clock else None))
        self._minding = anyio.Lock()
        self._closed = False
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="midflight-reader")

    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        """See ``Store.read``."""
        page = await self._look(lambda: read_events(self._db, journal, after, limit))
        if not page:
            await self.row(journal)
        return page

    async def row(self, journal: str) -> Row:
        """See ``Store.row``."""
        rows = await self._select("row", (journal,))
        if not rows:
            raise JournalNotFound(journal)
        return row_of(rows[0])

    async def rows(self, query: Query) -> list[Row]:
        """See ``Store.rows``."""
        wanted = msgspec.structs.asdict(query)
        wanted["phases"] = msgspec.json.encode(query.phases).decode()
        wanted["words"] = msgspec.json.encode(query.words).decode()
        return [row_of(found) for found in await self._select("rows", wanted)]

    async def due(self, limit: int = 100) -> list[Row]:
        """See ``Store.due``."""
        await self._mind_the_clock()
        now = self._clock()
        found = [row_of(r) for r in await self._select("due", (self._steps.latest(now),))]
        alive: dict[str, bool] = {"": False}
        for row in found:
            if row.driver not in alive:
                alive[row.driver] = not self._leases.gone(row.driver)
        return [
            row
            for row in found
            if self._steps.is_due(row, now) or (row.wants_driver and not alive[row.driver])
        ][:limit]

    async def clock_of(self, journal: str) -> JournalClock:
        """See ``Store.clock_of``."""
        await self._mind_the_clock()
        return self._steps.clock_of(journal)

    async def _mind_the_clock(self) -> None:
        """Note a step of the clock for all journals that wait. Nobody is told of them before."""
        self._check_open()
        async with self._minding:
            if self._steps.is_behind():
                self._steps.note_ahead(await self._waiting())
            if (step := self._steps.notice()) is not None:
                waiting = await self._waiting()
                lately = [row for row in waiting if step.is_stamped_after(row.updated_at)]
                last = {
                    row.journal: await self.read(row.journal, max(0, row.head - PAGE))
                    for row in lately
                }
                self._steps.note(step, [(row, last.get(row.journal, ())) for row in waiting])

    async def _waiting(self) -> list[Row]:
        rows = map(row_of, await self._select("due", (float("inf"),)))
        return [row for row in rows if row.due_at is not None]

    async def switches(self) -> list[Switch]:
        """See ``Store.switches``."""
        return [Switch(*values) for values in await self._select("switches", ())]

    async def ready(self) -> None:
        """See ``Store.ready``: whether it can be read; what it takes is found out by writing."""
        await self.switches()

    async def blob(self, digest: str) -> bytes:
        """See ``Store.blob``."""
        found = await self._select("read_blob", (digest,))
        if not found:
            raise CorruptEntry("blobs", 0, f"there is no blob {digest}")
        return bytes(found[0][0])

    async def audit_page(self, after: int = 0, limit: int = PAGE) -> list[Link]:
        """See ``Store.audit_page``."""
        return await self._look(lambda: audit_page(self._db, after, limit))

    async def audit_head(self) -> Head:
        """See ``Store.audit_head``."""
        return await self._look(lambda: audit_head(self._db))

    async def now(self) -> float:
        """See ``Store.now``."""
        self._check_open()
        return self._clock()

    async def _select(self, name: str, arguments: Any) -> list[Any]:
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

        return await self._in_reader(looking)

    def _check_open(self) -> None:
        if self._closed:
            raise closed()

    async def _in_reader(self, work: Callable[[], T]) -> T:
        self._check_open()
        with self._explained():
            return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explain(self._path, error) from error
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
                raise StoreReadOnly(
                    f"{self._path} may not be written by this user ({error.strerror}): mend the "
                    "rights of the file and its folder, or choose another. Nothing was changed."
                ) from error
            raise StoreUnavailable(f"{self._path} cannot be used: {error}.") from error
