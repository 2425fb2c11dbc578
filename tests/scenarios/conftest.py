"""Each story is told on a real store, with the local engine driving."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from midflight.control import Control
from midflight.engines.local import LocalEngine
from midflight.run import Agent
from midflight.stores.base import Store
from midflight.stores.memory import MemoryStore
from midflight.stores.sqlite import SqliteStore
from scenarios.cord import doomed

Open = Callable[..., AbstractAsyncContextManager[Control]]


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
    else:
        async with SqliteStore.open(tmp_path / "journals.db") as opened:
            yield opened


@pytest.fixture
def driving(store: Store, tmp_path: Path) -> Open:
    """Drive runs of some agents for as long as the block runs."""

    @asynccontextmanager
    async def open_control(*agents: Agent) -> AsyncIterator[Control]:
        async with LocalEngine.open(
            store, agents, workdir=tmp_path / "work", sweep_s=0.05
        ) as engine:
            yield Control(store, engine)

    return open_control


@pytest.fixture
def crashing(store: Store, tmp_path: Path) -> Open:
    """Drive runs of some agents for as long as the block runs, and crash at its end."""
    return lambda *agents: doomed(store, *agents, workdir=tmp_path / "work")


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """A file that runs rely on."""
    path = tmp_path / "prices.csv"
    path.write_bytes(b"tea 3\n")
    return path
