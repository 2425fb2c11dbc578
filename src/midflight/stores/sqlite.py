"""Journals in one SQLite file: the default, for a laptop or a server of its own.

Any number of processes may read, watch and send requests; one of them drives. Writes go through a
writer thread with group commit (``sqlite_writer``), reads through a reader thread
(``sqlite_reading``). Beside the file lies a folder, ``<file>.d``, with the turnstile, the drivers'
locks and the letter boxes of watching processes.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Self

import anyio
import msgspec

from midflight.errors import StoreError, StoreUnavailable
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.kernel.decide import require_operator
from midflight.kernel.record import Who
from midflight.stores.base import Append, Committed, Killing, Purged, Submit
from midflight.stores.codec import INLINE_MAX
from midflight.stores.sqlite_file import connect, explain, prepare
from midflight.stores.sqlite_lease import FileLease, Leases
from midflight.stores.sqlite_ledger import Ledger
from midflight.stores.sqlite_nudge import Nudges
from midflight.stores.sqlite_reading import SqliteReading
from midflight.stores.sqlite_writer import Job, Writer
from midflight.stores.turnstile import Turnstile
from midflight.tasks import owned_tasks

LAST: Final = (1 << 63) - 1  # "up to the end": a kill does not say how far it moved each journal
POLL_S: Final = 0.1  # the fallback when a nudge is lost; with it a watcher is never later
POLL_ALONE_S: Final = 0.02  # where there are no nudges at all
WAIT_MAX_S: Final = 10.0  # for this process's turn at the turnstile
BUSY_S: Final = 5.0  # for a program that locks the file without passing the turnstile


class SqliteStore(SqliteReading):
    """See ``Store``; made by ``SqliteStore.open``."""

    def __init__(self, path: Path, clock: Clock, ids: Ids) -> None:
        self._watched = anyio.Event()
        super().__init__(path, clock, self._watched.set)
        self._ids = ids
        self._writer: Writer
        self._writing: sqlite3.Connection
        self._set_up_done = False
        self._looked = -1  # the last event that was there when all journals were looked at
        self._nudges: Nudges
        self._pulse: sqlite3.Cursor

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: str | Path,
        *,
        clock: Clock = wall_clock,
        ids: Ids = new_id,
        wait_max_s: float = WAIT_MAX_S,
        busy_s: float = BUSY_S,
    ) -> AsyncIterator[Self]:
        """Open the file, creating it if need be, for as long as the block runs."""
        store = cls(Path(path), clock, ids)
        async with AsyncExitStack() as stack:
            stack.callback(store._reader.shutdown)
            await store._set_up(stack, wait_max_s, busy_s)
            stack.callback(store._reader.shutdown)  # first of all: it may be reading what we close
            async with owned_tasks(store._listen):
                try:
                    yield store
                finally:
                    with anyio.CancelScope(shield=True):  # bounded by the writer's own patience
                        await store._writer.close()

    async def _set_up(self, stack: AsyncExitStack, wait_max_s: float, busy_s: float) -> None:
        ledger, turnstile = await self._in_reader(lambda: self._open_files(stack, busy_s))
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

    def _open_files(self, stack: AsyncExitStack, busy_s: float) -> tuple[Ledger, Turnstile]:
        if not self._path.parent.is_dir():
            raise StoreUnavailable(f"there is no folder {self._path.parent} for the store's file.")
        if self._path.is_dir():
            raise StoreUnavailable(
                f"{self._path} is a folder: name a file in it, as {self._path / 'midflight.db'}."
            )
        beside = self._path.with_name(self._path.name + ".d")
        beside.mkdir(mode=0o700, exist_ok=True)
        turnstile = Turnstile(beside)
        stack.callback(self._close_what_is_written_to, turnstile)
        prepare(self._path, turnstile, busy_s)
        self._db = self._cursor(stack, busy_s)
        self._pulse = self._cursor(stack, 0)
        self._writing = connect(
            self._path, writes=True, busy_s=0
        )  # the writer has its own patience
        self._leases = Leases(beside / "drivers")
        self._nudges = Nudges(beside / "watchers", self._ids())
        stack.callback(self._nudges.close)
        return Ledger(self._writing, self._clock, self._leases.gone), turnstile

    def _cursor(self, stack: AsyncExitStack, busy_s: float) -> sqlite3.Cursor:
        db = connect(self._path, writes=False, busy_s=busy_s)
        stack.callback(db.close)
        return db.cursor()

    def _close_what_is_written_to(self, turnstile: Turnstile) -> None:
        """Unless the writer still waits for another process: then it goes with this one."""
        if self._set_up_done and self._writer.alive:
            return
        turnstile.close()
        if self._set_up_done:
            self._writing.close()

    # ── writing ──────────────────────────────────────────────────────────────────────────────

    async def append(self, decision: Append) -> Committed:
        """See ``Store.append``."""
        return await self._writer.do(Ledger.append, decision, light=_is_light)

    async def submit(self, request: Submit) -> Committed:
        """See ``Store.submit``."""
        return await self._writer.do(Ledger.submit, request)

    async def kill(self, scope: str, who: Who, reason: str = "") -> Killing:
        """See ``Store.kill``."""
        require_operator(who, "kill")
        return await self._writer.do(Ledger.kill, scope, who, reason, self._ids())

    async def release(self, scope: str, who: Who) -> bool:
        """See ``Store.release``."""
        require_operator(who, "release")
        return await self._writer.do(Ledger.release, scope)

    async def purge(self, ended_before: float, limit: int = 1000) -> Purged:
        """See ``Store.purge``."""
        return await self._writer.do(Ledger.purge, ended_before, limit)

    def _announce(self, jobs: list[Job]) -> None:
        """Nudge the other processes as soon as it is on the disk. Only a hint: it may fail."""
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
            elif isinstance(job.result, Killing):
                self._hub.moved(dict.fromkeys([*job.result.killed, *job.result.revoked]))

    # ── leases and watching ──────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def lease(self, driver: str) -> AsyncIterator[FileLease]:
        """See ``Store.lease``."""
        with self._leases.hold(driver) as lease:
            yield lease

    async def lease_gone(self, driver: str) -> bool:
        """See ``Store.lease_gone``."""
        return self._leases.gone(driver)

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
        """Name what has moved since the last look, for who shows a list of runs.

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


def _is_light(ledger: Ledger, decision: Append) -> bool:
    """Whether it can be written in a moment: nothing to read first, and nothing for the blobs."""
    if len(decision.entries) != 1 or not ledger.has_folded(decision.entries[0].journal):
        return False
    payloads = (getattr(event, "result", b"") for event in decision.entries[0].events)
    return all(len(bytes(payload)) <= INLINE_MAX for payload in payloads)
