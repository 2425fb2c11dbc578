"""Group commit: appends of several tasks at the same time go to the server in one call.

An append that comes alone is written by its own task, on a connection kept for that. Appends that
come while another is under way are queued, and a second connection carries all of them at once. In
a batch each job succeeds or fails alone. A task that hands a job over also hands over the turn of
its journals, so a caller that is cancelled leaves nothing half done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct

from midflight.errors import StoreError, StoreUnavailable
from midflight.journal.record import Recorded
from midflight.journal.transition_table import State
from midflight.stores.commit import Planned, summary
from midflight.stores.postgres.kept_states import States, Turn
from midflight.stores.postgres.links import Doubt, Link, persist
from midflight.stores.postgres.postgres_server import (
    ANSWER_S,
    COLLIDED,
    GONE,
    LONG_S,
    PATIENCE_S,
    SQL,
    Connection,
    Server,
    ServerClock,
    ServerError,
    Taken,
)
from midflight.stores.protocol import Row

BATCH_JOBS: Final = 256  # a batch holds its locks until all of it is written: about 10 ms
BATCH_BYTES: Final = 4 * 1024 * 1024
BYTES_A_S: Final = 1024 * 1024  # the least that a slow line carries
GATHER_TURNS: Final = 6  # of the event loop: from the answer to a step to the record of the next
NUL: Final = "\ufdd0"  # for \0, which Postgres refuses; Unicode keeps it for such inner uses

MOVING: Final = (
    "head", "title", "phase", "driver", "epoch", "wants_driver", "open_questions", "due_at",
    "updated_at", "steps", "tokens", "usd",
)  # fmt: skip
"""The columns of a row that an append may change, in the order of its statements."""

_MOVING: Final = attrgetter(*MOVING)
_NO_EVENT: Final = (None,) * 8
_encoder: Final = msgspec.json.Encoder()


# ── an append as the server takes it ─────────────────────────────────────────────────────────────


class Job(Struct, eq=False):
    """One append, ready to be written: rows, and the heads they were decided on."""

    planned: Planned
    rows: list[Row]  # of the read model
    expected: Mapping[str, int]
    sent_at: float
    turn: Turn
    records: tuple[Recorded, ...]
    settled: bool = False
    written: bool = False
    in_doubt: bool = False
    error: StoreError | None = None
    waiter: asyncio.Future[None] | None = None
    given_up_at: float = float("inf")

    @property
    def append_id(self) -> str:
        """The id of the append."""
        return self.planned.append_id

    @property
    def is_step(self) -> bool:
        """True for a decision in one journal that exists, which is what drivers write most."""
        planned = self.planned
        is_one = len(self.rows) == len(self.expected) == 1
        return is_one and not (planned.blobs or planned.requested) and planned.events[0][1] > 1

    @property
    def is_few(self) -> bool:
        """True for one or two events in one journal that exists, a request too."""
        planned = self.planned
        is_one = len(self.expected) == 1 and 0 < len(planned.events) <= 2
        return is_one and not planned.blobs and planned.events[0][1] > 1


def job_of(
    planned: Planned,
    states: Mapping[str, State],
    expected: Mapping[str, int],
    *,
    now: float,
    turn: Turn,
) -> Job:
    """Make a job of what was planned on these states."""
    rows = [_row(states[journal]) for journal in planned.journals]
    return Job(planned, rows, expected, now, turn, tuple(planned.records))


def _row(state: State) -> Row:
    row = summary(state)
    if "\0" in row.title:
        row = msgspec.structs.replace(row, title=row.title.replace("\0", NUL))
    return row


def row_of(stored: Iterable[Any]) -> Row:
    """The read model as it was before it was stored."""
    row = Row(*stored)
    if NUL in row.title:
        row = msgspec.structs.replace(row, title=row.title.replace(NUL, "\0"))
    return row


async def append_few(connection: Connection, job: Job) -> tuple[float, bool]:
    """Write a job of few events: the server's time, and whether it was written."""
    ((journal, expected),) = job.expected.items()
    first, *more = job.planned.events
    second = more[0][1:] if more else _NO_EVENT
    row = _MOVING(job.rows[0])
    at = await connection.fetchval(
        SQL["append_few"], journal, expected, *row, job.sent_at, *first[1:], *second
    )
    return (0.0, False) if at is None else (at, True)


