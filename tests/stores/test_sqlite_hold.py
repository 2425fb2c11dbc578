"""A process that has a store open cannot lose its file, its log or its locks without noticing."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from midflight.errors import StoreReplaced, StoreUnavailable
from midflight.journal.events import CancelRequested
from midflight.runtime.journal_client import TROUBLE
from midflight.store_files import ident
from midflight.stores.sqlite import SqliteStore, open_files, sqlite_hold
from midflight.stores.sqlite.locks import open_alone, share
from midflight.stores.sqlite.sqlite_file import MIGRATIONS, explain
from stores.holders import holder
from stores.programs import command, environment
from stores.runs import cancel, pause, read_all, resume, running, start

pytestmark = pytest.mark.anyio
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs locks of open files")

LOOK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("SELECT count(*) FROM events").fetchone()[0])
print(db.execute("PRAGMA integrity_check").fetchone()[0])
db.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journals.db"


def look_from_outside(path: Path) -> tuple[int, str]:
    """What another process finds that opens and closes the file, as ``midflight runs`` does."""
    said = subprocess.run(
        [sys.executable, "-S", "-c", LOOK, str(path)], capture_output=True, text=True, check=True
    )
    events, whole = said.stdout.split()
    return int(events), whole


def read(path: Path) -> None:
    path.read_bytes()


def copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))


def read_all_of_it(path: Path) -> None:
    for end in ("-shm", "-wal", ""):
        path.with_name(path.name + end).read_bytes()


def back_up(path: Path) -> None:
    with closing(sqlite3.connect(path)) as here, closing(sqlite3.connect(f"{path}.bak")) as there:
        here.backup(there)


# ── reading it in the process that drives ────────────────────────────────────────────────────


@linux
@pytest.mark.parametrize("touch", [read, copy, read_all_of_it, back_up])
async def test_what_is_acknowledged_after_the_file_was_read_here_is_in_the_store(
    path: Path, touch: Callable[[Path], None]
) -> None:
    async with SqliteStore.open(path) as store:
        driving = await running(store)
        touch(path)
        look_from_outside(path)  # it is not the last to close the file, whatever it may think

        await cancel(store)

        assert look_from_outside(path) == (driving.state.head + 1, "ok")
    async with SqliteStore.open(path) as store:
        assert isinstance((await read_all(store))[-1].event, CancelRequested)


@linux
@pytest.mark.slow
def test_a_driver_that_reads_its_own_store_and_is_killed_loses_nothing_acknowledged(
    path: Path,
) -> None:
    with holder(path) as driver:
        driver.does("start r-1")
        driver.does("read")
        look_from_outside(path)
        for _ in range(10):
            acknowledged = int(driver.does("append r-1"))
        driver.does("copy")
        look_from_outside(path)
        acknowledged = int(driver.does("append r-1"))
        driver.dies()

    assert look_from_outside(path) == (acknowledged, "ok")


@linux
@pytest.mark.slow
def test_a_lease_is_held_although_the_driver_reads_its_own_store(path: Path) -> None:
    with holder(path) as driver, holder(path) as other:
        driver.does("lease d-1")
        driver.does("read")

        assert other.does("gone d-1") == "False"
        driver.dies()
        assert other.does("gone d-1") == "True"


async def test_the_log_is_gone_after_the_last_process_has_closed_the_store(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        await running(store)

    assert not path.with_name(path.name + "-wal").exists()


async def test_two_stores_on_one_file_in_one_process_close_it_with_the_last(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        driving = await running(store)
        for _ in range(3):
            async with SqliteStore.open(path) as other:
                await pause(other)
            look_from_outside(path)
            await resume(store)

    assert look_from_outside(path) == (driving.state.head + 6, "ok")


# ── the file is taken away ───────────────────────────────────────────────────────────────────


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("new"))
    path.with_name("new").rename(path)


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def delete_the_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def delete_the_index(path: Path) -> None:
    path.with_name(path.name + "-shm").unlink()


def replace_the_index(path: Path) -> None:
    delete_the_index(path)
    look_from_outside(path)  # another program makes a new one, and would lock that


def empty_the_log(path: Path) -> None:
    os.truncate(path.with_name(path.name + "-wal"), 0)


def move_the_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def overwrite(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + bytes(8176))


HARM = [
    delete,
    replace,
    move,
    delete_the_log,
    empty_the_log,
    delete_the_index,
    replace_the_index,
    move_the_folder,
    overwrite,
]


@pytest.mark.parametrize("harm", HARM)
async def test_nothing_is_acknowledged_by_a_process_whose_file_was_taken_away(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    (tmp_path / "place").mkdir()
    path = tmp_path / "place" / "journals.db"

    with pytest.raises(StoreReplaced, match="Stop every process on this store"):
        async with SqliteStore.open(path) as store:
            await running(store)
            harm(path)
            with pytest.raises(StoreReplaced, match="Nothing is acknowledged"):
                await cancel(store)
            with pytest.raises(StoreReplaced):
                await store.row("r-1")
            await anyio.sleep(40)  # and the block in which the store is open ends by itself


@pytest.mark.slow
async def test_a_process_that_writes_nothing_notices_it_within_a_second(path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(StoreReplaced):
        async with SqliteStore.open(path) as store:
            await running(store)
            path.unlink()
            await anyio.sleep(40)

    assert time.monotonic() - began < 20


async def test_an_older_copy_that_is_written_over_the_file_is_noticed(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        await start(store)
    shutil.copy(path, path.with_name("old"))
    async with SqliteStore.open(path) as store:
        for number in range(40):
            await running(store, f"r-{number:02}x", driver=f"d-{number}")

    with pytest.raises(StoreReplaced):
        async with SqliteStore.open(path) as store:
            await pause(store, "r-05x")
            path.write_bytes(path.with_name("old").read_bytes())
            with pytest.raises(StoreReplaced, match="another content"):
                await pause(store, "r-06x")
            await anyio.sleep(40)


async def test_another_store_that_is_written_over_the_file_is_noticed(path: Path) -> None:
    """Its count of changes may be as high as one likes."""
    other = path.with_name("other.db")
    for file in (path, other):
        async with SqliteStore.open(file) as store:
            await start(store)
    for number in range(20):
        async with SqliteStore.open(other) as store:
            await start(store, f"r-{number:02}x")

    with pytest.raises(StoreReplaced):
        async with SqliteStore.open(path) as store:
            await pause(store)
            path.write_bytes(other.read_bytes())
            with pytest.raises(StoreReplaced, match="another content"):
                await resume(store)
            await anyio.sleep(40)


async def test_a_store_without_a_mark_is_given_one_that_stays(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        await start(store)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")  # the layout, and no mark
    marks = []
    for _ in range(2):
        async with SqliteStore.open(path) as store:
            marks.append(store._files.hold.mark)

    assert marks[0] == marks[1] != bytes(3)


def test_nobody_waits_for_damaged_pages_to_mend() -> None:
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT

    assert not isinstance(explain(Path("m.db"), error), TROUBLE)


# ── names ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("harm", [replace, move])
def test_a_newcomer_does_not_take_up_the_log_of_a_file_that_is_held_elsewhere(
    path: Path, harm: Callable[[Path], None]
) -> None:
    """Both would write to one file by two logs, or two files by one log."""
    with holder(path) as driver:
        driver.does("start r-1")
        os.kill(driver.process.pid, 19)  # it cannot notice anything by itself
        harm(path)
        with holder(path if harm is replace else path.with_name("elsewhere.db")) as newcomer:
            assert newcomer.opened.startswith("StoreReplaced: ")
            assert "under another name" in newcomer.opened


@pytest.mark.parametrize("how", ["moved", "deleted", "emptied"])
async def test_no_new_store_is_made_beside_the_log_of_one_that_was_taken_away(
    path: Path, how: str
) -> None:
    """SQLite would take the log for a leftover and delete it, with what was acknowledged last."""
    kept = path.with_name("moved.db")
    with pytest.raises(StoreReplaced):
        async with SqliteStore.open(path) as store:
            driving = await running(store)
            path.rename(kept)
            await cancel(store)
    if how == "emptied":
        path.touch()
    if how == "deleted":
        kept.unlink()
    log = path.with_name(f"{path.name}-wal")
    before = log.read_bytes()

    with pytest.raises(StoreReplaced, match=r"moved or deleted without its log.*Nothing was chang"):
        async with SqliteStore.open(path):
            pass

    assert log.read_bytes() == before
    if how == "moved":
        assert not path.exists()
        log.rename(f"{kept}-wal")
        async with SqliteStore.open(kept) as store:
            assert (await store.load("r-1")).head >= driving.state.head


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a path", "a link", "a link to the folder", "a relative path"])
def test_a_driver_is_seen_by_whatever_path_the_store_is_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "place").mkdir()
    path = tmp_path / "place" / "journals.db"
    (tmp_path / "link.db").symlink_to(path)
    (tmp_path / "folder").symlink_to("place")
    names: dict[str, str | Path] = {
        "a path": path,
        "a link": tmp_path / "link.db",
        "a link to the folder": tmp_path / "folder" / "journals.db",
        "a relative path": "place/journals.db",
    }
    with holder(path) as driver, holder(names[name], cwd=tmp_path) as other:
        driver.does("lease d-1")
        other.does("lease d-2")
        other.does("chdir /")

        assert other.does("gone d-1") == driver.does("gone d-2") == "False"
        driver.does("start r-1")
        assert other.does("start r-2") == "3"
        driver.dies()
        assert other.does("gone d-1") == "True"
        assert int(other.does("append r-2")) == 4


@pytest.mark.slow
def test_a_driver_is_seen_after_the_folder_beside_the_store_was_deleted(path: Path) -> None:
    with holder(path) as driver, holder(path) as other:
        driver.does("lease d-1")
        shutil.rmtree(f"{path}.d")
        with holder(path) as newcomer:
            assert other.does("gone d-1") == newcomer.does("gone d-1") == "False"
            newcomer.does("start r-1")
            assert int(newcomer.does("append r-1")) == 4


async def test_a_file_with_two_names_is_refused_by_each_of_them(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        await running(store)
    other = path.with_name("other.db")
    os.link(path, other)

    for name in (path, other):
        with pytest.raises(StoreUnavailable, match=r"2 names .*Nothing was changed"):
            async with SqliteStore.open(name):
                pass
    assert not other.with_name("other.db-wal").exists()
    other.unlink()
    async with SqliteStore.open(path) as store:
        assert (await store.row("r-1")).head == 3


@pytest.mark.slow
@pytest.mark.namespaces
def test_a_file_that_is_mounted_by_itself_is_refused(path: Path) -> None:
    path.touch()
    there = path.with_name("the mount.db")
    there.touch()
    mount = f"mount --bind {shlex.quote(str(path))} {shlex.quote(str(there))}"
    program = shlex.join(command("holder.py", str(there)))
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"{mount} && exec {program}"],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )

    assert "mount the folder that it is in instead" in done.stdout


# ── forks ────────────────────────────────────────────────────────────────────────────────────


def in_a_child(work: Callable[[], object]) -> str:
    """Do it in a forked child, and return what it says to that."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
        except StoreUnavailable as error:
            os.write(tell, str(error).encode())
        finally:
            os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    with os.fdopen(told) as words:
        return words.read()


