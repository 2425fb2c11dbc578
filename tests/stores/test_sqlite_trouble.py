"""What can go wrong with a file, and what a person is told: one sentence, and nothing lost."""

from __future__ import annotations

import os
import shlex
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import pytest

from midflight.errors import (
    CorruptEntry,
    StoreBusy,
    StoreReadOnly,
    StoreUnavailable,
    StoreVersion,
)
from midflight.journal.events import PlanSet
from midflight.journal.phases import Phase
from midflight.stores.sqlite import SqliteStore
from midflight.stores.sqlite.locks import turnstile_of_files
from midflight.stores.sqlite.sqlite_file import connect, prepare
from stores.passing import let_pass
from stores.programs import command, environment
from stores.runs import OLGA, cancel, pause, positions, read_all, running, start
from stores.turns import turn_of_another

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journals.db"


async def opening(path: Path) -> str:
    """The one sentence with which opening it fails."""
    with pytest.raises((StoreUnavailable, StoreVersion, StoreReadOnly)) as refused:
        async with SqliteStore.open(path):
            pass
    return str(refused.value)


@contextmanager
def other_program(path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody with plain sqlite3 and no manners."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert str(tmp_path / "nowhere") in await opening(tmp_path / "nowhere" / "journals.db")


async def test_a_file_that_is_no_database_is_named_and_left_alone(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 100)

    assert f"{path}: it is not an SQLite database" in await opening(path)
    assert path.read_bytes().startswith(b"Dear diary")


async def test_another_programs_database_is_left_alone(path: Path) -> None:
    with other_program(path) as db:
        db.execute("CREATE TABLE recipes (name TEXT)")

    assert "database of another program" in await opening(path)
    with other_program(path) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("recipes",)]


