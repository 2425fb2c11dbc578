"""Stories of the reference agent: a scripted model, real tools, each store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from midflight.agents import Agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.stores.memory import MemoryStore
from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Store
from midflight.stores.sqlite import SqliteStore
from scenarios.conftest import failed_drivers

STORY_S = 50.0
Open = Callable[..., AbstractAsyncContextManager[Control]]


@pytest.fixture(
    params=[
        "memory",
        pytest.param("sqlite", marks=pytest.mark.slow),
        pytest.param("postgres", marks=[pytest.mark.slow, pytest.mark.postgres]),
    ]
)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Each store in turn."""
    if request.param == "memory":
        yield MemoryStore()
    elif request.param == "sqlite":
        async with SqliteStore.open(tmp_path / "journals.db") as opened:
            yield opened
    else:
        address: str = request.getfixturevalue("postgres_address")
        async with PostgresStore.open(address, schema=f"agent_{uuid4().hex}") as opened:
            yield opened


@pytest.fixture
def driving(store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Open:
    """Drive runs of some agents for as long as the block runs. No driver may fail on the way."""

    @asynccontextmanager
    async def open_control(*agents: Agent) -> AsyncIterator[Control]:
        async with LocalEngine.open(
            store, agents, workdir=tmp_path / "work", sweep_s=0.05
        ) as engine:
            with anyio.fail_after(STORY_S):
                yield Control(store, engine)
        assert failed_drivers(caplog) == []

    return open_control
