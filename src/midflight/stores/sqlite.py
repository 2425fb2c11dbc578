"""Journals in one SQLite file: the default, for a laptop or a server of its own.

Any number of processes may read, watch and send requests; one of them drives. Writes go through a
writer thread with group commit (``sqlite_writer``), reads through a reader thread
(``sqlite_reading``). ``sqlite_hold`` holds the file, with the locks of writers and drivers on it.
Beside the file lies a folder, ``<file>.d``, with the letter boxes of watching processes.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

import anyio
import msgspec

from midflight.audit.record import Deed, deed
from midflight.errors import StoreError, StoreReplaced, StoreUnavailable
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.kernel.decide import require_operator
from midflight.kernel.machine import State
from midflight.kernel.record import Actor
from midflight.overriding import override
from midflight.stores.base import Append, Committed, Killing, Purged, Submit
from midflight.stores.codec import INLINE_MAX
from midflight.stores.locks import HAS_BYTE_LOCKS
from midflight.stores.movements import Movements
from midflight.stores.sqlite_bell import DriversBell
from midflight.stores.sqlite_file import connect, create, explain, prepare
from midflight.stores.sqlite_hold import Hold
from midflight.stores.sqlite_lease import ByteLeases, FileLease
from midflight.stores.sqlite_lease_files import FolderLeases
from midflight.stores.sqlite_ledger import Ledger
from midflight.stores.sqlite_nudge import Nudges
from midflight.stores.sqlite_reading import SqliteReading
from midflight.stores.sqlite_transaction import Unfolded, fold_page
from midflight.stores.sqlite_writer import Job, Writer
from midflight.stores.turnstile import Turnstile, turnstile_of_files
from midflight.tasks import owned_tasks

LAST: Final = (1 << 63) - 1  # "up to the end": a kill does not say how far it moved each journal
POLL_S: Final = 0.1  # the fallback when a nudge is lost; with it a watcher is never later
POLL_ALONE_S: Final = 0.02  # where there are no nudges at all
WAIT_MAX_S: Final = 10.0  # for this process's turn at the turnstile
MIND_S: Final = 0.5  # between two looks whether the file is still there, also if nobody writes
FOLDS_MAX: Final = 5  # outside; a journal that grows faster than it is folded is folded inside
BUSY_S: Final = 5.0  # for a program that locks the file without passing the turnstile
log: Final = logging.getLogger(__name__)


Folded = dict[str, State] | None
Opened = tuple[Ledger, Turnstile, ExitStack]
"""The ledger and the turnstile, with which files are written, and the stack that closes them."""

NOTHING_FOLDED: Final[dict[str, State]] = {}  # nobody puts anything into it
T = TypeVar("T")


class SqliteStore(SqliteReading):
    """See ``Store``; made by ``SqliteStore.open``."""

    def __init__(self, path: Path, clock: Clock, ids: Ids, steadily: Clock | None = None) -> None:
        self._watched = anyio.Event()
        super().__init__(path, clock, self._watched.set, steadily)
        self._ids = ids
        self._writer: Writer
        self._writing: sqlite3.Connection
        self._set_up_done = False
        self._lost: StoreReplaced | None = None
        self._looked = -1  # the last event that was there when all journals were looked at
        self._nudges: Nudges
        self._bell: DriversBell
        self._pulse: sqlite3.Cursor

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: str | Path,
        *,
        clock: Clock = wall_clock,
        steadily: Clock | None = None,
        ids: Ids = new_id,
        wait_max_s: float = WAIT_MAX_S,
        busy_s: float = BUSY_S,
    ) -> AsyncIterator[Self]:
        """Open the file, creating it if need be, for as long as the block runs."""
        store = cls(_resolved(path), clock, ids, steadily)
        async with AsyncExitStack() as stack:
            stack.callback(store._reader.shutdown, wait=False)
            await store._set_up(stack, wait_max_s, busy_s)
            stack.callback(store._reader.shutdown)  # first of all: it may be reading what we close
            async with owned_tasks(store._listen) as tasks:
                tasks.start_soon(store._mind_the_file, tasks.cancel_scope)
                try:
                    yield store
                finally:
                    with anyio.CancelScope(shield=True):  # bounded by the writer's own patience
                        await store._writer.close()
                    store._closed = True
        if store._lost is not None:
            raise store._lost

    async def _mind_the_file(self, block: anyio.CancelScope) -> None:
        """End the block in which the store is open as soon as its file is not the store any more.

        What drives, serves or watches in the block cannot go on, also if nothing is appended now.
        """
        while True:
            await anyio.sleep(MIND_S)
            try:
                self._hold.look_before()
            except StoreReplaced as error:
                about = {"action": "store_replaced", "store": str(self._path), "error": error}
                log.error("The store's file is not the store any more", extra=about)
                self._lost = error
                block.cancel()
                return
            except StoreError:
                pass  # it cannot be looked at; the next append raises

    async def _set_up(self, stack: AsyncExitStack, wait_max_s: float, busy_s: float) -> None:
        ledger, turnstile, opened = await self._opened(wait_max_s, busy_s)
        stack.push(opened)
        self._writer = Writer(
            ledger,
            turnstile,
            explain=lambda error: explain(self._path, error),
            announce=self._announce,
            deliver=self._deliver,
            wait_max_s=wait_max_s,
            busy_s=busy_s,
        )
        self._set_up_done = True

    async def _opened(self, wait_max_s: float, busy_s: float) -> Opened:
        """Open the files in the reader's thread, and close them again if we are cancelled.

        A thread cannot be cancelled: a task that is cancelled waits for the thread to end, as long
        as that may wait for other processes. If it takes longer the thread closes them at its end.
        """
        opening = self._reader.submit(self._open_files, wait_max_s, busy_s)
        ended = asyncio.wrap_future(opening)
        try:
            await asyncio.wait({ended})  # which does not cancel it
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await _through_cancels(ended, wait_max_s + busy_s)
            ended.add_done_callback(_is_left)
            opening.add_done_callback(_close_unused)
            raise
        with self._explained():
            return ended.result()

    def _open_files(self, wait_max_s: float, busy_s: float) -> Opened:
        with ExitStack() as stack:
            ledger, turnstile = self._open_each(stack, wait_max_s, busy_s)
            return ledger, turnstile, stack.pop_all()

    def _open_each(
        self, stack: ExitStack, wait_max_s: float, busy_s: float
    ) -> tuple[Ledger, Turnstile]:
        if not self._path.parent.is_dir():
            raise StoreUnavailable(f"there is no folder {self._path.parent} for the store's file.")
        if self._path.is_dir():
            raise StoreUnavailable(
                f"{self._path} is a folder: name a file in it, as {self._path / 'midflight.db'}."
            )
        create(self._path)
        beside = self._path.with_name(self._path.name + ".d")
        beside.mkdir(mode=0o700, exist_ok=True)
        held = ExitStack()
        stack.callback(self._let_go, held)
        self._hold = hold = Hold(self._path)
        held.callback(hold.close)
        if HAS_BYTE_LOCKS:
            turnstile = hold.turnstile()
            self._leases = ByteLeases(hold)
        else:
            turnstile = held.enter_context(turnstile_of_files(beside))
            self._leases = FolderLeases(beside / "drivers", hold)
        with hold.opening(wait_max_s):
            hold.mark = prepare(self._path, turnstile, busy_s)
            hold.keep_database(busy_s)
            self._db = self._cursor(stack, busy_s)
            self._pulse = self._cursor(stack, 0)
            self._writing = connect(self._path, writes=True, busy_s=0)  # the writer is patient
            held.callback(self._writing.close)
            held.callback(hold.let_go)
            hold.keep_log(busy_s)
        self._nudges = Nudges(beside / "watchers", self._ids())
        stack.callback(self._nudges.close)
        self._bell = DriversBell(beside / "bells", self._ids())
        stack.callback(self._bell.close)
        return Ledger(self._writing, self._clock, self._leases.gone, hold), turnstile

    def _cursor(self, stack: ExitStack, busy_s: float) -> sqlite3.Cursor:
        db = connect(self._path, writes=False, busy_s=busy_s)
        stack.callback(db.close)
        return db.cursor()

    def _let_go(self, held: ExitStack) -> None:
        """Let go of the file, unless the writer still waits for another process.

        In that case the file is held as long as this process lives.
        """
        if not (self._set_up_done and self._writer.alive):
            held.close()

    # ── writing ──────────────────────────────────────────────────────────────────────────────

    async def append(self, decision: Append) -> Committed:
        """See ``Store.append``."""
        try:
            return await self._writer.do(Ledger.append, decision, NOTHING_FOLDED, light=_is_light)
        except Unfolded as found:
            return await self._folded_first(Ledger.append, decision, found)

    async def submit(self, request: Submit) -> Committed:
        """See ``Store.submit``."""
        try:
            return await self._writer.do(Ledger.submit, request, NOTHING_FOLDED)
        except Unfolded as found:
            return await self._folded_first(Ledger.submit, request, found)

    async def _folded_first(
        self, work: Callable[[Ledger, T, Folded], Committed], what: T, found: Unfolded
    ) -> Committed:
        """Fold what takes long in the reader, where it keeps nobody from writing, then ask again.

        A journal may grow meanwhile, and a request may turn out to need others: then once more.
        """
        for _ in range(FOLDS_MAX):
            for state in found.states.values():
                while await self._in_reader(partial(fold_page, self._db, state)):
                    pass
            try:
                return await self._writer.do(work, what, found.states)
            except Unfolded as more:
                found = more
        return await self._writer.do(work, what, None)

    async def kill(self, scope: str, who: Actor, reason: str = "") -> Killing:
        """See ``Store.kill``."""
        require_operator(who, "kill")
        asked = deed("kill", scope, id=self._ids(), who=who)
        return await self._writer.do(Ledger.kill, scope, who, reason, asked)

    async def release(self, scope: str, who: Actor) -> bool:
        """See ``Store.release``."""
        require_operator(who, "release")
        asked = deed("release", scope, id=self._ids(), who=who)
        return await self._writer.do(Ledger.release, scope, asked)

    async def purge(self, ended_before: float, limit: int = 1000) -> Purged:
        """See ``Store.purge``."""
        asked = deed("purge", id=self._ids())
        return await self._writer.do(Ledger.purge, ended_before, limit, asked)

    async def audit(self, *deeds: Deed) -> None:
        """See ``Store.audit``."""
        await self._writer.do(Ledger.audit, deeds)

    def _announce(self, jobs: list[Job]) -> None:
        """Nudge the other processes as soon as it is on the disk. Only a hint: it may fail."""
        self._bell.ring(job.result for job in jobs)
        if self._nudges.nobody_listens():
            return
        heads: dict[str, int] = {}
        for job in jobs:
            if isinstance(job.result, Committed):
                heads.update((r.journal, r.position) for r in job.result.records)
            elif isinstance(job.result, Killing):
                heads.update(dict.fromkeys([*job.result.killed, *job.result.revoked], LAST))
        with suppress(OSError):
            self._nudges.send(heads)

    def _deliver(self, jobs: list[Job]) -> None:
        """Tell the watchers here before the callers: an acknowledged stop has been heard."""
        for job in jobs:
            if isinstance(job.result, Committed) and not job.result.repeated:
                self._hub.publish(job.result.records)
            elif isinstance(job.result, Committed):  # the first time may have been left open
                self._hub.moved({r.journal: r.position for r in job.result.records})
            elif isinstance(job.result, Killing):
                self._hub.moved(dict.fromkeys([*job.result.killed, *job.result.revoked]))

    # ── leases and watching ──────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def lease(self, driver: str) -> AsyncIterator[FileLease]:
        """See ``Store.lease``."""
        self._check_open()
        with self._leases.hold(driver) as lease:
            yield lease

    async def lease_gone(self, driver: str) -> bool:
        """See ``Store.lease_gone``."""
        self._check_open()
        return self._leases.gone(driver)

    @override
    def wanting(self) -> Movements:
        """See ``Store.wanting``."""
        return Movements(self._bell.hear, self._bell.hear_no_more)

    async def _listen(self) -> None:
        """Hear of other processes' appends: by nudge at once, by polling in any case."""
        await self._watched.wait()
        loop = asyncio.get_running_loop()
        box = self._nudges.open_box()
        if box is not None:
            loop.add_reader(box, self._nudges.receive, self._nudged)
        seen = -1
        try:
            while True:
                await anyio.sleep(POLL_S if box is not None else POLL_ALONE_S)
                if self._hub.watched or self._hub.movements:
                    with suppress(StoreError):  # read again a moment later
                        seen = await self._poll(seen)
        finally:
            if box is not None:
                loop.remove_reader(box)

    def _nudged(self, heads: Mapping[str, int]) -> None:
        self._hub.moved(heads or dict.fromkeys(self._hub.watched))

    async def _poll(self, seen: int) -> int:
        with self._explained():  # on the loop: it looks at shared memory and takes microseconds
            ((version,),) = self._pulse.execute("PRAGMA data_version").fetchall()
        if version != seen:
            watched = msgspec.json.encode(self._hub.watched).decode()
            heads = await self._select("heads", (watched,))
            self._hub.moved(dict(heads))
            await self._look_everywhere()
        return int(version)

    async def _look_everywhere(self) -> None:
        """Name the journals that have moved since the last look, for lists of runs.

        Events lie in the order in which they came, so only what is new is read. A purge may take
        the last of them away; then everything is looked at once more.
        """
        if not self._hub.movements:
            self._looked = -1
            return
        ((last,),) = await self._select("last_event", ())
        if self._looked < 0:
            self._looked = last  # who comes now has read the list
            return
        since = self._looked if last >= self._looked else 0
        self._looked = last
        for (journal,) in await self._select("moved_since", (since,)) if last > since else ():
            for everywhere in self._hub.movements:
                everywhere.note(journal, more=False)  # or somebody was told at once


async def _through_cancels(ended: asyncio.Future[Opened], wait_s: float) -> None:
    """Wait for the end, and not longer than this, however often we are cancelled."""
    deadline = time.monotonic() + wait_s
    while not ended.done() and (left := deadline - time.monotonic()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.wait({ended}, timeout=left)


def _is_left(ended: asyncio.Future[Opened]) -> None:
    """Look at how it ended, or the loop complains that nobody did."""
    if not ended.cancelled():
        ended.exception()


def _close_unused(opening: Future[Opened]) -> None:
    """Close what was opened for somebody who was cancelled."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[-1].close()


def _resolved(path: str | Path) -> Path:
    """Return the path without links and relative parts: both may lead elsewhere later."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError) as error:  # links that lead in a circle
        raise StoreUnavailable(f"{path} leads to no file: {error}.") from error


def _is_light(ledger: Ledger, decision: Append, _folded: Folded) -> bool:
    """Return whether it can be written in a moment: nothing is read first, no blob is written."""
    if len(decision.entries) != 1 or not ledger.has_folded(decision.entries[0].journal):
        return False
    payloads = (getattr(event, "result", b"") for event in decision.entries[0].events)
    return all(len(bytes(payload)) <= INLINE_MAX for payload in payloads)