async def append_steps(connection: Connection, jobs: Collection[Job]) -> tuple[float, set[int]]:
    """Write the steps of several runs: the server's time, and the numbers of those that failed."""
    wanted = [journal for job in jobs for journal in job.expected]
    answer = await connection.fetchrow(
        SQL["append_steps"],
        wanted,
        min(job.sent_at for job in jobs),
        [expected for job in jobs for expected in job.expected.values()],
        *_columns([_MOVING(job.rows[0]) for job in jobs], len(MOVING)),
        *_columns([event for job in jobs for event in job.planned.events], 9),
    )
    assert answer is not None
    written = set(answer["written"])
    return answer["at"], {n for n, journal in enumerate(wanted, 1) if journal not in written}


async def append_batch(connection: Connection, jobs: Collection[Job]) -> tuple[float, set[int]]:
    """Write some jobs: the server's time, and the numbers (from 1) of those that failed."""
    ids = [job.append_id if job.planned.requested else None for job in jobs]
    return await _append_batch(connection, jobs, ids, min(job.sent_at for job in jobs))


async def append_locked(
    connection: Connection, job: Job, audited: tuple[str, str] | None = None
) -> bool:
    """Write a job in a transaction that has its heads locked and knows that its id is new.

    ``audited`` is the record of the audit that goes with it, and its id.
    """
    _, failed = await _append_batch(connection, [job], [None], None, audited)
    return not failed


async def _append_batch(
    connection: Connection,
    jobs: Collection[Job],
    request_ids: list[str | None],
    sent_at: float | None,
    audited: tuple[str, str] | None = None,
) -> tuple[float, set[int]]:
    wanted = [
        (number, journal, expected)
        for number, job in enumerate(jobs, 1)
        for journal, expected in job.expected.items()
    ]
    answer = await connection.fetchrow(
        SQL["append_audited" if audited else "append_batch"],
        sent_at,
        request_ids,
        *_columns(wanted, 3),
        _encoder.encode([row for job in jobs for row in job.rows]).decode(),
        *_columns([event for job in jobs for event in job.planned.events], 9),
        *_columns([blob for job in jobs for blob in job.planned.blobs], 3),
        *(audited or ()),
    )
    assert answer is not None
    return answer["at"], set(answer["failed"])


def _columns(rows: list[tuple[Any, ...]], width: int) -> Iterable[Sequence[Any]]:
    return zip(*rows, strict=True) if rows else ((),) * width


# ── writing ──────────────────────────────────────────────────────────────────────────────────────

_WHOLE: Final = (*GONE, *COLLIDED)
"""Errors after which a batch is sent again as it is; for any other one of its jobs is to blame."""


def _answer_s(batch: Collection[Job]) -> float:
    """Return the seconds a batch may take: it waits for its locks one by one, and sends bytes."""
    size = sum(job.planned.size for job in batch)
    return (ANSWER_S if len(batch) == 1 else LONG_S) + size / BYTES_A_S


class _Apart(Exception):
    """The server did not take the batch: find out which job it was."""


