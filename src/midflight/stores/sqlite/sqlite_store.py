"""Journals in one SQLite file: the default, for a laptop or a server of its own.

Any number of processes may read, watch and send requests; one of them drives. Writes go through a
writer thread with group commit (``sqlite_writer``), reads through a reader thread
(``open_files``).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

import anyio
import msgspec

from midflight.audit import Deed, Head, Link, deed
from midflight.errors import JournalNotFound, StoreError, StoreReplaced
from midflight.inputs import Clock, Ids, new_id, steady, wall_clock
from midflight.journal.record import Actor, Recorded
from midflight.journal.requests import Switch, require_operator
from midflight.journal.stored_fold import FoldRows, StoredFold
from midflight.journal.transition_table import State
from midflight.stores.clock_steps import ClockSteps
from midflight.stores.codec import blob_missing
from midflight.stores.hints import Movements
from midflight.stores.hub import Hub
from midflight.stores.lookup import folded
from midflight.stores.protocol import (
    PAGE,
    Append,
    Committed,
    JournalClock,
    Killing,
    Purged,
    Query,
    Row,
    Submit,
)
from midflight.stores.sqlite.open_files import (
    OpenFiles,
    SqliteReader,
    open_files,
    read_fold,
    resolved,
    start_of,
)
from midflight.stores.sqlite.sqlite_lease import FileLease
from midflight.stores.sqlite.sqlite_ledger import keep_fold, kill, purge, release
from midflight.stores.sqlite.sqlite_news import News
from midflight.stores.sqlite.sqlite_writer import Writer
from midflight.stores.sqlite.transaction import (
    Folded,
    Transaction,
    Unfolded,
    audit_head,
    audit_page,
    read_events,
    row_of,
)
from midflight.tasks import owned_tasks

WAIT_MAX_S: Final = 10.0  # for this process's turn at the turnstile
MIND_S: Final = 0.5  # between two looks whether the file is still there, also if nobody writes
FOLDS_MAX: Final = 5  # outside; a journal that grows faster than it is folded is folded inside
BUSY_S: Final = 5.0  # for a program that locks the file without passing the turnstile
log: Final = logging.getLogger(__name__)

LIGHT_MAX: Final = 2  # journals of a request that is written on the loop: a run and its thread
NOTHING_FOLDED: Final[dict[str, State]] = {}  # nobody puts anything into it
T = TypeVar("T")


class SqliteStore:
    """See ``Store``; made by ``SqliteStore.open``."""

    def __init__(
        self,
        files: OpenFiles,
        thread: ThreadPoolExecutor,
        clock: Clock,
        ids: Ids,
        steadily: Clock | None = None,
    ) -> None:
        self._files = files
        self._clock = clock
        self._ids = ids
        self._steps = ClockSteps(clock, steadily or (steady if clock is wall_clock else None))
        self._minding = anyio.Lock()
        self._lost: StoreReplaced | None = None
        self._reader = SqliteReader(files, thread)
        self._watched = anyio.Event()
        self._hub = hub = Hub(self.read, self._watched.set)
        self.watch, self.watch_live, self.movements = hub.watch, hub.watch_live, hub.watch_all
        self.voices = hub.voices
        self._news = News(files.path, files.letters.nudges, files.pulse, self._reader, hub)
        self._writer = Writer(
            Transaction(files.writing, clock, files.hold),
            files.turnstile,
            files.path,
            announce=files.letters.announce,
            deliver=hub.deliver,
            wait_max_s=files.wait_max_s,
            busy_s=files.busy_s,
        )

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
        found = resolved(path)
        async with AsyncExitStack() as stack:
            thread = ThreadPoolExecutor(1, thread_name_prefix="midflight-reader")
            stack.callback(thread.shutdown, wait=False)
            files = await open_files(found, thread, ids, wait_max_s, busy_s)
            try:
                store = cls(files, thread, clock, ids, steadily)
            except BaseException:
                files.close()
                raise
            stack.callback(lambda: files.close(writer_waits=store._writer.alive))
            stack.callback(thread.shutdown)  # first of all: it may be reading what we close
            async with owned_tasks(store._listen) as tasks:
                tasks.start_soon(store._mind_the_file, tasks.cancel_scope)
                try:
                    yield store
                finally:
                    with anyio.CancelScope(shield=True):  # bounded by the writer's own patience
                        await store._writer.close()
                    store._reader.close()
        if store._lost is not None:
            raise store._lost

    async def _mind_the_file(self, block: anyio.CancelScope) -> None:
        """End the block in which the store is open as soon as its file is not the store any more.

        Drivers, servers and watches in the block cannot go on then, even if nothing is appended
        now.
        """
        while True:
            await anyio.sleep(MIND_S)
            try:
                self._files.hold.look_before()
            except StoreReplaced as error:
                about = {"action": "store_replaced", "store": str(self._files.path), "error": error}
                log.error("This process has lost its store: %s", error, extra=about)
                self._lost = error
                block.cancel()  # layer store-lost-ends-block-in-open
                return
            except StoreError:
                pass  # it cannot be looked at; the next append raises

    # ── writing ──────────────────────────────────────────────────────────────────────────────

    async def append(self, decision: Append) -> Committed:
        """See ``Store.append``."""
        try:
            return await self._writer.do(
                Transaction.append, decision, NOTHING_FOLDED, light=Transaction.is_light
            )
        except Unfolded as found:
            return await self._folded_first(Transaction.append, decision, found)

    async def submit(self, request: Submit) -> Committed:
        """See ``Store.submit``."""
        work = partial(Transaction.submit, lease_gone=self._files.leases.gone)
        try:
            return await self._writer.do(
                work, request, NOTHING_FOLDED, light=_is_light_request, patient=False
            )
        except Unfolded as found:
            return await self._folded_first(work, request, found)

    async def _folded_first(
        self, work: Callable[[Transaction, T, Folded], Committed], what: T, found: Unfolded
    ) -> Committed:
        """Fold what takes long in the reader, where it keeps nobody from writing, then ask again.

        A journal may grow meanwhile, and a request may turn out to need others: then once more.
        """
        for _ in range(FOLDS_MAX):
            for journal, state in found.states.items():
                if state.head == 0:
                    state = found.states[journal] = await self._reader.look(start_of, journal)
                await self._reader.fold_on(state)
            try:
                return await self._writer.do(work, what, found.states)
            except Unfolded as more:
                found = more
        return await self._writer.do(work, what, None)

    async def kill(self, scope: str, who: Actor, reason: str = "") -> Killing:
        """See ``Store.kill``."""
        require_operator(who, "kill")
        asked = deed("kill", scope, id=self._ids(), who=who)
        return await self._writer.do(kill, scope, who, reason, asked, patient=False)

    async def release(self, scope: str, who: Actor) -> bool:
        """See ``Store.release``."""
        require_operator(who, "release")
        asked = deed("release", scope, id=self._ids(), who=who)
        return await self._writer.do(release, scope, asked, patient=False)

    async def purge(self, ended_before: float, limit: int = 1000) -> Purged:
        """See ``Store.purge``."""
        asked = deed("purge", id=self._ids())
        return await self._writer.do(purge, ended_before, limit, asked)

    async def audit(self, *deeds: Deed) -> None:
        """See ``Store.audit``."""
        await self._writer.do(Transaction.stage_audit, *deeds)

    # ── leases, the clock, watchers ──────────────────────────────────────────────────────────

    @asynccontextmanager
    async def lease(self, driver: str) -> AsyncIterator[FileLease]:
        """See ``Store.lease``."""
        self._reader.check_open()
        with self._files.leases.hold(driver) as lease:
            yield lease

    async def lease_gone(self, driver: str) -> bool:
        """See ``Store.lease_gone``."""
        self._reader.check_open()
        return self._files.leases.gone(driver)

    async def now(self) -> float:
        """See ``Store.now``."""
        self._reader.check_open()
        return self._clock()

    def wanting(self) -> Movements:
        """See ``Store.wanting``."""
        return Movements(self._files.letters.hear, self._files.letters.hear_no_more)

    async def _listen(self) -> None:
        await self._watched.wait()
        await self._news.listen()

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        """See ``Store.read``."""
        page = await self._reader.look(read_events, journal, after, limit)
        if not page:
            await self.row(journal)
        return page

    async def load(self, journal: str) -> State:
        """See ``Store.load``."""
        return await folded(self.read, self.fold, journal)

    async def fold(self, journal: str) -> StoredFold | None:
        """See ``Store.fold``."""
        return await self._reader.look(read_fold, journal)

    async def keep_fold(self, fold: FoldRows) -> bool:
        """See ``Store.keep_fold``."""
        return await self._writer.do(keep_fold, fold)

    async def row(self, journal: str) -> Row:
        """See ``Store.row``."""
        rows = await self._reader.select("row", (journal,))
        if not rows:
            raise JournalNotFound(journal)
        return row_of(rows[0])

    async def rows(self, query: Query) -> list[Row]:
        """See ``Store.rows``."""
        wanted = msgspec.structs.asdict(query)
        wanted["phases"] = msgspec.json.encode(query.phases).decode()
        wanted["words"] = msgspec.json.encode(query.words).decode()
        return [row_of(found) for found in await self._reader.select("rows", wanted)]

    async def due(self, limit: int = 100) -> list[Row]:
        """See ``Store.due``."""
        await self._mind_the_clock()
        now = self._clock()
        found = [row_of(r) for r in await self._reader.select("due", (self._steps.latest(now),))]
        alive: dict[str, bool] = {"": False}
        for row in found:
            if row.driver not in alive:
                alive[row.driver] = not self._files.leases.gone(row.driver)
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
        self._reader.check_open()
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
        rows = map(row_of, await self._reader.select("due", (float("inf"),)))
        return [row for row in rows if row.due_at is not None]

    async def switches(self) -> list[Switch]:
        """See ``Store.switches``."""
        return [Switch(*values) for values in await self._reader.select("switches", ())]

    async def ready(self) -> None:
        """See ``Store.ready``. Only reading is tried; whether it takes writes shows at a write."""
        await self.switches()

    async def blob(self, digest: str) -> bytes:
        """See ``Store.blob``."""
        found = await self._reader.select("read_blob", (digest,))
        if not found:
            raise blob_missing(digest)
        return bytes(found[0][0])

    async def audit_page(self, after: int = 0, limit: int = PAGE) -> list[Link]:
        """See ``Store.audit_page``."""
        return await self._reader.look(audit_page, after, limit)

    async def audit_head(self) -> Head:
        """See ``Store.audit_head``."""
        return await self._reader.look(audit_head)


def _is_light_request(tx: Transaction, request: Submit, _folded: Folded) -> bool:
    """Return whether it is decided in a moment: nothing long is read first, and it is for few.

    A request over a run with children may be for many of them.
    """
    if len(request.journals) > LIGHT_MAX or request.leases:
        return False
    for state in tx.at_hand(request.journals):
        if state is None or getattr(state, "children", None):
            return False
    return True
