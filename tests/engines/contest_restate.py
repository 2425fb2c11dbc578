"""The same contest between real workers of a real Restate, which places every run on both.

Each worker has a service of its own, so that Restate makes two calls for a run at the same time,
where it would make one. Whoever's run was taken takes it back, as a call does whose driver is gone.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self
from uuid import uuid4

import anyio
import httpx
from anyio.abc import Process
from typing_extensions import override

from engines import contested_worker
from engines.contest import LEAVES_S, Contest
from engines.hosts import RestateServer
from midflight.stores.protocol import Store
from ports import free_port

KNOWN_S = 20.0
OPTIONS = ("--engine", "restate", "--json", "--lease", "10", "--drain", "1")


class RestateContest(Contest):
    """Made by ``open_at``."""

    _services: dict[int, str]  # of each worker, by its process
    _client: httpx.AsyncClient

    @classmethod
    @asynccontextmanager
    async def open_at(
        cls, server: RestateServer, store: Store, address: str, folder: Path
    ) -> AsyncIterator[Self]:
        """``address`` is ``ADDRESS schema=NAME``."""
        services = [f"Run{uuid4().hex}" for _ in range(2)]
        place = server.place("")
        commands = [_command(server, service, address, folder) for service in services]
        async with (
            httpx.AsyncClient(base_url=place.ingress, trust_env=False) as client,
            cls.between(store, commands, folder) as engine,
        ):
            engine._client = client
            engine._services = dict(zip(engine.processes, services, strict=True))
            await _until_known(place.admin, services)
            yield engine

    @override
    async def _tell(self, worker: Process, run: str) -> None:
        path = f"/{self._services[worker.pid]}/{run}/drive/send"
        (await self._client.post(path)).raise_for_status()

    @override
    async def _leave(self) -> None:
        with anyio.fail_after(LEAVES_S):
            for worker in self._workers:
                worker.terminate()
            for worker in self._workers:
                assert await worker.wait() == 0


def _command(server: RestateServer, service: str, address: str, folder: Path) -> list[str]:
    dsn, _, schema = address.partition(" schema=")
    place, port = server.place(service), free_port()
    return [
        *(sys.executable, contested_worker.__file__, "worker", "scenarios.torture_world:clerk"),
        *("--store", f"{dsn}&schema={schema}", "--workdir", str(folder / "work"), *OPTIONS),
        *("--ingress", place.ingress, "--admin", place.admin, "--service", service),
        *("--port", str(port), "--uri", f"http://127.0.0.1:{port}"),
    ]


async def _until_known(admin: str, services: list[str]) -> None:
    """Until Restate knows both workers."""
    async with httpx.AsyncClient(base_url=admin, trust_env=False) as client:
        with anyio.fail_after(KNOWN_S):
            for service in services:
                while (await client.get(f"/services/{service}")).is_error:  # noqa: ASYNC110
                    await anyio.sleep(0.05)
