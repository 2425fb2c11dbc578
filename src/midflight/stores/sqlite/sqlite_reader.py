"""The reader thread of the SQLite store; its connection holds no statement open across an await."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

from midflight.errors import CorruptEntry
from midflight.journal.transition_table import State
from midflight.stores.protocol import closed
from midflight.stores.sqlite.open_files import OpenFiles
from midflight.stores.sqlite.sqlite_file import FAULTS, is_damage, translate
from midflight.stores.sqlite.transaction import SQL, fold_page

T = TypeVar("T")
About = TypeVarTuple("About")


def _select(db: sqlite3.Cursor, name: str, arguments: Any) -> list[Any]:
    return db.execute(SQL[name], arguments).fetchall()


class SqliteReader:
    """Reads in a thread of its own, on a cursor that is for nothing else."""

    def __init__(self, files: OpenFiles, thread: ThreadPoolExecutor) -> None:
        self._path = files.path
        self._hold = files.hold
        self._db = files.reading
        self._thread = thread
        self._closed = False

    async def fold_on(self, state: State) -> None:
        """Fold the rest of a journal, a page at a time."""
        while await self.in_reader(partial(fold_page, self._db, state)):
            pass

    async def select(self, name: str, arguments: Any) -> list[Any]:
        """Read the rows that a statement finds."""
        return await self.look(_select, name, arguments)

    async def look(self, work: Callable[[sqlite3.Cursor, *About], T], *about: *About) -> T:
        """Read in the reader's thread, and once more if what was read is damaged.

        A program in this process that opens and closes the store's files takes SQLite's locks away.
        A read that is under way then may find its part of the log overwritten; the next does not.
        """

        def looking() -> T:
            self._hold.look_before()
            try:
                return work(self._db, *about)
            except (CorruptEntry, sqlite3.DatabaseError) as error:
                if isinstance(error, CorruptEntry) or is_damage(error):
                    return work(self._db, *about)
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
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except FAULTS as error:
            raise translate(self._path, error) from error
