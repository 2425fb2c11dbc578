"""Journals in Postgres: for several processes or machines that drive and control the same runs.

How an append comes to the disk is in ``appender``; everything else that a store does is here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, Self

import anyio
import msgspec

from midflight.audit import Deed, Head, Link, deed
from midflight.errors import JournalNotFound, StoreError, StoreReadOnly
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.journal.events import Killed
from midflight.journal.record import Actor, Recorded
from midflight.journal.requests import Switch, require_operator
from midflight.journal.stored_fold import FoldRow, FoldRows, StoredFold, opened
from midflight.journal.transition_table import State
from midflight.stores.codec import blob_missing, decode
from midflight.stores.commit import of_purge, of_release
from midflight.stores.hints import Movements, no_movements
from midflight.stores.hub import Hub
from midflight.stores.lookup import folded
from midflight.stores.postgres.appender import Appender
from midflight.stores.postgres.kept_states import Turn
from midflight.stores.postgres.links import Doubt, Pool, mind
from midflight.stores.postgres.locked_requests import insert_audit, kill_locked, write_fold
from midflight.stores.postgres.postgres_lease import TTL_S, RowLease, hold
from midflight.stores.postgres.postgres_server import LONG_S, SQL, Connection, Server, ServerClock
from midflight.stores.postgres.postgres_writer import row_of
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
from midflight.tasks import owned_tasks

KILL_TURN_S: Final = 2.0
KILL_S: Final = 30.0  # for tens of thousands of live runs in one transaction
PURGE_S: Final = 600.0
CLOSE_S: Final = 5.0
CHAINED_MAX: Final = 500  # records of the audit that are chained in one transaction
CHAIN_PAUSE_S: Final = 0.05  # records of so long are chained together
CHAIN_AGAIN_S: Final = 5.0  # after which a server is asked again that did not do it
SEARCH_S: Final = 10.0  # no index finds words: a search may have to look at every row


class PostgresStore:
    """See ``Store``; made by ``PostgresStore.open``."""

    def __init__(
        self, server: Server, *, clock: Clock, ids: Ids, connections: int, lease_s: float
    ) -> None:
        self._server = server
        self._ids = ids
        self._lease_s = lease_s
        self._clock = ServerClock(clock)
        self._pool = Pool(server, connections)
        self._chaining = Chaining(self._pool)
        hub = Hub(self.read)
        self.watch, self.watch_live, self.movements = hub.watch, hub.watch_live, hub.watch_all
        self.voices = hub.voices
        self._appender = Appender(
            server, self._pool, self._clock, hub, ids, audited=self._chaining.ask
        )
        self._links = (*self._pool.links, *self._appender.writer.links)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        dsn: str,
        *,
        schema: str = "midflight",
        clock: Clock = wall_clock,
        ids: Ids = new_id,
        connections: int = 4,
        lease_s: float = TTL_S,
    ) -> AsyncIterator[Self]:
        """Open the store in a database, creating its schema if need be, while the block runs.

        A process uses ``connections`` for requests and readers, two for writing, one for news, and
        one more for its lease when those for requests are all busy.
        """
        server = Server(dsn, schema)
        await server.prepare()
        store = cls(server, clock=clock, ids=ids, connections=connections, lease_s=lease_s)
        try:
            async with owned_tasks(*store._tasks()):
                try:
                    store._clock.heard(await store.now())
                    yield store
                finally:
                    await store._close()
        finally:
            for link in store._links:
                link.drop()

    async def _close(self) -> None:
        with anyio.move_on_after(CLOSE_S, shield=True):
            self._pool.close()
            await self._appender.writer.close()
            await self._appender.news.close()

    def _tasks(self) -> Iterator[Callable[[], Coroutine[Any, Any, None]]]:
        yield partial(mind, self._links)
        yield self._appender.news.run
        yield self._chaining.run
        yield from self._appender.writer.tasks
        for link in self._pool.links:
            yield partial(self._pool.serve, link)

    # ── appending and reading ────────────────────────────────────────────────────────────────

    async def append(self, decision: Append) -> Committed:
        """See ``Store.append``."""
        return await self._appender.append(decision)

    async def submit(self, request: Submit) -> Committed:
        """See ``Store.submit``."""
        return await self._appender.submit(request)

    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        """See ``Store.read``."""
        page = await self._pool.fetch(SQL["read_events"], journal, after, limit, answer_s=LONG_S)
        if not page:
            await self.row(journal)
        return [decode(*row) for row in page]

    async def load(self, journal: str) -> State:
        """See ``Store.load``."""
        return await folded(self.read, self.fold, journal)

    async def fold(self, journal: str) -> StoredFold | None:
        """See ``Store.fold``."""
        rows = await self._pool.fetch(SQL["read_fold"], journal, answer_s=LONG_S)
        return opened(journal, [FoldRow(*row) for row in rows])

    async def keep_fold(self, fold: FoldRows) -> bool:
        """See ``Store.keep_fold``."""
        return await self._pool.do(lambda c: write_fold(c, fold), writes=True, answer_s=LONG_S)

    async def row(self, journal: str) -> Row:
        """See ``Store.row``."""
        rows = await self._pool.fetch(SQL["row"], journal)
        if not rows:
            raise JournalNotFound(journal)
        return row_of(rows[0])

    async def rows(self, query: Query) -> list[Row]:
        """See ``Store.rows``."""
        *wanted, search = msgspec.structs.astuple(query)
        name, more = ("search_rows", [query.words]) if search else ("rows", [])
        answer_s = SEARCH_S if search else LONG_S
        return [
            row_of(row)
            for row in await self._pool.fetch(SQL[name], *wanted, *more, answer_s=answer_s)
        ]

    async def due(self, limit: int = 100) -> list[Row]:
        """See ``Store.due``."""
        return [row_of(row) for row in await self._pool.fetch(SQL["due"], limit)]

    async def clock_of(self, journal: str) -> JournalClock:
        """See ``Store.clock_of``."""
        del journal
        return JournalClock()

    async def blob(self, digest: str) -> bytes:
        """See ``Store.blob``."""
        found = await self._pool.fetch(SQL["blob"], digest, answer_s=LONG_S)
        if not found:
            raise blob_missing(digest)
        return bytes(found[0]["body"])

    async def now(self) -> float:
        """See ``Store.now``."""
        ((now,),) = await self._pool.fetch(SQL["clock"])
        return float(now)

    # ── the operator ─────────────────────────────────────────────────────────────────────────

    async def kill(self, scope: str, who: Actor, reason: str = "") -> Killing:
        """See ``Store.kill``."""
        require_operator(who, "kill")
        found = await self._pool.do(
            lambda c: c.fetch(SQL["live"], scope), first=True, answer_s=LONG_S
        )
        heads = {row["journal"]: row["head"] for row in found}
        turn = await self._kill_turn(heads)
        await self._appender.fold_ahead(
            turn, {journal: heads[journal] for journal in turn.journals}
        )
        work = partial(
            kill_locked,
            asked=deed("kill", scope, id=self._ids(), who=who),
            killed=Killed(who=who, scope=scope),
            reason=reason,
            states=self._appender.states,
            turn=turn,
            landed=self._appender.landed,
        )
        leave = partial(self._appender.states.leave, turn)
        done = await self._pool.do(work, after=leave, writes=True, first=True, answer_s=KILL_S)
        self._chaining.ask()
        return done

    async def _kill_turn(self, journals: Iterable[str]) -> Turn:
        """Take our turn, or one on nothing: a kill does not wait for appends that are stuck."""
        with anyio.move_on_after(KILL_TURN_S):
            return await self._appender.states.take(journals)
        return await self._appender.states.take(())

    async def release(self, scope: str, who: Actor) -> bool:
        """See ``Store.release``."""
        require_operator(who, "release")
        doubt, asked = Doubt(), deed("release", scope, id=self._ids(), who=who)

        async def let_go(connection: Connection) -> bool:
            async with connection.transaction():
                # off after a try that nobody answered: that try has done it
                released = bool(await connection.fetchval(SQL["release"], scope)) or doubt.open
                done = of_release(asked, released=released)
                await insert_audit(connection, [done], self._clock.now())
            return released

        released = await self._pool.do(let_go, writes=True, doubt=doubt)
        self._chaining.ask()
        return released

    async def switches(self) -> list[Switch]:
        """See ``Store.switches``."""
        return [Switch(*row) for row in await self._pool.fetch(SQL["switches"])]

    async def ready(self) -> None:
        """See ``Store.ready``. A replica answers, and takes nothing."""
        ((only_reads,),) = await self._pool.fetch(SQL["only_reads"])
        if only_reads:
            raise self._server.read_only()  # layer asks-whether-all-well-hears

    async def purge(self, ended_before: float, limit: int = 1000) -> Purged:
        """See ``Store.purge``."""
        asked = deed("purge", id=self._ids())

        async def remove(connection: Connection) -> tuple[list[str], Purged]:
            async with connection.transaction():
                found = await connection.fetchrow(SQL["purge"], ended_before, limit)
                assert found is not None
                runs, threads = found["runs"], found["threads"]
                purged = Purged(len(runs), len(threads), found["values_removed"])
                if runs or threads:
                    done = of_purge(asked, purged, ended_before)
                    await insert_audit(connection, [done], self._clock.now())
            return [*runs, *threads], purged

        gone, purged = await self._pool.do(remove, writes=True, answer_s=PURGE_S)
        self._appender.states.forget(gone)
        self._chaining.ask()
        return purged

    # ── the audit ────────────────────────────────────────────────────────────────────────────

    async def audit(self, *deeds: Deed) -> None:
        """See ``Store.audit``."""
        await self._pool.do(
            lambda c: insert_audit(c, deeds, self._clock.now()), writes=True, answer_s=LONG_S
        )
        self._chaining.ask()

    async def audit_page(self, after: int = 0, limit: int = PAGE) -> list[Link]:
        """See ``Store.audit_page``."""
        return await self._chaining.page(after, limit)

    async def audit_head(self) -> Head:
        """See ``Store.audit_head``."""
        return await self._chaining.head()

    # ── leases ───────────────────────────────────────────────────────────────────────────────

    def lease(self, driver: str) -> AbstractAsyncContextManager[RowLease]:
        """See ``Store.lease``."""
        return hold(self._pool, driver, holder=self._ids(), ttl=self._lease_s)

    async def lease_gone(self, driver: str) -> bool:
        """See ``Store.lease_gone``."""
        ((lives,),) = await self._pool.fetch(SQL["lease_lives"], driver)
        return not lives

    def wanting(self) -> Movements:
        """See ``Store.wanting``. Here nobody is told."""
        return no_movements()


class Chaining:
    """Has records of the audit chained, in a task of the store and before anybody reads them.

    A record is written with the change that it tells of, and chained later.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._asked = anyio.Event()

    def ask(self) -> None:
        """Have what was written chained soon."""
        self._asked.set()

    async def run(self) -> None:
        """Chain whenever somebody asks; also at the start, what others have left."""
        while True:
            try:
                await self.chain()
            except StoreReadOnly:
                pass  # a replica: the primary does it
            except StoreError:
                self._asked.set()
                await anyio.sleep(CHAIN_AGAIN_S)
            await anyio.sleep(CHAIN_PAUSE_S)
            await self._asked.wait()

    async def chain(self) -> None:
        """Chain all that was written before this call."""
        self._asked = anyio.Event()
        while await self._chain_some() == CHAINED_MAX:
            pass

    async def _chain_some(self) -> int:
        return int(
            await self._pool.do(
                lambda c: c.fetchval(SQL["chain_audit"], CHAINED_MAX), writes=True, answer_s=LONG_S
            )
        )

    async def page(self, after: int, limit: int) -> list[Link]:
        """Read some records."""
        await self._chain_if_possible()
        rows = await self._pool.do(
            lambda c: c.fetch(SQL["audit_page"], after, limit), answer_s=LONG_S
        )
        return [Link(*row) for row in rows]

    async def head(self) -> Head:
        """Return where the audit ends."""
        await self._chain_if_possible()
        found = await self._pool.do(lambda c: c.fetchrow(SQL["audit_head"]))
        return Head(*found) if found is not None else Head()

    async def _chain_if_possible(self) -> None:
        with suppress(StoreReadOnly):  # a replica shows what the primary has chained
            await self.chain()
