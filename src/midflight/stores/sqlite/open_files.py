"""The open files of one SQLite store, and the thread that reads its database.

The same thread opens them, which may have to wait for other processes. The connection that reads
holds no statement open across an await.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import anyio

from midflight.errors import CorruptEntry, StoreUnavailable
from midflight.inputs import Ids
from midflight.journal.stored_fold import FoldRow, StoredFold, opened, state_in
from midflight.journal.transition_table import State
from midflight.stores.protocol import RUN_PREFIX, closed, empty_state
from midflight.stores.sqlite.locks import HAS_BYTE_LOCKS, Turnstile, turnstile_of_files
from midflight.stores.sqlite.sqlite_file import (
    FAULTS,
    connect,
    create,
    is_damage,
    prepare,
    translate,
)
from midflight.stores.sqlite.sqlite_hold import Hold
from midflight.stores.sqlite.sqlite_lease import ByteLeases, FolderLeases, Leases
from midflight.stores.sqlite.sqlite_news import Letters
from midflight.stores.sqlite.transaction import SQL, fold_page

T = TypeVar("T")
About = TypeVarTuple("About")


class OpenFiles:
    """The files of one store, open until ``close``.

    ``hold`` holds the file, with the locks of writers and drivers on it. Beside the file lies a
    folder, ``<file>.d``, with the letter boxes of watching processes.
    """

    turnstile: Turnstile
    leases: Leases

    def __init__(self, path: Path, ids: Ids, wait_max_s: float, busy_s: float) -> None:
        self.path = path
        self.wait_max_s = wait_max_s
        self.busy_s = busy_s
        self._held = ExitStack()  # used by the writer
        self._rest = ExitStack()
        try:
            self._open(ids)
        except BaseException:
            self.close()
            raise

    def _open(self, ids: Ids) -> None:
        path, held, rest = self.path, self._held, self._rest
        if not path.parent.is_dir():
            raise StoreUnavailable(
                f"there is no folder {path.parent} for the store's file: create it, or name "
                "another file. Nothing was changed."
            )
        if path.is_dir():
            raise StoreUnavailable(
                f"{path} is a folder: name a file in it, such as {path / 'midflight.db'}. Nothing "
                "was changed."
            )
        create(path)
        beside = path.with_name(path.name + ".d")
        beside.mkdir(mode=0o700, exist_ok=True)  # layer folder-beside-owner-alone
        self.hold = hold = Hold(path)
        held.callback(hold.close)
        if HAS_BYTE_LOCKS:
            self.turnstile = hold.turnstile()
            self.leases = ByteLeases(hold)
        else:
            self.turnstile = held.enter_context(turnstile_of_files(beside))
            self.leases = FolderLeases(beside / "drivers", hold)
        with hold.opening(self.wait_max_s):
            hold.mark = prepare(path, self.turnstile, self.busy_s)
            hold.keep_database(self.busy_s)
            self.reading = self._cursor(self.busy_s)  # one for all: see ``Transaction``
            self.pulse = self._cursor(0)
            self.writing = connect(path, writes=True, busy_s=0)  # the writer is patient
            held.callback(self.writing.close)
            held.callback(hold.let_go)
            hold.keep_log(self.busy_s)
        self.letters = Letters(beside, ids)
        rest.callback(self.letters.close)

    def _cursor(self, busy_s: float) -> sqlite3.Cursor:
        db = connect(self.path, writes=False, busy_s=busy_s)
        self._rest.callback(db.close)
        return db.cursor()

    def close(self, *, writer_waits: bool = False) -> None:
        """Close them; those of the writer not if it still waits for another process.

        In that case the store's file is held as long as this process lives.
        """
        with ExitStack() as closing:
            if not writer_waits:
                closing.enter_context(self._held)
            closing.enter_context(self._rest)


async def open_files(
    path: Path, thread: ThreadPoolExecutor, ids: Ids, wait_max_s: float, busy_s: float
) -> OpenFiles:
    """Open the files in a thread, and close them again if we are cancelled.

    A thread cannot be cancelled: a task that is cancelled waits for the thread to end, as long as
    that may wait for other processes. If it takes longer the thread closes them at its end.
    """
    opening = thread.submit(OpenFiles, path, ids, wait_max_s, busy_s)
    ended = asyncio.wrap_future(opening)
    try:
        await asyncio.wait({ended})  # which does not cancel it
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await _through_cancels(ended, wait_max_s + busy_s)
        ended.add_done_callback(_is_left)
        opening.add_done_callback(_close_unused)  # layer cancelled-opening-closes
        raise
    try:
        return ended.result()
    except FAULTS as error:
        raise translate(path, error) from error


async def _through_cancels(ended: asyncio.Future[OpenFiles], wait_s: float) -> None:
    """Wait for the end, and not longer than this, however often we are cancelled."""
    deadline = time.monotonic() + wait_s
    while not ended.done() and (left := deadline - time.monotonic()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.wait({ended}, timeout=left)


def _is_left(ended: asyncio.Future[OpenFiles]) -> None:
    """Look at how it ended, or the loop complains that nobody did."""
    if not ended.cancelled():
        ended.exception()


def _close_unused(opening: Future[OpenFiles]) -> None:
    """Close what was opened for somebody who was cancelled."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def resolved(path: str | Path) -> Path:
    """Return the path without links and relative parts: both may lead elsewhere later."""
    try:
        return Path(path).resolve()  # layer path-resolved-when-store-opened
    except (OSError, RuntimeError) as error:  # links that lead in a circle
        raise StoreUnavailable(
            f"the path {path} does not lead to a file ({error}): correct it. Nothing was changed."
        ) from error


def read_fold(db: sqlite3.Cursor, journal: str) -> StoredFold | None:
    """Read the stored fold of a journal; None if there is none that fits."""
    rows = db.execute(SQL["read_fold"], (journal,)).fetchall()
    return opened(journal, [FoldRow(*row) for row in rows]) if rows else None


def start_of(db: sqlite3.Cursor, journal: str) -> State:
    """Return the state to fold a journal from: a stored one, or that of an empty journal."""
    found = state_in(read_fold(db, journal)) if journal.startswith(RUN_PREFIX) else None
    return found or empty_state(journal)


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

    def select(self, name: str, arguments: Any) -> Awaitable[list[Any]]:
        """Read the rows that a statement finds."""
        return self.look(_select, name, arguments)

    def look(self, work: Callable[[sqlite3.Cursor, *About], T], *about: *About) -> Awaitable[T]:
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

        return self.in_reader(looking)

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
