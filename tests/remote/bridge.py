"""A network that fails: a bridge between client and server that cuts, swallows and refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
from anyio.abc import ByteStream, SocketStream, TaskGroup


class Bridge:
    """Forwards bytes. ``cut_after`` bytes of an answer it hangs up; ``mute`` swallows answers."""

    def __init__(self, port: int) -> None:
        self.to = port
        self.port = 0
        self.cut_after: int | None = None
        self.mute = 0  # answers that are swallowed, the connection cut
        self.crossings = 0
        self.requests: list[bytes] = []
        self.open: set[SocketStream] = set()

    async def serve(self, client: SocketStream) -> None:
        self.crossings += 1
        self.open.add(client)
        try:
            async with (
                client,
                await anyio.connect_tcp("127.0.0.1", self.to) as server,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(self._there, client, server, tasks)
                await self._back(server, client)
                tasks.cancel_scope.cancel()
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, ExceptionGroup):
            pass
        finally:
            self.open.discard(client)

    async def _there(self, client: ByteStream, server: ByteStream, tasks: TaskGroup) -> None:
        try:
            async for data in client:
                self.requests.append(data)
                await server.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        tasks.cancel_scope.cancel()

    async def _back(self, server: ByteStream, client: ByteStream) -> None:
        sent = 0
        async for data in server:
            if self.mute:
                self.mute -= 1
                return
            if self.cut_after is not None:
                data = data[: self.cut_after - sent]
            await client.send(data)
            sent += len(data)
            if self.cut_after is not None and sent >= self.cut_after:
                return

    async def cut(self) -> None:
        """Hang up on everybody."""
        for client in tuple(self.open):
            await client.aclose()


@asynccontextmanager
async def bridged(port: int) -> AsyncIterator[Bridge]:
    """A bridge to a server, for as long as the block runs."""
    bridge = Bridge(port)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    bridge.port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(listener.serve, bridge.serve))
        yield bridge
        tasks.cancel_scope.cancel()
