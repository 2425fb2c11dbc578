"""One desk for two writers, the loop and the thread: never both at once, and nobody overtakes."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from midflight.inputs import new_id, wall_clock
from midflight.stores.sqlite.open_files import OpenFiles
from midflight.stores.sqlite.sqlite_writer import Job, Writer
from midflight.stores.sqlite.transaction import Transaction

pytestmark = pytest.mark.anyio

HERE = threading.get_ident()
PATIENCE_S = 5.0


class Desk:
    """A writer on a file of its own, and what it tells: to watchers here, to other processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.delivered: list[object] = []
        self.announced = threading.Event()
        self.may_leave = threading.Event()
        self.may_leave.set()
        self.writer: Writer

    def announce(self, jobs: list[Job]) -> None:
        """Called at the desk, after the commit and after the answer."""
        if threading.get_ident() != HERE:
            self.announced.set()
            self.may_leave.wait(PATIENCE_S)

    async def does(
        self, work: Callable[[Transaction], str], light: Callable[[Transaction], bool] | None = None
    ) -> None:
        await self.writer.do(work, light=light)

    @contextmanager
    def opened(self) -> Iterator[None]:
        with closing(OpenFiles(self.path, new_id, PATIENCE_S, 1.0)) as files:
            self.writer = Writer(
                Transaction(files.writing, wall_clock, files.hold),
                files.turnstile,
                self.path,
                announce=self.announce,
                deliver=self.delivered.append,
                wait_max_s=PATIENCE_S,
                busy_s=1.0,
            )
            yield


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path / "journals.db")
    with desk.opened():
        yield desk
        desk.may_leave.set()
        await desk.writer.close()


def saying(word: str) -> Callable[[Transaction], str]:
    return lambda transaction: word


def who(transaction: Transaction) -> str:
    return "loop" if threading.get_ident() == HERE else "thread"


async def test_the_loop_does_not_write_while_the_thread_is_at_the_desk(desk: Desk) -> None:
    """Its caller has the answer already; it still has the turn, and letters to send."""
    desk.may_leave.clear()
    await desk.writer.do(saying("large"))
    await anyio.to_thread.run_sync(desk.announced.wait, PATIENCE_S)
    wrote: list[str] = []

    async def append() -> None:
        wrote.append(await desk.writer.do(who, light=lambda transaction: True))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(append)
        await anyio.sleep(0.05)
        assert wrote == []
        desk.may_leave.set()

    assert wrote == ["thread"]


async def test_a_lone_job_is_not_written_before_an_earlier_one_was_delivered(desk: Desk) -> None:
    """The thread has written and left, and the loop has not come round to collect it yet."""
    may_write = threading.Event()

    def slow(transaction: Transaction) -> str:
        may_write.wait(PATIENCE_S)
        return "first"

    def be_busy() -> None:
        may_write.set()
        desk.announced.wait(PATIENCE_S)
        time.sleep(0.05)  # and has left the desk

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.does, slow)
        await anyio.sleep(0.02)
        tasks.start_soon(desk.does, saying("second"), lambda transaction: True)
        desk.writer._loop.call_soon(be_busy)  # between its coming and its being dispatched

    assert desk.delivered == ["first", "second"]


async def test_a_job_that_breaks_its_batch_fails_alone(desk: Desk) -> None:
    answers: dict[str, object] = {}

    async def do(name: str, work: Callable[[Transaction], object]) -> None:
        try:
            answers[name] = await desk.writer.do(work)
        except Exception as error:  # noqa: BLE001 - looked at below
            answers[name] = type(error).__name__

    def break_the_batch(transaction: Transaction) -> None:
        transaction.db.execute("INSERT INTO nowhere VALUES (1)")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(do, "before", saying("written"))
        tasks.start_soon(do, "breaks", break_the_batch)
        tasks.start_soon(do, "after", saying("written"))

    assert answers == {"before": "written", "breaks": "StoreError", "after": "written"}


class Hesitant:
    """A job at which the thread looks for a while before it takes it."""

    def __init__(self, desk: Desk, wrote: list[str]) -> None:
        self.work = lambda transaction: wrote.append("written")
        self.about, self.light, self.result = (), None, None
        self.error: BaseException | None = None
        self.future = desk.writer._loop.create_future()
        self.queued_at = float("-inf")
        self.looked_at = threading.Event()
        self._taken = False

    @property
    def taken(self) -> bool:
        taken = self._taken
        if threading.get_ident() != HERE:
            self.looked_at.set()
            time.sleep(0.1)
        return taken

    @taken.setter
    def taken(self, taken: bool) -> None:
        self._taken = taken


async def test_a_job_is_taken_or_given_up_and_never_both(desk: Desk) -> None:
    """Whoever is told that nothing was appended can rely on it."""
    wrote: list[str] = []
    job: Any = Hesitant(desk, wrote)
    desk.writer._waiting[id(job)] = job
    desk.writer._queue.put([job])
    await anyio.to_thread.run_sync(job.looked_at.wait, PATIENCE_S)
    desk.writer._give_up_on_old_jobs()

    with anyio.fail_after(PATIENCE_S):
        await job.future
    assert wrote == ["written"]