@pytest.mark.slow
def test_a_forked_child_does_not_make_a_dead_driver_look_alive(path: Path) -> None:
    with holder(path) as driver, holder(path) as other:
        driver.does("lease d-1")
        child = int(driver.does("fork"))
        try:
            assert other.does("gone d-1") == "False"
            driver.dies()
            assert other.does("gone d-1") == "True"
            other.does("start r-1")
            assert int(other.does("append r-1")) == 4
        finally:
            os.kill(child, 9)


@linux
def test_a_child_that_is_forked_while_a_file_is_being_opened_does_not_keep_it_open(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    opening, really = threading.Event(), os.open

    def slowly(*args: Any, **kwargs: Any) -> int:
        fd = really(*args, **kwargs)
        opening.set()
        time.sleep(0.3)
        return fd

    monkeypatch.setattr("os.open", slowly)
    files = share(ident(path.stat()))
    for opens in (lambda: files.take(str(path)), lambda: open_alone(str(path))):
        opening.clear()
        thread = threading.Thread(target=opens)
        thread.start()
        opening.wait()
        child = os.fork()
        if child == 0:
            fds = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
            os._exit(any(os.path.exists(fd) and os.path.samefile(fd, path) for fd in fds))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        thread.join()
    files.leave()


async def test_a_forked_child_that_ends_takes_nothing_from_its_parent(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        driving = await running(store)
        async with store.lease("d-9"):
            in_a_child(store._files.writing.close)
            look_from_outside(path)
            assert not await store.lease_gone("d-9")
            await pause(store)

    assert look_from_outside(path) == (driving.state.head + 1, "ok")


async def test_a_forked_child_is_told_to_open_the_store_itself(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        await running(store)

        assert "forked" in in_a_child(store._files.hold.look_before)


# ── systems without locks of open files ──────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["deleted", "moved", "made anew"])
async def test_without_locks_of_open_files_a_lost_lock_of_a_driver_is_noticed(
    path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Others take its driver for dead from then on."""
    monkeypatch.setattr(open_files, "HAS_BYTE_LOCKS", False)
    monkeypatch.setattr(sqlite_hold, "HAS_BYTE_LOCKS", False)
    folder = path.with_name(f"{path.name}.d") / "drivers"

    with pytest.raises(StoreReplaced):
        async with SqliteStore.open(path) as store:
            await running(store)
            async with store.lease("d-8"):
                pass
            await pause(store)  # a lease that was given back is missed by nobody
            async with store.lease("d-9"):
                folder.rename(folder.with_name("elsewhere")) if how == "moved" else None
                shutil.rmtree(folder, ignore_errors=True)
                if how == "made anew":
                    folder.mkdir()
                    (folder / "d-9.lock").touch()
                with pytest.raises(StoreReplaced, match=r"lock.*Nothing is acknowledged"):
                    await resume(store)
                await anyio.sleep(40)


async def test_without_locks_of_open_files_the_look_before_each_acknowledgement_is_left(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "HAS_BYTE_LOCKS", False)
    monkeypatch.setattr(sqlite_hold, "HAS_BYTE_LOCKS", False)

    with pytest.raises(StoreReplaced):
        async with SqliteStore.open(path) as store, SqliteStore.open(path) as other:
            await running(store)
            async with store.lease("d-9"):
                assert not await other.lease_gone("d-9")
            assert await other.lease_gone("d-9")
            path.unlink()
            with pytest.raises(StoreReplaced):
                await pause(store)
            await anyio.sleep(40)