class Writer:
    """The jobs that wait, and the tasks that write them."""

    def __init__(
        self,
        server: Server,
        states: States,
        clock: ServerClock,
        *,
        landed: Callable[[Job], None],
        unsure: Callable[[Job], None],
    ) -> None:
        self._server = server
        self._states = states
        self._clock = clock
        self._landed = landed
        self._unsure = unsure
        self._queue: deque[Job] = deque()
        self._idle: asyncio.Future[None] | None = None
        self._direct = Link(server)
        self._batched = Link(server)
        self._busy = 0
        self._gathering = False
        self._closed = False
        self._quiet = anyio.Event()
        self.links = (self._direct, self._batched)
        self.tasks = (self._work, self._direct.keep)

    async def write(self, job: Job) -> bool:
        """Write a job and take its turn over; return whether it was written.

        If it was not, the caller has to find out why.
        """
        if self._closed:
            self._settle(job, error=self._server.closed())
        elif self._busy or self._queue or self._gathering:
            await self._queued(job)
        elif self._direct.up:
            await self._write(self._direct, [job])  # nobody to share a commit with
        else:
            self._direct.miss()
            await self._queued(job)
        if job.error is not None:
            raise job.error
        return job.written

    async def _queued(self, job: Job) -> None:
        loop = asyncio.get_running_loop()
        job.given_up_at = loop.time() + PATIENCE_S
        job.waiter = loop.create_future()
        self._queue.append(job)
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        await job.waiter

    async def close(self) -> None:
        """Refuse what has not been sent, and wait for what has."""
        self._closed = True
        while self._queue:
            self._settle(self._queue.popleft(), error=self._server.closed())
        if self._busy:
            await self._quiet.wait()

    async def _work(self) -> None:
        """Write what was queued, for as long as the store is open."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._queue:
                self._idle = loop.create_future()
                await self._idle
            batch = self._next_batch(loop.time())
            await self._write(self._batched, batch)
            if len(batch) > 1:
                await self._gather(len(self._queue) + len(batch))

    async def _gather(self, jobs: int) -> None:
        """Let those who were answered come again, and send them with those who wait already.

        A batch costs the server as much as a dozen jobs in it, so twice as many a batch save more
        than is lost while nothing is under way. A task that does not come within these turns of the
        loop is busy with something that takes longer than they do.
        """
        self._gathering = True
        for _ in range(GATHER_TURNS):
            if len(self._queue) >= jobs:
                break
            await anyio.lowlevel.checkpoint()
        self._gathering = False

    def _next_batch(self, now: float) -> list[Job]:
        batch: list[Job] = []
        size = 0
        while self._queue and len(batch) < BATCH_JOBS and size < BATCH_BYTES:
            job = self._queue.popleft()
            if job.given_up_at < now:
                late = f"{self._server.where} did not answer for {PATIENCE_S:g} s: try again"
                self._settle(job, error=StoreUnavailable(f"{late}. Nothing was changed."))
                continue
            batch.append(job)
            size += job.planned.size
        return batch

    async def _write(self, link: Link, batch: list[Job]) -> None:
        if not batch:
            return
        self._busy += 1
        doubt = Doubt(open=any(job.in_doubt for job in batch))
        try:
            failed = await persist(
                self._server,
                link,
                lambda c: self._send(c, batch),
                writes=True,
                answer_s=_answer_s(batch),
                doubt=doubt,
            )
        except _Apart:
            for job in batch:
                job.in_doubt = doubt.open
                await self._write(link, [job])
        except StoreError as error:
            self._give_up(batch, error)
        else:
            for number, job in enumerate(batch, 1):
                job.in_doubt = doubt.open
                self._settle(job, written=number not in failed)
        finally:
            self._busy -= 1
            self._give_up([job for job in batch if not job.settled], self._server.cut_short())
            if not self._busy:
                self._quiet.set()

    async def _send(self, connection: Connection, batch: list[Job]) -> set[int]:
        """Write a batch; the numbers of those that failed."""
        try:
            if len(batch) == 1 and batch[0].is_few:
                at, written = await append_few(connection, batch[0])
                failed = set[int]() if written else {1}
            elif all(job.is_step for job in batch):
                at, failed = await append_steps(connection, batch)
            else:
                at, failed = await append_batch(connection, batch)
        except Taken:  # a known id, or another began the same journal
            if len(batch) > 1:
                raise _Apart from None
            return {1}
        except ServerError as error:
            if len(batch) > 1 and not isinstance(error, _WHOLE):  # layer server-refuses-fails
                raise _Apart from error
            raise
        if at:
            self._clock.heard(at)
        return failed

    def _give_up(self, batch: Iterable[Job], error: StoreError) -> None:
        for job in batch:
            self._unsure(job)
            own = type(error)(*error.args)  # one each: a raised error remembers where it went
            own = own.leaving_it_open() if error.unsure else own  # layer append-not-answered
            own.__cause__ = error.__cause__
            self._settle(job, error=own)

    def _settle(self, job: Job, *, written: bool = False, error: StoreError | None = None) -> None:
        """Tell the watchers here, then let the next ones in, then answer."""
        job.settled, job.written, job.error = True, written, error
        if written:
            self._landed(job)
        else:
            self._states.forget(job.turn.journals)  # layer state-append-failed-folded-again
        self._states.leave(job.turn)
        if job.waiter is not None and not job.waiter.done():
            job.waiter.set_result(None)
