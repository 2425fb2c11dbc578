"""Appending to Postgres: a decision or a request, from the state kept here to the disk.

A decision is folded and checked here, against a state that is kept, and written with one round trip
that compares heads under lock. A request is decided on such a state first; where that was stale, or
where kill switches and leases matter, it is decided inside a transaction (``locked_requests``).
Appends of one process that meet share a commit (``postgres_writer``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from midflight.errors import CorruptEntry, JournalConflict, MidflightError, StoreBusy
from midflight.inputs import Ids
from midflight.journal.record import Recorded, Request
from midflight.journal.transition_table import State
from midflight.stores.commit import draft, plan
from midflight.stores.hub import Hub
from midflight.stores.postgres.kept_states import States, Turn
from midflight.stores.postgres.links import Doubt, Pool
from midflight.stores.postgres.locked_requests import (
    Behind,
    Moved,
    catch_up,
    find_append,
    submit_locked,
)
from midflight.stores.postgres.postgres_news import News
from midflight.stores.postgres.postgres_server import LONG_S, SQL, Connection, Server, ServerClock
from midflight.stores.postgres.postgres_writer import Job, Writer, job_of
from midflight.stores.protocol import Append, Committed, Submit, View, Widen, empty_state

TRIES_MAX: Final = 5  # each failed for a reason that was gone when we looked: more is a bug
RECENT_MAX: Final = 4096  # requests whose repeat is recognised before it is decided again


class _Stale(Exception):
    """Raised when a decision was made here on a state that is not the last one."""


class Appender:
    """Writes the appends of drivers and people. Kills and purges use its ``states`` too."""

    def __init__(
        self,
        server: Server,
        pool: Pool,
        clock: ServerClock,
        hub: Hub,
        ids: Ids,
        *,
        audited: Callable[[], None],
    ) -> None:
        self._server = server
        self._pool = pool
        self._fetch = partial(pool.fetch, answer_s=LONG_S)
        self._audited = audited
        self._clock = clock
        self._hub = hub
        self._recent: OrderedDict[str, None] = OrderedDict()
        self.states = States()
        self.news = News(server, hub, ids)
        self.writer = Writer(server, self.states, clock, landed=self._written, unsure=self._unsure)

    # ── decisions ────────────────────────────────────────────────────────────────────────────

    async def append(self, decision: Append) -> Committed:
        """See ``Store.append``."""
        expected = {entry.journal: entry.expected for entry in decision.entries}
        in_doubt = False
        for _ in range(TRIES_MAX):
            job = await self._planned(decision, expected)
            if job is not None:
                job.in_doubt = in_doubt
                if await self.writer.write(job):
                    return Committed(job.records)
                in_doubt = job.in_doubt
            if known := await self._examine(decision.id, expected):
                return known
        raise self._strange()

    async def _planned(self, decision: Append, expected: Mapping[str, int]) -> Job | None:
        """Take the turn, check and fold. None if a journal is not where it was expected."""
        turn = await self.states.take(expected)
        touched: set[str] = set()
        try:
            states = await self._caught_up(expected)
            if any(states[journal].head != at for journal, at in expected.items()):
                self.states.leave(turn)
                return None
            now = self._clock.now()
            planned = plan(decision, states, now, touched)
            return job_of(planned, states, expected, now=now, turn=turn)
        except BaseException:
            self.states.forget(touched)
            self.states.leave(turn)
            raise

    async def _caught_up(self, wanted: Mapping[str, int]) -> dict[str, State]:
        """The states of journals that are our turn, folded at least so far if there is so much."""
        states: dict[str, State] = {}
        behind: list[State] = []
        for journal, at_least in wanted.items():
            state = self.states.get(journal)
            if state is None or state.head < at_least:
                state = state or empty_state(journal)
                behind.append(state)
            states[journal] = state
        if behind:
            await catch_up(self._fetch, behind)
            for state in behind:
                if state.head:
                    self.states.put(state)
        return states

    async def _examine(self, append_id: str, expected: Mapping[str, int]) -> Committed | None:
        """Find out why something was not written: it is known, or a journal has moved on.

        None if neither: then its stamp was far from the server's clock, which we now know better.
        It only reads; but a caller that cannot find out must not hear that nothing was changed.
        """
        found, records = await self._pool.do(
            lambda c: _look(c, append_id, expected), doubt=Doubt(open=True)
        )
        if found["known"]:
            self.landed(append_id, records)  # the task that wrote it may have died before telling
            return Committed(records, repeated=True)
        for (journal, at), head in zip(expected.items(), found["heads"], strict=True):
            if head != at:
                raise JournalConflict(journal, at, head)
        self._clock.mistrust()
        self._clock.heard(found["at"])
        return None

    def _written(self, job: Job) -> None:
        self.landed(job.append_id, job.records)

    def landed(self, append_id: str, records: Sequence[Recorded]) -> None:
        """Tell of records that are on the disk: the watchers here, then other processes."""
        if not records:
            return
        self._hub.publish(records)
        asked = any(isinstance(record.event, Request) for record in records)
        self.news.moved([(r.journal, r.position) for r in records], at_once=asked)
        if asked:
            self._recent[append_id] = None
            if len(self._recent) > RECENT_MAX:
                self._recent.popitem(last=False)

    def _unsure(self, job: Job) -> None:
        """Let the watchers here look for a job of which nobody knows whether it is on the disk."""
        self._hub.moved(dict.fromkeys(job.turn.journals))

    def _strange(self) -> StoreBusy:
        return StoreBusy(
            f"{self._server.where} refused the same append {TRIES_MAX} times, each time for a "
            "reason that no longer held when it was checked: compare the clocks of the "
            "machines. Nothing was changed."
        )

    # ── requests ─────────────────────────────────────────────────────────────────────────────

    async def submit(self, request: Submit) -> Committed:
        """See ``Store.submit``."""
        if not request.scopes and not request.leases and request.audit is None:
            try:
                return await self._submit_here(request)
            except _Stale:
                pass  # nothing was written: decide again on what is under lock
        return await self._submit_locked(request)

    async def _submit_here(self, request: Submit) -> Committed:
        """Decide on the states kept here, and write if the server says that they are current."""
        journals = set(request.journals)
        while True:
            turn = await self.states.take(journals)
            try:
                decided = await self._decided(request, turn)
            except Widen as more:
                self.states.leave(turn)
                journals |= set(more.journals)
                continue
            except BaseException:
                self.states.leave(turn)
                raise
            if isinstance(decided, Committed):
                self.states.leave(turn)
                return decided
            job, note = decided
            if await self.writer.write(job):
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
                planned = plan(decision, states, now, touched, requested=True)
                return job_of(planned, states, expected, now=now, turn=turn), note
        except BaseException as error:
            self.states.forget(touched)
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
        heads, tries = dict.fromkeys(request.journals, 0), 0
        while tries < TRIES_MAX:
            turn = await self.states.take(heads)
            await self.fold_ahead(turn, heads)
            work = partial(
                submit_locked,
                request=request,
                states=self.states,
                turn=turn,
                landed=self.landed,
                whatever_it_takes=tries == TRIES_MAX - 1,
            )
            try:
                done = await self._pool.do(
                    work, after=partial(self.states.leave, turn), writes=True, answer_s=LONG_S
                )
                if request.audit is not None:
                    self._audited()
                return done
            except Widen as more:
                heads |= {journal: 0 for journal in more.journals if journal not in heads}
            except Behind as behind:
                heads |= behind.heads
                tries += 1
            except Moved:
                tries += 1
        raise self._strange()

    async def fold_ahead(self, turn: Turn, heads: Mapping[str, int]) -> None:
        """Fold what we can before anything is locked."""
        try:
            with suppress(CorruptEntry):  # under lock it is met again, and got round
                await self._caught_up(heads)
        except BaseException:
            self.states.leave(turn)
            raise


async def _look(
    connection: Connection, append_id: str, expected: Mapping[str, int]
) -> tuple[Any, tuple[Recorded, ...]]:
    places = list(expected), list(expected.values())
    found = await connection.fetchrow(SQL["examine"], append_id, *places)
    assert found is not None
    return found, await find_append(connection, append_id, expected) if found["known"] else ()
