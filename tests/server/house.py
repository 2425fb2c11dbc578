"""A real server on loopback, for as long as a block runs."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import uvicorn
from fastapi import FastAPI

from midflight.agents import Agent
from midflight.control import Control
from midflight.interfaces.app import create_app
from midflight.interfaces.http.access.access import Access
from midflight.interfaces.http.access.keyring import Keyring
from midflight.interfaces.http.access.quotas import Quotas
from midflight.interfaces.http.event_streams import Pace
from midflight.journal.phases import Role

PATIENT = Quotas(requests_per_s=100_000, burst=100_000, streams=2_000)


class House:
    """A server, and clients that have come in under different roles."""

    def __init__(self, app: FastAPI, port: int) -> None:
        self.app = app
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.keyring: Keyring = app.state.access.keyring
        self.tokens = {role: self.keyring.issue(f"the-{role}", role) for role in Role}

    def client(self, role: Role | None = Role.CONTROLLER, **more: Any) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self.tokens[role]}"} if role else {}
        headers |= more.pop("headers", {})
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=20, **more)


@asynccontextmanager
async def serving(
    app: Any, *, sndbuf: int = 0, server: uvicorn.Server | None = None
) -> AsyncIterator[int]:
    """Serve an ASGI app on a free port. ``sndbuf`` makes slow readers felt early."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sndbuf:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sndbuf)
    config = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
        backlog=2048,
    )
    server = server or uvicorn.Server(config)
    with listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server._serve, [listener])
            with anyio.fail_after(10):
                while not server.started:  # noqa: ASYNC110 - it has no event for that
                    await anyio.sleep(0.005)
            try:
                yield listener.getsockname()[1]
            finally:
                server.should_exit = True
                if isinstance(app, FastAPI) and hasattr(app.state, "streams"):
                    app.state.streams.close()


@asynccontextmanager
async def opened(
    control: Control,
    agents: Iterable[Agent] = (),
    *,
    quotas: Quotas = PATIENT,
    pace: Pace | None = None,
    access: Access | None = None,
    sndbuf: int = 0,
) -> AsyncIterator[House]:
    """Open the server's doors over ``control``."""
    keyring = Keyring()
    app = create_app(
        control, agents=agents, access=access or Access(keyring), quotas=quotas, pace=pace
    )
    async with serving(app, sndbuf=sndbuf) as port:
        yield House(app, port)
