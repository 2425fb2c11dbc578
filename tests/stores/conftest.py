"""Every test of the contract gets every store, opened fresh; Postgres is a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Store
from midflight.stores.sqlite import SqliteStore
from stores.backends import POSTGRES, Open, open_memory


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def open_store(request: pytest.FixtureRequest) -> Open:
    match request.param:
        case "memory":
            return open_memory
        case "sqlite":
            path: Path = request.getfixturevalue("tmp_path") / "journals.db"
            return lambda: SqliteStore.open(path)
        case _:
            address: str = request.getfixturevalue("postgres_address")
            schema = f"test_{uuid4().hex}"
            return lambda: PostgresStore.open(address, schema=schema)


@pytest.fixture
async def store(open_store: Open) -> AsyncIterator[Store]:
    async with open_store() as opened:
        yield opened


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a process of its own finds the store of this test."""
    if request.param == "sqlite":
        return str(tmp_path / "journals.db")
    server: str = request.getfixturevalue("postgres_address")
    return f"{server}&schema=test_{uuid4().hex}"
