"""Group commit: what tasks here want appended at the same time goes to the server in one call.

Two tasks do the writing, so that one batch is prepared while the other is under way. Whoever hands
a job over also hands over the turn of its journals: if they are cancelled, the job is finished
without them. In a batch each job succeeds or fails alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import anyio
import asyncpg
import msgspec

from midflight.errors import StoreError, StoreUnavailable
from midflight.kernel.machine import State
from midflight.kernel.record import Recorded
from midflight.stores.base import Row
from midflight.stores.plan import Planned, summary
from midflight.stores.postgres_clock import ServerClock
from midflight.stores.postgres_server import (
    GONE,
    PATIENCE_S,
    SQL,
    Connection,
    Link,
    Server,
    persist,
)
from midflight.stores.postgres_states import States, Turn

BATCH_JOBS: Final = 256  # a batch holds its locks until all of it is written: about 10 ms
BATCH_BYTES: Final = 4 * 1024 * 1024
WRITERS: Final = 2
NUL: Final = (
    "\ufdd0"  # stands for \0, the one character Postgres refuses; Unicode reserves it for this
)

_WHOLE: Final = (*GONE, asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
"""Errors after which a batch is sent again as it is; for any other one of its jobs is to blame."""


class Job:
    """One append, ready to be written: rows, and the heads they were decided on."""

    __slots__ = (
        "answer",
        "append_id",
        "blobs",
        "events",
        "expected",
        "given_up_at",
        "records",
        "requested",
        "rows",
        "sent_at",
        "settled",
        "size",
        "turn",
    )

    def __init__(
        self,
        planned: Planned,
        states: Mapping[str, State],
        expected: Mapping[str, int],
        *,
        now: float,
        turn: Turn,
        requested: bool = False,
    ) -> None:
        self.append_id = planned.append_id
        self.records: tuple[Recorded, ...] = tuple(planned.records)
        self.expected = expected
        self.sent_at = now
        self.turn = turn
        self.requested = requested
        self.settled = False
        self.given_up_at = anyio.current_time() + PATIENCE_S
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.events: list[tuple[Any, ...]] = []
        self.blobs: list[tuple[str, str, bytes]] = []
        self.size = 0
        moved: set[str] = set()
        for record, encoded in zip(planned.records, planned.encoded, strict=True):
            journal, event = record.journal, encoded.event
            self.events.append(
                (
                    journal,
                    record.position,
                    record.at,
                    event.VERSION,
                    event.MUST_UNDERSTAND,
                    encoded.checksum,
                    None if journal in moved else planned.append_id,
                    encoded.body.decode(),
                )
            )
            moved.add(journal)
            self.size += len(encoded.body)
            if encoded.blob is not None:
                self.blobs.append((journal, *encoded.blob))
                self.size += len(encoded.blob[1])
        self.rows = [_row(states[journal]) for journal in moved]

    @property
    def plain(self) -> bool:
        """Whether it is one event in one journal that exists: what a driver writes most."""
        return (
            len(self.events) == 1
            and len(self.expected) == 1
            and not self.blobs
            and self.events[0][1] > 1
        )


def _row(state: State) -> tuple[Any, ...]:
    row = summary(state)
    if "\0" in row.title:
        row = msgspec.structs.replace(row, title=row.title.replace("\0", NUL))
    return msgspec.structs.astuple(row)


def row_of(stored: Iterable[Any]) -> Row:
    """The read model as it was before it was stored."""
    row = Row(*stored)
    if NUL in row.title:
        row = msgspec.structs.replace(row, title=row.title.replace(NUL, "\0"))
    return row


async def append_one(connection: Connection, job: Job) -> tuple[float, bool]:
    """Write a plain job: the server's time, and whether it was written."""
    ((journal, expected),) = job.expected.items()
    _, _, head, _, _, _, title, phase, driver, epoch, wants, asks, due, _, updated, *spent = (
        job.rows[0]
    )
    _, _, *event = job.events[0]
    at = await connection.fetchval(
        SQL["append_one"],
        *(journal, expected, head, title, phase, driver, epoch, wants, asks, due, updated, *spent),
        *(job.sent_at, *event),
    )
    return (0.0, False) if at is None else (at, True)


