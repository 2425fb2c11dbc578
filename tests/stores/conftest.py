"""Every test of the contract gets every store, opened fresh; Postgres is a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from midflight.stores.base import Store
from midflight.stores.sqlite import SqliteStore
from stores.backends import Open, open_memory, postgres_server


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    """One server for all tests of a session, or of each of its workers."""
    with postgres_server() as address:
        yield address


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request: pytest.FixtureRequest) -> Open:
    if request.param == "memory":
        return open_memory
    path: Path = request.getfixturevalue("tmp_path") / "journals.db"
    return lambda: SqliteStore.open(path)


@pytest.fixture
async def store(open_store: Open) -> AsyncIterator[Store]:
    async with open_store() as opened:
        yield opened
