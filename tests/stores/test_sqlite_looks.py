"""The looks at a store's file find what is lost, and never call a moment's trouble a loss."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from midflight.errors import StoreBusy, StoreUnavailable
from midflight.journal.events import PauseRequested, PlanSet
from midflight.stores.protocol import Draft, Submit
from midflight.stores.sqlite import SqliteStore, locks, sqlite_file
from midflight.stores.sqlite.locks import ByteLock
from midflight.stores.sqlite.sqlite_hold import INDEX_HEAD, OPENING, SHARED
from stores.runs import ANN, OLGA, decision, pause, read_all, running
from stores.turns import locked_by_another

pytestmark = pytest.mark.anyio
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs locks of open files")

PATIENCE_S = 10.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place" / "journals.db"


# ── the look after an append was written ─────────────────────────────────────────────────────


@contextmanager
def folder_shut_at_commit(store: SqliteStore, path: Path) -> Iterator[None]:
    """Take the rights on the folder away while the next append is committed."""
    us = os.geteuid()

    def shut(statement: str) -> None:
        if statement == "COMMIT":
            path.parent.chmod(0)
            os.seteuid(65534 if us == 0 else us)  # rights do not bind root

    store._files.writing.set_trace_callback(shut)
    try:
        yield
    finally:
        os.seteuid(us)
        path.parent.chmod(0o755)
        store._files.writing.set_trace_callback(None)


@contextmanager
def index_unreadable(store: SqliteStore, path: Path) -> Iterator[None]:
    """Let the disk fail whenever the index of the log is read."""
    real = os.pread

    def failing(fd: int, size: int, offset: int) -> bytes:
        if fd == store._files.hold._index_fd:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(fd, size, offset)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", failing)
        yield


@contextmanager
def index_half_written(store: SqliteStore, path: Path) -> Iterator[None]:
    """Let every look at the index find a writer that was stopped between its two copies."""
    real = os.pread

    def torn(fd: int, size: int, offset: int) -> bytes:
        read = real(fd, size, offset)
        return read[:INDEX_HEAD] + bytes(INDEX_HEAD) if fd == store._files.hold._index_fd else read

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", torn)
        yield


Trouble = Callable[[SqliteStore, Path], Any]
TROUBLE = [folder_shut_at_commit, index_unreadable, index_half_written]


@pytest.mark.parametrize("trouble", TROUBLE)
async def test_an_append_that_is_written_and_cannot_be_looked_at_is_left_open(
    path: Path, trouble: Trouble
) -> None:
    async with SqliteStore.open(path) as store:
        driving = await running(store)
        append = decision("r-1", driving.state.head, PlanSet(epoch=1, steps=("a",)))

        with trouble(store, path), pytest.raises((StoreBusy, StoreUnavailable)) as told:
            await store.append(append)

        assert told.value.unsure
        assert str(told.value).endswith("it may be repeated under the same id.")
        assert "Nothing was appended" not in str(told.value)
        again = await store.append(append)
        assert again.repeated
        assert [r.position for r in again.records] == [driving.state.head + 1]
        assert len(await read_all(store)) == driving.state.head + 1


@pytest.mark.parametrize("trouble", TROUBLE)
async def test_requests_written_together_are_left_open_and_none_is_written_twice(
    path: Path, trouble: Trouble
) -> None:
    async with SqliteStore.open(path) as store:
        runs = [f"r-{number}" for number in range(3)]
        for run in runs:
            await running(store, run, driver=f"d-{run}")
        told: list[BaseException] = []

        def pausing(run: str) -> Submit:
            draft = Draft({run: (PauseRequested(who=ANN),)})
            return Submit(f"s-{run}", (run,), lambda view: draft)

        async def ask(run: str) -> None:
            try:
                await store.submit(pausing(run))
            except (StoreBusy, StoreUnavailable) as error:
                told.append(error)

        with trouble(store, path):
            async with anyio.create_task_group() as tasks:
                for run in runs:
                    tasks.start_soon(ask, run)

        assert [getattr(error, "unsure", None) for error in told] == [True] * 3
        for run in runs:
            again = await store.submit(pausing(run))
            assert again.repeated
            assert len(await read_all(store, run)) == again.records[-1].position


async def test_the_writer_does_not_repeat_what_may_have_been_written(path: Path) -> None:
    """Switches have no id by which a repetition would be known."""
    async with SqliteStore.open(path) as store:
        done: list[str] = []
        store._files.writing.set_trace_callback(done.append)

        async def release(scope: str) -> None:
            with pytest.raises(StoreUnavailable):
                await store.release(scope, OLGA)

        with index_unreadable(store, path):
            async with anyio.create_task_group() as tasks:
                for scope in ("agent:a", "agent:b"):
                    tasks.start_soon(release, scope)

        assert done.count("COMMIT") == 1


async def test_an_append_before_which_the_file_cannot_be_looked_at_is_surely_not_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SqliteStore.open(path) as store:
        driving = await running(store)
        real = os.pread

        def failing(fd: int, size: int, offset: int) -> bytes:
            if fd == store._files.hold._fd:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(fd, size, offset)

        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", failing)
            store._files.hold._seen = (-1, -1)  # the file has changed since the last look
            store._files.hold._looked_at = float("-inf")
            with pytest.raises(StoreUnavailable, match="Nothing was appended") as told:
                await driving.decides(PlanSet(epoch=1, steps=("a",)))

        assert not told.value.unsure
        assert len(await read_all(store)) == driving.state.head


async def test_a_watcher_here_hears_at_once_of_what_was_left_open_and_repeated(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        driving = await running(store)
        append = decision("r-1", driving.state.head, PlanSet(epoch=1, steps=("a",)))
        async with store.watch({"r-1": driving.state.head}) as watch:
            with index_unreadable(store, path), pytest.raises(StoreUnavailable):
                await store.append(append)
            await store.append(append)
            with anyio.fail_after(PATIENCE_S):
                async for record in watch:
                    assert record.position == driving.state.head + 1
                    break


# ── several threads look ─────────────────────────────────────────────────────────────────────


async def test_a_checkpoint_between_the_looks_of_two_threads_is_no_loss(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first thread has read the head of the file and is late to compare it."""
    async with SqliteStore.open(path) as store:
        await running(store)
        has_read, may_compare = threading.Event(), threading.Event()
        told: list[BaseException] = []
        real = os.pread

        def slow(fd: int, size: int, offset: int) -> bytes:
            read = real(fd, size, offset)
            if threading.current_thread().name == "late":
                has_read.set()
                may_compare.wait(PATIENCE_S)
            return read

        def look() -> None:
            store._files.hold._seen = (-1, -1)
            store._files.hold._looked_at = float("-inf")
            try:
                store._files.hold.look_before()
            except BaseException as error:  # noqa: BLE001 - looked at below
                told.append(error)

        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", slow)
            late = threading.Thread(target=look, name="late")
            late.start()
            has_read.wait(PATIENCE_S)
            for statement in ("CREATE TABLE more (a)", "PRAGMA wal_checkpoint(PASSIVE)"):
                store._files.writing.execute(
                    statement
                ).fetchall()  # counts up in the head of the file
            look()
            may_compare.set()
            late.join()

        assert told == []
        await pause(store)


