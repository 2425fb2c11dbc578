"""Journals in Postgres: for several processes or machines that drive and control the same runs.

A decision is folded and checked here, against a state that is kept, and written with one round trip
that compares heads under lock. A request is decided on such a state first; where that was stale, or
where kill switches and leases matter, it is decided inside a transaction (``postgres_requests``).
Appends of one process that meet share a commit (``postgres_writer``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, Self

import anyio

from midflight.errors import (
    CorruptEntry,
    JournalConflict,
    MidflightError,
    StoreBusy,
)
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.kernel.decide import Switch, require_operator
from midflight.kernel.events import Killed
from midflight.kernel.machine import State
from midflight.kernel.record import Recorded, Request, Who
from midflight.stores.base import (
    Append,
    Committed,
    Killing,
    Purged,
    Submit,
    View,
    Widen,
    empty_state,
)
from midflight.stores.plan import draft, plan
from midflight.stores.postgres_clock import ServerClock
from midflight.stores.postgres_lease import TTL_S, RowLease, hold
from midflight.stores.postgres_links import Doubt, Pool, mind
from midflight.stores.postgres_news import News
from midflight.stores.postgres_reading import PostgresReading
from midflight.stores.postgres_requests import (
    Moved,
    catch_up,
    find_append,
    kill_locked,
    submit_locked,
)
from midflight.stores.postgres_rows import Job
from midflight.stores.postgres_server import LONG_S, SQL, Connection, Server
from midflight.stores.postgres_states import States, Turn
from midflight.stores.postgres_writer import Writer
from midflight.tasks import owned_tasks

TRIES_MAX: Final = 5  # each failed for a reason that was gone when we looked: more is a bug
RECENT_MAX: Final = 4096  # requests whose repeat is recognised before it is decided again
KILL_TURN_S: Final = 2.0
KILL_S: Final = 30.0  # for tens of thousands of live runs in one transaction
PURGE_S: Final = 600.0
CLOSE_S: Final = 5.0


class _Stale(Exception):
    """What was decided here was decided on a state that is not the last one."""


class PostgresStore(PostgresReading):
    """See ``Store``; made by ``PostgresStore.open``."""

    def __init__(
        self, server: Server, *, clock: Clock, ids: Ids, connections: int, lease_s: float
    ) -> None:
        super().__init__(Pool(server, connections))
        self._server = server
        self._ids = ids
        self._lease_s = lease_s
        self._clock = ServerClock(clock)
        self._states = States()
        self._news = News(server, self._hub, ids)
        self._writer = Writer(
            server, self._states, self._clock, landed=self._written, unsure=self._unsure
        )
        self._links = (*self._pool.links, *self._writer.links)
        self._recent: OrderedDict[str, None] = OrderedDict()

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

    # ── decisions ────────────────────────────────────────────────────────────────────────────

    async def append(self, decision: Append) -> Committed:
        """See ``Store.append``."""
        expected = {entry.journal: entry.expected for entry in decision.entries}
        in_doubt = False
        for _ in range(TRIES_MAX):
            job = await self._planned(decision, expected)
            if job is not None:
                job.in_doubt = in_doubt
                if await self._writer.write(job):
                    return Committed(job.records)
                in_doubt = job.in_doubt
            if known := await self._examine(decision.id, expected):
                return known
        raise self._strange()

    async def _planned(self, decision: Append, expected: Mapping[str, int]) -> Job | None:
        """Take the turn, check and fold. None if a journal is not where it was expected."""
        turn = await self._states.take(expected)
        touched: set[str] = set()
        try:
            states = await self._caught_up(expected)
            if any(states[journal].head != at for journal, at in expected.items()):
                self._states.leave(turn)
                return None
            now = self._clock.now()
            planned = plan(decision, states, now, touched)
            return Job(planned, states, expected, now=now, turn=turn, requested=False)
        except BaseException:
            self._states.forget(touched)
            self._states.leave(turn)
            raise

    async def _caught_up(self, wanted: Mapping[str, int]) -> dict[str, State]:
        """The states of journals that are our turn, folded at least so far if there is so much."""
        states: dict[str, State] = {}
        behind: list[State] = []
        for journal, at_least in wanted.items():
            state = self._states.get(journal)
            if state is None or state.head < at_least:
                state = state or empty_state(journal)
                behind.append(state)
            states[journal] = state
        if behind:
            await catch_up(self._select, behind)
            for state in behind:
                if state.head:
                    self._states.put(state)
        return states

    async def _examine(self, append_id: str, expected: Mapping[str, int]) -> Committed | None:
        """Find out why something was not written: it is known, or a journal has moved on.

        None if neither: then its stamp was far from the server's clock, which we now know better.
        It only reads; but who cannot find out must not hear that nothing was changed.
        """
        found, records = await self._pool.do(
            lambda c: _look(c, append_id, expected), doubt=Doubt(open=True)
        )
        if found["known"]:
            self._landed(append_id, records)  # whoever wrote it may have died before telling
            return Committed(records, repeated=True)
        for (journal, at), head in zip(expected.items(), found["heads"], strict=True):
            if head != at:
                raise JournalConflict(journal, at, head)
        self._clock.mistrust()
        self._clock.heard(found["at"])
        return None

    def _written(self, job: Job) -> None:
        self._landed(job.append_id, job.records)

    def _landed(self, append_id: str, records: Sequence[Recorded]) -> None:
        """It is on the disk: tell the watchers here, then have the others told."""
        if not records:
            return
        self._hub.publish(records)
        asked = any(isinstance(record.event, Request) for record in records)
        self._news.moved([(r.journal, r.position) for r in records], at_once=asked)
        if asked:
            self._recent[append_id] = None
            if len(self._recent) > RECENT_MAX:
                self._recent.popitem(last=False)

    def _unsure(self, job: Job) -> None:
        """Nobody knows whether it is on the disk: let the watchers here look."""
        self._hub.moved(dict.fromkeys(job.turn.journals))

    def _strange(self) -> StoreBusy:
        return StoreBusy(
            f"{self._server.where} refused the same append {TRIES_MAX} times for reasons that were "
            "gone each time: check the clocks. Nothing was changed."
        )

    # ── requests ─────────────────────────────────────────────────────────────────────────────

    async def submit(self, request: Submit) -> Committed:
        """See ``Store.submit``."""
        if not request.scopes and not request.leases:
            try:
                return await self._submit_here(request)
            except _Stale:
                pass  # nothing was written: decide again on what is under lock
        return await self._submit_locked(request)

    async def _submit_here(self, request: Submit) -> Committed:
        """Decide on the states kept here, and write if the server says that they are current."""
        journals = set(request.journals)
        while True:
            turn = await self._states.take(journals)
            try:
                decided = await self._decided(request, turn)
            except Widen as more:
                self._states.leave(turn)
                journals |= set(more.journals)
                continue
            except BaseException:
                self._states.leave(turn)
                raise
            if isinstance(decided, Committed):
                self._states.leave(turn)
                return decided
            job, note = decided
            if await self._writer.write(job):
                return Committed(job.records, note)
            if known := await self._confirm(request.id, job.expected):
                return known
            raise _Stale

    async def _decided(self, request: Submit, turn: Turn) -> tuple[Job, object] | Committed:
        """A job, or an answer that needs none.

        A refusal and an empty draft are as good as the state they are based on, so they count only
        if that was current.
        """
        states = await self._caught_up(dict.fromkeys(turn.journals, 0))
        expected = {journal: state.head for journal, state in states.items()}
        if request.id in self._recent and (known := await self._confirm(request.id, expected)):
            return known
        touched: set[str] = set()
        try:
            now = self._clock.now()
            decision, note = draft(request, View(states, (), frozenset(), now))
            if decision.entries:
                planned = plan(decision, states, now, touched)
                return Job(planned, states, expected, now=now, turn=turn, requested=True), note
        except BaseException as error:
            self._states.forget(touched)
            refused = isinstance(error, MidflightError)
            if refused and (known := await self._confirm(request.id, expected)):
                return known
            raise
        return await self._confirm(request.id, expected) or Committed((), note)

    async def _confirm(self, request_id: str, expected: Mapping[str, int]) -> Committed | None:
        try:
            return await self._examine(request_id, expected)
        except JournalConflict:
            raise _Stale from None

    async def _submit_locked(self, request: Submit) -> Committed:
        journals, tries = set(request.journals), 0
        while tries < TRIES_MAX:
            turn = await self._states.take(journals)
            await self._fold_ahead(turn, dict.fromkeys(journals, 0))
            work = partial(
                submit_locked,
                request=request,
                states=self._states,
                turn=turn,
                landed=self._landed,
            )
            try:
                return await self._pool.do(
                    work, after=partial(self._states.leave, turn), writes=True, answer_s=LONG_S
                )
            except Widen as more:
                journals |= set(more.journals)
            except Moved:
                tries += 1
        raise self._strange()

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

    async def _fold_ahead(self, turn: Turn, heads: Mapping[str, int]) -> None:
        """Fold what we can before anything is locked."""
        try:
            with suppress(CorruptEntry):  # under lock it is met again, and got round
                await self._caught_up(heads)
        except BaseException:
            self._states.leave(turn)
            raise

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


async def _look(
    connection: Connection, append_id: str, expected: Mapping[str, int]
) -> tuple[Any, tuple[Recorded, ...]]:
    places = list(expected), list(expected.values())
    found = await connection.fetchrow(SQL["examine"], append_id, *places)
    assert found is not None
    return found, await find_append(connection, append_id, expected) if found["known"] else ()