async def append_batch(connection: Connection, jobs: Collection[Job]) -> tuple[float, set[int]]:
    """Write some jobs: the server's time, and the numbers (from 1) of those that failed."""
    wanted = sorted(
        (journal, expected, number)
        for number, job in enumerate(jobs, 1)
        for journal, expected in job.expected.items()
    )
    blobs = [blob for job in jobs for blob in job.blobs]
    answer = await connection.fetchrow(
        SQL["append_batch"],
        min(job.sent_at for job in jobs),
        [job.append_id for job in jobs],
        [number for _, _, number in wanted],
        [journal for journal, _, _ in wanted],
        [expected for _, expected, _ in wanted],
        [event for job in jobs for event in job.events],
        [row for job in jobs for row in job.rows],
        [journal for journal, _, _ in blobs],
        [digest for _, digest, _ in blobs],
        [body for _, _, body in blobs],
    )
    assert answer is not None
    return answer["at"], set(answer["failed"])


class _Apart(Exception):
    """The server did not take the batch: find out which job it was."""


class Writer:
    """The jobs that wait, and the tasks that write them."""

    def __init__(
        self, server: Server, states: States, clock: ServerClock, landed: Callable[[Job], None]
    ) -> None:
        self._server = server
        self._states = states
        self._clock = clock
        self._landed = landed
        self._queue: deque[Job] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._busy = 0
        self._closed = False
        self._quiet = anyio.Event()

    async def write(self, job: Job) -> bool:
        """Whether it was written; if not, the caller has to look why. Takes the turn over."""
        if self._closed:
            self._fail(job, self._closing())
            return await job.answer
        self._queue.append(job)
        while self._idle:
            idle = self._idle.pop()
            if not idle.done():
                idle.set_result(None)
                break
        return await job.answer

    async def work(self) -> None:
        """Write what comes, for as long as the store is open."""
        link = Link(self._server)
        try:
            while True:
                if not self._queue:
                    idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._idle.append(idle)
                    await idle
                await self._write(link, self._next_batch())
        finally:
            link.drop()

    async def close(self) -> None:
        """Refuse what has not been sent, and wait for what has."""
        self._closed = True
        while self._queue:
            self._fail(self._queue.popleft(), self._closing())
        if self._busy:
            await self._quiet.wait()

    def _next_batch(self) -> list[Job]:
        batch: list[Job] = []
        now, size = anyio.current_time(), 0
        while self._queue and len(batch) < BATCH_JOBS and size < BATCH_BYTES:
            job = self._queue.popleft()
            if job.given_up_at < now:
                late = f"{self._server.where} did not answer for {PATIENCE_S:g} s"
                self._fail(job, StoreUnavailable(f"{late}. Nothing was changed."))
                continue
            batch.append(job)
            size += job.size
        return batch

    async def _write(self, link: Link, batch: list[Job]) -> None:
        if not batch:
            return
        self._busy += 1
        try:
            failed = await persist(self._server, link, lambda c: self._send(c, batch))
        except _Apart:
            for job in batch:
                await self._write(link, [job])
        except StoreError as error:
            for job in batch:
                self._fail(job, error)
        else:
            for number, job in enumerate(batch, 1):
                self._land(job, written=number not in failed)
        finally:
            self._busy -= 1
            for job in batch:  # only where we were cancelled: all others have their answer
                self._fail(job, self._cut_short())
            if not self._busy:
                self._quiet.set()

    async def _send(self, connection: Connection, batch: list[Job]) -> set[int]:
        """Write a batch; the numbers of those that failed."""
        try:
            if len(batch) == 1 and batch[0].plain:
                at, written = await append_one(connection, batch[0])
                failed = set[int]() if written else {1}
            else:
                at, failed = await append_batch(connection, batch)
        except asyncpg.UniqueViolationError:  # a known id, or another began the same journal
            if len(batch) > 1:
                raise _Apart from None
            return {1}
        except asyncpg.PostgresError as error:
            if len(batch) > 1 and not isinstance(error, _WHOLE):
                raise _Apart from error
            raise
        if at:
            self._clock.heard(at)
        return failed

    def _land(self, job: Job, *, written: bool) -> None:
        if written:
            self._landed(job)  # watchers here are told before the caller is
        self._settle(job, forget=not written)
        if not job.answer.done():
            job.answer.set_result(written)

    def _fail(self, job: Job, error: StoreError) -> None:
        if not job.settled:
            self._settle(job, forget=True)
            if not job.answer.done():
                job.answer.set_exception(error)

    def _settle(self, job: Job, *, forget: bool) -> None:
        job.settled = True
        if forget:
            self._states.forget(job.turn.journals)
        self._states.leave(job.turn)

    def _closing(self) -> StoreError:
        return StoreUnavailable(f"{self._server.where}: the store is closed. Nothing was changed.")

    def _cut_short(self) -> StoreError:
        return StoreUnavailable(
            f"{self._server.where}: the store was closed before it answered, so it is not known "
            "whether anything was changed; the same append id may be repeated safely."
        )