# ── an opening that is cancelled ─────────────────────────────────────────────────────────────


def open_descriptors(path: Path) -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [name for name in found if name.startswith(str(path))]


def locks_of_others(path: Path) -> list[bool]:
    """Whether anybody holds the lock of who has it open, and that of who is opening it."""
    fd = os.open(path, os.O_RDWR)
    try:
        return [ByteLock(fd, *SHARED).is_taken(), ByteLock(fd, OPENING).is_taken()]
    finally:
        os.close(fd)


async def open_and_stay(path: Path) -> None:
    async with SqliteStore.open(path):
        await anyio.sleep(PATIENCE_S)


@linux
async def test_an_opening_that_is_cancelled_at_any_moment_leaves_nothing_open(path: Path) -> None:
    async with SqliteStore.open(path):
        pass
    begun: list[asyncio.Task[Any]] = []

    async def open_it() -> None:
        begun.extend(task for task in [asyncio.current_task()] if task)
        await open_and_stay(path)

    for number in range(40):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(open_it)
            await anyio.sleep(0.0002 * (number % 20))
            begun[-1].cancel()
    assert all(task.cancelled() for task in begun)

    assert locks._shared == {}
    assert open_descriptors(path) == []
    assert locks_of_others(path) == [False, False]


@linux
async def test_an_opening_that_a_scope_cancels_leaves_nothing_open(path: Path) -> None:
    async with SqliteStore.open(path):
        pass
    for number in range(10):
        with anyio.move_on_after(0.0005 * number):
            await open_and_stay(path)

    assert locks._shared == {}
    assert open_descriptors(path) == []


@linux
async def test_a_cancelled_opening_that_waits_for_another_process_does_not_stop_the_loop(
    path: Path,
) -> None:
    async with SqliteStore.open(path):
        pass
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(0.01)
            turns += 1

    async def open_it() -> None:
        async with SqliteStore.open(path, wait_max_s=0.5):
            pass

    async with anyio.create_task_group() as tasks:
        with locked_by_another(path, OPENING):
            tasks.start_soon(count)
            with anyio.move_on_after(0.1):
                await open_it()
        tasks.cancel_scope.cancel()

    assert turns > 15
    assert locks._shared == {}


# ── creating the file ────────────────────────────────────────────────────────────────────────


@linux
def test_the_file_is_created_without_a_descriptor_whose_closing_would_drop_locks(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that found the file a moment later may have locked it by then."""
    opened: list[object] = []
    real = os.open

    def noting(name: Any, *how: Any) -> int:
        opened.append(name)
        return real(name, *how)

    monkeypatch.setattr(os, "open", noting)

    sqlite_file.create(path)
    sqlite_file.create(path)

    assert opened == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_ISREG(path.stat().st_mode)
