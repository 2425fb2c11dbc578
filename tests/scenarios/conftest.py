"""Each story is told on a real store, with the local engine driving."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from midflight.agents import Agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.stores.memory import MemoryStore
from midflight.stores.postgres import links, postgres_server, postgres_writer
from midflight.stores.protocol import Store
from midflight.stores.sqlite import SqliteStore
from scenarios.cord import Life, doomed, life
from scenarios.hours import Hours

STORY_S = 30.0  # a story that hangs fails here, where the engine can still be closed in good order
Open = Callable[..., AbstractAsyncContextManager[Control]]
Live = Callable[..., AbstractAsyncContextManager[Life]]


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    """The clock of this story's store and engines. It shows the world's time until one skips."""
    return Hours(monkeypatch)


@pytest.fixture(params=["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, hours: Hours
) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore(hours.now, hours.steadily)
    else:
        path = tmp_path / "journals.db"
        async with SqliteStore.open(path, clock=hours.now, steadily=hours.steadily) as opened:
            yield opened


def failed_drivers(caplog: pytest.LogCaptureFixture) -> list[object]:
    """What drivers have failed of; the engine goes on, and so hides it from a story's end."""
    failed = [r for r in caplog.records if getattr(r, "action", "") == "driver_failed"]
    return [getattr(record, "error", None) for record in failed]


@pytest.fixture
def driving(store: Store, tmp_path: Path, hours: Hours, caplog: pytest.LogCaptureFixture) -> Open:
    """Drive runs of some agents for as long as the block runs. No driver may fail on the way."""

    @asynccontextmanager
    async def open_control(*agents: Agent) -> AsyncIterator[Control]:
        async with LocalEngine.open(
            store, agents, workdir=tmp_path / "work", sweep_s=0.05, clock=hours.now
        ) as engine:
            with hours.bounded(STORY_S):
                yield Control(store, engine)
        assert failed_drivers(caplog) == []

    return open_control


@pytest.fixture
def crashing(store: Store, tmp_path: Path, hours: Hours) -> Open:
    """Drive runs of some agents for as long as the block runs, and crash at its end."""

    @asynccontextmanager
    async def open_control(*agents: Agent) -> AsyncIterator[Control]:
        async with doomed(store, *agents, workdir=tmp_path / "work", clock=hours.now) as control:
            with hours.bounded(STORY_S):
                yield control

    return open_control


@pytest.fixture
def living(store: Store, tmp_path: Path, hours: Hours) -> Live:
    """As ``crashing``, for a story that says after how many appends the crash comes."""
    return lambda *agents: life(store, *agents, workdir=tmp_path / "work", clock=hours.now)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """A file that runs rely on."""
    path = tmp_path / "prices.csv"
    path.write_bytes(b"tea 3\n")
    return path


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Postgres is given up after half a second, a silent connection and a lock sooner."""
    for module in (links, postgres_writer):
        monkeypatch.setattr(module, "PATIENCE_S", 0.4)
    for module in (links, postgres_writer, postgres_server):
        monkeypatch.setattr(module, "ANSWER_S", 0.3, raising=False)
        monkeypatch.setattr(module, "LONG_S", 0.3, raising=False)
    monkeypatch.setattr(links, "MIND_S", 0.1)
    monkeypatch.setattr(postgres_server, "CONNECT_S", 0.3)
    monkeypatch.setitem(postgres_server.SETTINGS, "lock_timeout", "100ms")
