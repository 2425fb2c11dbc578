"""An append as the server takes it: its rows, and the statements that write them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from midflight.errors import StoreError
from midflight.journal.record import Recorded
from midflight.journal.transition_table import State
from midflight.stores.commit import Planned, summary
from midflight.stores.postgres.kept_states import Turn
from midflight.stores.postgres.postgres_server import SQL, Connection
from midflight.stores.protocol import Row

NUL: Final = "\ufdd0"  # for \0, which Postgres refuses; Unicode keeps it for such inner uses

_encoder: Final = msgspec.json.Encoder()


class Job:
    """One append, ready to be written: rows, and the heads they were decided on."""

    __slots__ = (
        "append_id",
        "blobs",
        "error",
        "events",
        "expected",
        "given_up_at",
        "in_doubt",
        "records",
        "requested",
        "rows",
        "sent_at",
        "settled",
        "size",
        "turn",
        "waiter",
        "written",
    )

    def __init__(
        self,
        planned: Planned,
        states: Mapping[str, State],
        expected: Mapping[str, int],
        *,
        now: float,
        turn: Turn,
    ) -> None:
        self.append_id = planned.append_id
        self.records: tuple[Recorded, ...] = tuple(planned.records)
        self.expected = expected
        self.sent_at = now
        self.turn = turn
        self.requested = planned.requested
        self.settled = self.written = self.in_doubt = False
        self.error: StoreError | None = None
        self.waiter: asyncio.Future[None] | None = None
        self.given_up_at = float("inf")
        self.events, self.blobs, self.size = planned.events, planned.blobs, planned.size
        self.rows = [_row(states[journal]) for journal in planned.journals]

    @property
    def plain(self) -> bool:
        """True for one event in one journal that exists, which is what drivers write most."""
        return (
            len(self.events) == 1
            and len(self.expected) == 1
            and not self.blobs
            and self.events[0][1] > 1
        )


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


async def append_one(connection: Connection, job: Job) -> tuple[float, bool]:
    """Write a plain job: the server's time, and whether it was written."""
    ((journal, expected),) = job.expected.items()
    row = job.rows[0]
    at = await connection.fetchval(
        SQL["append_one"],
        journal,
        expected,
        row.head,
        row.title,
        row.phase,
        row.driver,
        row.epoch,
        row.wants_driver,
        row.open_questions,
        row.due_at,
        row.updated_at,
        row.steps,
        row.tokens,
        row.usd,
        job.sent_at,
        *job.events[0][2:],
    )
    return (0.0, False) if at is None else (at, True)


async def append_batch(connection: Connection, jobs: Collection[Job]) -> tuple[float, set[int]]:
    """Write some jobs: the server's time, and the numbers (from 1) of those that failed."""
    ids = [job.append_id if job.requested else None for job in jobs]
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
        *_columns([event for job in jobs for event in job.events], 9),
        *_columns([blob for job in jobs for blob in job.blobs], 3),
        *(audited or ()),
    )
    assert answer is not None
    return answer["at"], set(answer["failed"])


def _columns(rows: list[tuple[Any, ...]], width: int) -> Iterable[Sequence[Any]]:
    return zip(*rows, strict=True) if rows else ((),) * width
