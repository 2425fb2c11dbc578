"""The writer thread of the SQLite store: one writer a process, group commit, one turn at a time.

Callers on the event loop put jobs into a queue. The thread waits for its turn at the turnstile and
only then takes what has gathered: the longer the wait, the larger the batch, and a caller that
gives up before its job is taken can truly say that nothing was appended. A job that is refused
fails alone. If the batch itself fails, each of its jobs is tried again by itself, so that one
caller's trouble is not everybody's.

A job that comes alone, while the disk is quick and nobody else writes, is written on the loop: see
``_write_here``.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar, TypeVarTuple

from msgspec import Struct

from midflight.errors import StoreBusy, StoreError, StoreUnavailable
from midflight.stores.protocol import closed
from midflight.stores.sqlite.locks import Turnstile
from midflight.stores.sqlite.sqlite_file import UNKNOWN, explain
from midflight.stores.sqlite.transaction import Transaction

SLOW_S: Final = 0.005  # a commit on the loop that takes longer was one too many
SHARE: Final = 0.02  # of the loop's time that slow commits may take from it, and no more
BUSY_AGAIN_S: Final = 0.005
BATCH_MAX: Final = 256  # bounds how long one transaction keeps the others out


_eventfd: Final = hasattr(os, "eventfd")
T = TypeVar("T")
About = TypeVarTuple("About")


class Job(Struct, eq=False):
    """Something to be done in a write transaction, and the future that its caller waits for.

    A function and what it is called with, not a closure: there is one of these for every append,
    and each object more is work for the collector too.
    """

    work: Callable[..., Any]
    about: tuple[Any, ...]
    light: Callable[..., bool] | None
    future: asyncio.Future[Any]
    queued_at: float
    patient: bool = True  # its caller is woken after those for whom a person may wait
    taken: bool = False
    result: Any = None
    error: BaseException | None = None


_PATIENT: Final = attrgetter("patient")


class Bell:
    """Rung by a thread, heard on the loop. Rings that come together are heard once.

    ``call_soon_threadsafe`` does the same through a pair of sockets, at three times the price; on
    the way of every append that is a tenth of the whole.
    """

    def __init__(self, hear: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._hear = hear
        self._handle = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) if _eventfd else -1
        if _eventfd:
            self._loop.add_reader(self._handle, self._answer)

    def ring(self) -> None:
        """Have the loop call ``hear`` soon. From any thread; nothing once the loop is gone."""
        with suppress(RuntimeError, OSError):
            if _eventfd:
                os.eventfd_write(self._handle, 1)
            else:
                self._loop.call_soon_threadsafe(self._hear)

    def _answer(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._handle)
        self._hear()

    def close(self) -> None:
        """Close the bell; called on the loop, when nobody rings any more."""
        if _eventfd and self._handle >= 0:
            self._loop.remove_reader(self._handle)
            os.close(self._handle)
            self._handle = -1


class Writer:
    """Runs jobs in batches and hands what was committed back to the loop, in order."""

    def __init__(
        self,
        transaction: Transaction,
        turnstile: Turnstile,
        path: Path,
        *,
        announce: Callable[[list[Job]], None],
        deliver: Callable[[object], None],
        wait_max_s: float,
        busy_s: float,
    ) -> None:
        self._transaction = transaction
        self._turnstile = turnstile
        self._path = path
        self._announce = announce
        self._deliver = deliver
        self._wait_max_s = wait_max_s
        self._busy_s = busy_s
        self._busy = False
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[list[Job] | None] = SimpleQueue()
        self._finished: SimpleQueue[list[Job]] = SimpleQueue()
        self._bell = Bell(self._collect)
        self._waiting: dict[int, Job] = {}
        self._gathered: list[Job] = []
        self._slow_until = 0.0
        self._minding: asyncio.TimerHandle | None = None
        self._context = contextvars.copy_context()  # not that of a task that appends
        self._taking = threading.Lock()
        self._desk = threading.Lock()  # held while writing, by the thread or the loop
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="midflight-writer", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    def do(
        self,
        work: Callable[[Transaction, *About], T],
        *about: *About,
        light: Callable[[Transaction, *About], bool] | None = None,
        patient: bool = True,
    ) -> asyncio.Future[T]:
        """Run ``work`` in a transaction; its result is there when it is on the disk.

        ``light`` says whether it is little enough to be written on the loop. Callers that are
        ``patient`` are woken after the others of a batch.
        """
        if self._closed:
            raise closed()
        future: asyncio.Future[T] = self._loop.create_future()
        job = Job(work, about, light, future, time.monotonic(), patient)
        self._waiting[id(job)] = job
        self._gathered.append(job)
        if len(self._gathered) == 1:
            self._loop.call_soon(self._dispatch)
        return future

    def _dispatch(self) -> None:
        """At the end of a turn of the loop: hand over what has come, or write it here and now."""
        jobs, self._gathered = self._gathered, []
        # layer lone-job-does-not-overtake
        alone = len(jobs) == 1 and len(self._waiting) == 1  # or it would overtake
        quick = time.monotonic() > self._slow_until
        if alone and quick and jobs[0].light is not None and self._write_here(jobs[0]):
            return
        if jobs:
            self._queue.put(jobs)  # together, or the thread would set off with the first of them
            if self._minding is None:
                self._mind_again()

    def _write_here(self, job: Job) -> bool:
        """Write a job that came alone on the loop itself, if nobody else is writing.

        A sync takes a tenth of a millisecond on a good disk, as long as waking the thread and being
        woken by it. Where one takes longer the thread has the next jobs, for so long that a slow
        disk costs the loop a fiftieth of its time at most.
        """
        if not self._desk.acquire(blocking=False):
            return False
        try:
            light = job.light is not None and job.light(self._transaction, *job.about)
            if not light or not self._turnstile.enter(wait=False):  # layer loop-writes-in-turn-only
                return False
            began = time.monotonic()
            try:
                written = self._attempt([job])
            finally:
                self._turnstile.leave()
            ended = time.monotonic()
            if ended - began > SLOW_S:
                self._slow_until = ended + (ended - began) / SHARE
            if not written:
                return False  # the thread has the patience that a busy file needs
            job.taken = True
            self._hand_back([job])
            self._announce([job])
            return True
        finally:
            self._desk.release()

    def _mind_again(self) -> None:
        after = min(1.0, self._wait_max_s / 4)
        self._minding = self._loop.call_later(after, self._mind, context=self._context)

    def _mind(self) -> None:
        """Look now and then, while anything waits, whether it has waited too long.

        If this look comes late, this process was frozen or blocked. That time does not count: it
        must not be said afterwards that another process has kept the store busy meanwhile.
        """
        assert self._minding is not None
        late, self._minding = self._loop.time() - self._minding.when(), None
        for job in self._waiting.values():
            job.queued_at += late  # layer frozen-does-not-blame-another
        self._give_up_on_old_jobs()  # layer nobody-waits-at-turnstile-without
        if self._waiting:
            self._mind_again()

    def _give_up_on_old_jobs(self) -> None:
        """Fail jobs that nobody took for too long."""
        deadline = time.monotonic() - self._wait_max_s
        old = [job for job in self._waiting.values() if job.queued_at < deadline]
        with self._taking:
            given_up = [job for job in old if not job.taken]
            for job in given_up:
                job.taken = True
        for job in given_up:
            job.error = StoreBusy(
                f"{self._path}: another process has kept the store busy for more than "
                f"{self._wait_max_s:g} s: end that process, or try again. Nothing was appended."
            )
        self._hand_back(given_up)

    async def close(self) -> None:
        """Finish what is queued, then end the thread; bounded, as another process may hold it."""
        self._closed = True
        self._dispatch()
        self._queue.put(None)
        deadline = time.monotonic() + self._wait_max_s
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._thread.join(0.0)
            await asyncio.sleep(0.001)
        self._collect()
        if not self._thread.is_alive():
            self._bell.close()
        if self._minding is not None:
            self._minding.cancel()
        with self._taking:
            left = list(self._waiting.values())
            for job in left:
                told = UNKNOWN if job.taken else "Nothing was appended."
                cut_off = StoreUnavailable(f"{self._path} was closed before this was done. {told}")
                job.error = cut_off.leaving_it_open() if job.taken else cut_off
                job.taken = True
        self._hand_back(left)

    def _run(self) -> None:
        last = False
        while not last and (jobs := self._queue.get()) is not None:
            with self._desk:  # layer loop-and-thread-not-at-desk
                last, batch = self._write(jobs)
                self._announce(batch)
            del jobs, batch  # or the callers of the last batch are kept until the next one

    def _write(self, first: list[Job]) -> tuple[bool, list[Job]]:
        try:
            self._turnstile.enter(wait=True)
            try:
                last, batch = self._take(first)
                self._commit(batch)
                self._back_to_loop(batch)  # first of all: somebody waits for it
            finally:
                self._turnstile.leave()
        except OSError as error:
            last, batch = self._take(first)
            for job in batch:
                job.error = StoreUnavailable(
                    f"{self._path}: the locks for writing cannot be taken ({error}): check the "
                    "file system that the store is on, and its rights. Nothing was appended."
                )
            self._back_to_loop(batch)
        return last, batch

    def _take(self, first: list[Job]) -> tuple[bool, list[Job]]:
        jobs, last = first, False
        while len(jobs) < BATCH_MAX and not (last or self._queue.empty()):
            more = self._queue.get_nowait()  # there is no other consumer
            last = more is None
            jobs += more or []
        with self._taking:  # layer job-taken-or-given
            batch = [job for job in jobs if not job.taken]  # layer gives-up-at-turnstile-has
            for job in batch:
                job.taken = True
        return last, batch

    def _commit(self, batch: list[Job]) -> None:
        deadline = time.monotonic() + self._busy_s  # layer file-locked-for-moment-waited
        while not (done := self._attempt(batch)) and self._busy and time.monotonic() < deadline:
            time.sleep(BUSY_AGAIN_S)  # somebody holds the file without passing the turnstile
        if done or self._busy or len(batch) < 2:  # layer job-breaks-batch-fails-alone
            return
        for job in batch:
            self._attempt([job])

    def _attempt(self, batch: list[Job]) -> bool:
        """One transaction. False if it failed as a whole; every job then carries the error.

        Not False if it may have been written: then the jobs carry the error, and nothing is tried
        again here. A kill or a purge has no id by which it would be known.
        """
        self._busy = False
        for job in batch:
            job.error = None
        try:
            self._transaction.begin()
            for job in batch:
                try:
                    job.result = job.work(self._transaction, *job.about)
                except sqlite3.Error:
                    raise
                except Exception as error:  # noqa: BLE001 - a refusal belongs to its caller alone
                    job.error = error
            self._transaction.commit()
        except BaseException as error:  # recorded with every caller it concerns
            told = explain(self._path, error) if isinstance(error, sqlite3.Error) else error
            unsure = isinstance(told, StoreError) and told.unsure
            self._busy = isinstance(told, StoreBusy) and not unsure
            for job in batch:
                job.error = (job.error or told) if unsure else told  # a refusal stays one
            self._undo()
            if not isinstance(error, Exception):
                self._hand_back(batch)  # on the loop, at Ctrl-C
                raise
            return unsure  # layer writer-does-not-repeat
        return True

    def _undo(self) -> None:
        with suppress(sqlite3.Error):  # beyond use: the next BEGIN says so to its callers
            self._transaction.rollback()

    def _back_to_loop(self, batch: list[Job]) -> None:
        self._finished.put(batch)
        self._bell.ring()

    def _collect(self) -> None:
        while not self._finished.empty():
            self._hand_back(self._finished.get_nowait())

    def _hand_back(self, jobs: list[Job]) -> None:
        for job in jobs:
            if job.error is None:
                # layer watchers-told-before-author
                self._deliver(job.result)  # all of them before anybody is answered: a stop too
        # layer requests-answered-before-steps
        for job in sorted(jobs, key=_PATIENT) if len(jobs) > 1 else jobs:
            self._waiting.pop(id(job), None)
            if job.future.done():
                continue  # its caller was cancelled; what was committed stays committed
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
