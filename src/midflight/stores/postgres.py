"""Journals in Postgres: for several processes or machines that drive and control the same runs.

Opening and closing, the operator's verbs and the leases are here; how an append comes to the disk
is in ``postgres_appending``, what is looked up in ``postgres_reading``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, Self

import anyio

from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.kernel.decide import Switch, require_operator
from midflight.kernel.events import Killed
from midflight.kernel.record import Who
from midflight.stores.base import Killing, Purged
from midflight.stores.postgres_appending import PostgresAppending
from midflight.stores.postgres_lease import TTL_S, RowLease, hold
from midflight.stores.postgres_links import Doubt, mind
from midflight.stores.postgres_requests import kill_locked
from midflight.stores.postgres_server import LONG_S, SQL, Connection, Server
from midflight.stores.postgres_states import Turn
from midflight.tasks import owned_tasks

KILL_TURN_S: Final = 2.0
KILL_S: Final = 30.0  # for tens of thousands of live runs in one transaction
PURGE_S: Final = 600.0
CLOSE_S: Final = 5.0


class PostgresStore(PostgresAppending):
    """See ``Store``; made by ``PostgresStore.open``."""

    def __init__(
        self, server: Server, *, clock: Clock, ids: Ids, connections: int, lease_s: float
    ) -> None:
        super().__init__(server, clock=clock, ids=ids, connections=connections)
        self._ids = ids
        self._lease_s = lease_s
        self._links = (*self._pool.links, *self._writer.links)

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
            await self._writer.close()
            await self._news.close()

    def _tasks(self) -> Iterator[Callable[[], Coroutine[Any, Any, None]]]:
        yield partial(mind, self._links)
        yield self._news.run
        yield from self._writer.tasks
        for link in self._pool.links:
            yield partial(self._pool.serve, link)

    # ── the operator ─────────────────────────────────────────────────────────────────────────

    async def kill(self, scope: str, who: Who, reason: str = "") -> Killing:
        """See ``Store.kill``."""
        require_operator(who, "kill")
        found = await self._pool.do(
            lambda c: c.fetch(SQL["live"], scope), first=True, answer_s=LONG_S
        )
        heads = {row["journal"]: row["head"] for row in found}
        turn = await self._kill_turn(heads)
        await self._fold_ahead(turn, {journal: heads[journal] for journal in turn.journals})
        work = partial(
            kill_locked,
            kill_id=self._ids(),
            killed=Killed(who=who, scope=scope),
            reason=reason,
            states=self._states,
            turn=turn,
            landed=self._landed,
        )
        leave = partial(self._states.leave, turn)
        return await self._pool.do(work, after=leave, writes=True, first=True, answer_s=KILL_S)

    async def _kill_turn(self, journals: Iterable[str]) -> Turn:
        """Our turn, or none at all: a kill does not wait for appends that are stuck."""
        with anyio.move_on_after(KILL_TURN_S):
            return await self._states.take(journals)
        return await self._states.take(())

    async def release(self, scope: str, who: Who) -> bool:
        """See ``Store.release``."""
        require_operator(who, "release")
        doubt = Doubt()

        async def let_go(connection: Connection) -> bool:
            # off after a try that nobody answered: that try has done it
            return bool(await connection.fetchval(SQL["release"], scope)) or doubt.open

        return await self._pool.do(let_go, writes=True, doubt=doubt)

    async def switches(self) -> list[Switch]:
        """See ``Store.switches``."""
        return [Switch(*row) for row in await self._fetch("switches")]

    async def ready(self) -> None:
        """See ``Store.ready``. A replica answers, and takes nothing."""
        ((only_reads,),) = await self._fetch("only_reads")
        if only_reads:
            raise self._server.read_only()

    async def purge(self, ended_before: float, limit: int = 1000) -> Purged:
        """See ``Store.purge``."""
        found = await self._pool.do(
            lambda c: c.fetchrow(SQL["purge"], ended_before, limit),
            writes=True,
            answer_s=PURGE_S,
        )
        assert found is not None
        self._states.forget([*found["runs"], *found["threads"]])
        return Purged(len(found["runs"]), len(found["threads"]), found["values_removed"])

    # ── leases ───────────────────────────────────────────────────────────────────────────────

    def lease(self, driver: str) -> AbstractAsyncContextManager[RowLease]:
        """See ``Store.lease``."""
        return hold(self._pool, driver, holder=self._ids(), ttl=self._lease_s)

    async def lease_gone(self, driver: str) -> bool:
        """See ``Store.lease_gone``."""
        ((lives,),) = await self._fetch("lease_lives", driver)
        return not lives
