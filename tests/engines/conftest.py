"""Every test of the contract gets every engine: the local one, the bad one, and Restate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import anyio
import pytest

from engines import fleet_world
from engines.bad import BadEngine
from engines.fleet import Fleet, fleet
from engines.hosts import RestateServer, restate_server
from engines.link import linked, to_port
from midflight.agents import Agent
from midflight.control import Control
from midflight.engines.local_engine import Engine, LocalEngine
from midflight.engines.restate_address import Restate
from midflight.engines.restate_placement import RestateEngine
from midflight.engines.restate_worker import working
from midflight.interfaces.cli.commands.serve_command import listening
from midflight.stores.memory import MemoryStore
from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Store
from ports import free_port

SWEEP_S = 0.05
HOSTS = (pytest.mark.slow, pytest.mark.postgres, pytest.mark.node)
RESTATE = pytest.param("restate", marks=HOSTS)
ON_RESTATE = [pytest.mark.anyio, *HOSTS, pytest.mark.timeout(120)]
"""For a file whose tests all need the real servers."""

Opened = AbstractAsyncContextManager[Engine]


class Host(Protocol):
    """Where engines are opened. Each call gives one more, beside the others."""

    store: Store

    def __call__(self, *agents: Agent, sweep_s: float = SWEEP_S) -> Opened:
        """An engine that drives runs of these agents."""


class HereHost:
    """One process, whose engines share a store in memory."""

    def __init__(self, kind: type[LocalEngine | BadEngine], workdir: Path) -> None:
        self.store: Store = MemoryStore()
        self._kind = kind
        self._workdir = workdir

    def __call__(self, *agents: Agent, sweep_s: float = SWEEP_S) -> Opened:
        return self._kind.open(self.store, agents, workdir=self._workdir, sweep_s=sweep_s)


class RestateHost:
    """Workers behind one address, each with a connection to Postgres of its own."""

    def __init__(
        self, store: Store, open_store: Callable[[], AbstractAsyncContextManager[Store]]
    ) -> None:
        self.store = store
        self.open_store = open_store
        self.server: RestateServer
        self.workdir: Path
        self.service = f"Run{uuid4().hex}"

    @property
    def place(self) -> Restate:
        return self.server.place(self.service)

    async def __aenter__(self) -> RestateHost:
        self._address = linked()
        self.link = await self._address.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._address.__aexit__(None, None, None)

    @asynccontextmanager
    async def __call__(self, *agents: Agent, sweep_s: float = SWEEP_S) -> AsyncIterator[Engine]:
        port, link = free_port(), self.link
        end = to_port(port)
        link.ends.append(end)
        async with (
            self.open_store() as store,
            working(
                store,
                agents,
                self.place,
                partial(listening, "127.0.0.1", port),
                until=anyio.CancelScope(),
                uri=f"http://127.0.0.1:{link.port}",
                workdir=self.workdir,
                sweep_s=sweep_s,
                drain_s=2.0,
            ) as worker,
        ):
            try:
                yield worker.engine
            finally:
                link.ends.remove(end)


@pytest.fixture(scope="session")
def restate() -> Iterator[RestateServer]:
    """One server for all tests of a session."""
    with restate_server() as server:
        yield server


@pytest.fixture
async def restate_host(
    restate: RestateServer, postgres_address: str, tmp_path: Path
) -> AsyncIterator[RestateHost]:
    schema = f"test_{uuid4().hex}"

    def open_store() -> AbstractAsyncContextManager[Store]:
        return PostgresStore.open(postgres_address, schema=schema)  # nobody is to be lost

    async with open_store() as store, RestateHost(store, open_store) as host:
        host.server, host.workdir = restate, tmp_path
        yield host


At = tuple[Control, Fleet]
Hired = Callable[..., AbstractAsyncContextManager[At]]


@pytest.fixture
def hired(restate: RestateServer, postgres_address: str, tmp_path: Path) -> Hired:
    """Some workers, and somebody at a desk elsewhere who controls what they drive."""
    name = uuid4().hex

    @asynccontextmanager
    async def at_work(
        size: int,
        *ways: str,
        server: RestateServer = restate,
        address: str = postgres_address,
        options: tuple[str, ...] = (),
    ) -> AsyncIterator[At]:
        stores = [f"{way}&schema=test_{name}" for way in ways or [address] * size]
        async with (
            PostgresStore.open(address, schema=f"test_{name}") as opened,
            fleet(server, f"Run{name}", tmp_path, *stores, options=options) as workers,
            RestateEngine.open(opened, fleet_world.AGENTS, workers.restate) as engine,
        ):
            with anyio.fail_after(100):
                yield Control(opened, engine), workers

    return at_work


@pytest.fixture(params=["local", "bad", RESTATE])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    match request.param:
        case "local":
            return HereHost(LocalEngine, tmp_path)
        case "bad":
            return HereHost(BadEngine, tmp_path)
        case _:
            found: Host = request.getfixturevalue("restate_host")
            return found
