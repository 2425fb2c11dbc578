"""No tool and no guard opens a file of the store that its process has open.

Closing it again would take SQLite's locks on it away: see ``stores/sqlite/sqlite_hold.py``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from midflight.errors import InvalidRequest
from midflight.guards import FileContent, SqlRow
from midflight.interfaces.chat.channel import Post, attached
from midflight.stores.sqlite import SqliteStore
from midflight.tools.declaration import ToolRefused
from midflight.tools.files import Workspace
from midflight.tools.sql import SqlReader
from stores.runs import running

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/locks"),
]


def locks_of_sqlite(folder: Path) -> int:
    """How many POSIX locks this process has on the store's files."""
    files = {path.stat().st_ino for path in folder.iterdir() if path.is_file()}
    lines = [line.split() for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines()]
    mine = [line for line in lines if line[1] == "POSIX" and line[4] == str(os.getpid())]
    return len([line for line in mine if int(line[5].split(":")[2]) in files])


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Path]:
    """A folder with a store that this process has open. Its locks are still there at the end."""
    async with SqliteStore.open(tmp_path / "m.db") as store:
        await running(store)
        before = locks_of_sqlite(tmp_path)
        yield tmp_path
        assert before > 0
        assert locks_of_sqlite(tmp_path) == before


@pytest.mark.parametrize("name", ["m.db", "m.db-wal", "m.db-shm"])
async def test_a_file_tool_refuses_it(
    place: Path, name: str, request: pytest.FixtureRequest
) -> None:
    space = Workspace(place, name=f"space-{request.node.name}")
    refused: tuple[Callable[[], object], ...] = (
        lambda: space.read_file.function(name),
        lambda: space.write_file.function(name, "words", "v"),
        lambda: space.edit_file.function(name, "a", "b", "v"),
        lambda: space.delete_file.function(name, "v"),
        lambda: space.move_file.function(name, "other", "v"),
    )
    for call in refused:
        with pytest.raises(ToolRefused, match="file of the store that this process has open"):
            call()


async def test_a_search_passes_it_by(place: Path, request: pytest.FixtureRequest) -> None:
    (place / "words.txt").write_text("some invoices", encoding="utf-8")
    space = Workspace(place, name=f"space-{request.node.name}")

    found = space.search_files.function("invoices")

    assert found.lines == ["words.txt:1: some invoices"]
    assert "not searched: 3" in found.note


@pytest.mark.parametrize("name", ["m.db", "m.db-wal", "link"])
async def test_a_guard_refuses_it(place: Path, name: str) -> None:
    (place / "link").symlink_to("m.db")

    with pytest.raises(InvalidRequest, match="file of the store"):
        await FileContent(place / name).look(0.0)


async def test_a_guard_that_asks_it_is_refused(place: Path) -> None:
    with pytest.raises(InvalidRequest, match="file of the store"):
        await SqlRow("events", place / "m.db", "SELECT count(*) FROM events").look(0.0)


async def test_a_query_of_a_model_is_refused(place: Path, request: pytest.FixtureRequest) -> None:
    reader = SqlReader(str(place / "m.db"), name=f"sql-{request.node.name}")

    with pytest.raises(ToolRefused, match="file of the store"):
        await reader.query.function("SELECT 1", [])


async def test_it_is_not_sent_to_a_chat(place: Path) -> None:
    ((name, words),) = attached(Post("", files=(str(place / "m.db"),)))

    assert name == "m.db.txt"
    assert b"file of the store" in words


async def test_once_the_store_is_closed_it_is_a_file_like_others(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with SqliteStore.open(tmp_path / "m.db") as store:
        await running(store)

    assert await FileContent(tmp_path / "m.db").look(0.0) != "missing"