async def test_a_newer_layout_asks_for_an_upgrade(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        await start(store)
    with other_program(path) as db:
        db.execute("PRAGMA user_version = 99")

    assert "upgrade Midflight" in await opening(path)


async def test_a_file_that_may_not_be_written_says_whose_rights_to_mend(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        await start(store)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    us = os.geteuid()
    os.seteuid(65534 if us == 0 else us)  # rights do not bind root
    try:
        told = await opening(path)
    finally:
        os.seteuid(us)
        path.parent.chmod(0o755)
        path.chmod(0o644)

    assert str(path) in told
    async with SqliteStore.open(path) as store:
        assert (await store.row("r-1")).phase == Phase.QUEUED


@pytest.mark.slow
async def test_a_program_that_locks_the_file_is_waited_for_and_then_named(path: Path) -> None:
    async with SqliteStore.open(path, busy_s=0.2) as store:
        driving = await running(store)
        with other_program(path) as db:
            db.execute("BEGIN EXCLUSIVE")
            with pytest.raises(StoreBusy, match=r"locked .*Nothing was appended"):
                await driving.decides(PlanSet(epoch=1, steps=("a",)))
            db.execute("ROLLBACK")

        await driving.decides(PlanSet(epoch=1, steps=("a",)))
        assert positions(await read_all(store)) == [1, 2, 3, 4]


@pytest.mark.slow
async def test_a_program_that_locks_the_file_for_a_moment_is_waited_for(path: Path) -> None:
    async with SqliteStore.open(path) as store, anyio.create_task_group() as tasks:
        driving = await running(store)
        with other_program(path) as db:
            db.execute("BEGIN EXCLUSIVE")
            tasks.start_soon(driving.decides, PlanSet(epoch=1, steps=("a",)))
            await anyio.sleep(0.2)
            db.execute("ROLLBACK")

    assert driving.state.head == 4


async def test_nobody_else_on_the_machine_may_read_the_store(path: Path) -> None:
    mask = os.umask(0)
    try:
        async with SqliteStore.open(path) as store, store.lease("d-1"):
            await running(store)
            beside = path.with_name("journals.db.d")
            files = [*path.parent.glob("journals.db*"), *beside.rglob("*")]
            assert {file.name for file in files} >= {"journals.db", "journals.db-wal", "watchers"}
            open_to_others = [file.name for file in files if file.stat().st_mode & 0o077]
    finally:
        os.umask(mask)

    assert open_to_others == []


def test_what_only_reads_cannot_write(path: Path) -> None:
    with turnstile_of_files(path.parent) as turnstile:
        prepare(path, turnstile, 1.0)
    with (
        closing(connect(path, writes=False, busy_s=1.0)) as reading,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        reading.execute("DELETE FROM events")


@pytest.mark.slow
async def test_a_caller_that_gives_up_at_the_turnstile_has_truly_appended_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SqliteStore.open(path) as store:
        await running(store)
        with turn_of_another(path), monkeypatch.context() as impatient:  # who was stopped in it
            impatient.setattr(store._writer, "_wait_max_s", 0.4)
            with pytest.raises(StoreBusy, match="Nothing was appended"):
                await cancel(store)

        await pause(store)
        assert (await store.row("r-1")).phase == Phase.PAUSING


async def test_who_was_frozen_does_not_say_that_another_process_kept_the_store_busy(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock has gone on without it, and its writer had no more time than it had itself."""
    async with SqliteStore.open(path, wait_max_s=20) as store, anyio.create_task_group() as tasks:
        await running(store)
        with turn_of_another(path):
            tasks.start_soon(pause, store)
            writer = store._writer
            with anyio.fail_after(40):
                while not (writer._waiting and writer._minding):  # noqa: ASYNC110 - nobody is told
                    await anyio.sleep(0.01)
            let_pass(monkeypatch, 60)
            look = writer._minding
            with anyio.fail_after(40):
                while writer._minding is look:  # noqa: ASYNC110 - nobody is told of it
                    await anyio.sleep(0.01)

    async with SqliteStore.open(path) as store:
        assert (await store.row("r-1")).phase == Phase.PAUSING


async def test_a_caller_that_is_cancelled_leaves_the_store_usable(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        await running(store)
        with anyio.move_on_after(0):
            await pause(store)

        await cancel(store)
        records = await read_all(store)
        assert positions(records) == list(range(1, len(records) + 1))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("UPDATE events SET body = substr(body, 1, 20) WHERE position = 2", "checksum"),
        ("UPDATE events SET body = replace(body, 'd-1', 'd-2') WHERE position = 2", "checksum"),
        ("UPDATE events SET body = x'ff00fe' WHERE position = 2", "checksum"),
        ("DELETE FROM events WHERE position = 2", "missing"),
    ],
)
async def test_a_damaged_row_is_named_and_harms_no_other_journal(
    path: Path, damage: str, why: str
) -> None:
    async with SqliteStore.open(path) as store:
        await running(store)
    with other_program(path) as db:
        db.execute(damage)

    async with SqliteStore.open(path) as store:
        with pytest.raises(CorruptEntry, match=f"r-1 cannot be read at position 2.*{why}"):
            await store.load("r-1")
        with pytest.raises(CorruptEntry, match="position 2"):
            await cancel(store, "r-1")
        await running(store, "r-2", driver="d-2")
        await cancel(store, "r-2")
        assert (await store.row("r-2")).phase == Phase.CANCELLING


async def test_a_kill_reaches_a_run_whose_journal_is_damaged(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        driving = await running(store)
        await running(store, "r-2", driver="d-2")
    with other_program(path) as db:
        db.execute("UPDATE events SET body = 'x' WHERE journal = 'r-1' AND position = 2")

    async with SqliteStore.open(path) as store:
        killing = await store.kill("all", OLGA)

        assert set(killing.killed) == {"r-1", "r-2"}
        assert (await store.row("r-1")).phase == Phase.KILLED
        driving.store = store
        with pytest.raises(CorruptEntry, match="position 2"):
            await driving.decides(PlanSet(epoch=1, steps=("a",)))


@pytest.mark.slow
@pytest.mark.namespaces
def test_a_full_disk_loses_nothing_and_the_store_goes_on_when_there_is_room(tmp_path: Path) -> None:
    program = shlex.join(command("full_disk.py", str(tmp_path)))
    mount = f"mount -t tmpfs -o size=2m tmpfs {shlex.quote(str(tmp_path))}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"{mount} && exec {program}"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )

    assert done.returncode == 0, done.stderr
    full, *findings = done.stdout.splitlines()
    assert "the disk is full" in full
    assert findings == ["whole: True", "goes on: True"]


async def test_a_read_that_was_given_up_is_over_before_what_it_reads_is_closed(
    tmp_path: Path,
) -> None:
    """A connection that is closed under a running statement takes the interpreter with it."""
    read: list[object] = []
    begun, given_up = threading.Event(), threading.Event()
    at_last = threading.Timer(0.1, given_up.set)

    async with SqliteStore.open(tmp_path / "journals.db") as store:

        def slowly() -> None:
            begun.set()
            given_up.wait(40)
            read.append(store._files.reading.execute("SELECT 1").fetchone())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store._reader.in_reader, slowly)
            assert await anyio.to_thread.run_sync(begun.wait, 40)
            tasks.cancel_scope.cancel()
        assert read == []
        at_last.start()  # while the store is being closed

    at_last.join()
    assert read == [(1,)]
