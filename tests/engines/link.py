"""A link between two programs that can be delayed, reset, or swallow everything, either way.

It stands at one address and passes each connection on to one of several, in turn: so it is also the
one stable address of all workers with the same code. Whoever does not answer is passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.lowlevel

from ports import free_port

THERE: Final = "there"  # from whoever has connected
BACK: Final = "back"
TURNS: Final = 20  # more than any of it takes: a time would be over after two on a busy machine
LEAVE_S: Final = 20.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Streams]]


@dataclass(eq=False)
class Link:
    """Made by ``linked``. What is told to it holds for connections that are open, too."""

    ends: list[Connect] = field(default_factory=list)
    delay_s: float = 0.0
    port: int = 0
    _swallows: set[str] = field(default_factory=set)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _turn: int = 0

    def swallow(self, *ways: str) -> None:
        """From now on nothing gets through these ways, and nobody is told."""
        self._swallows = set(ways)

    def reset(self) -> None:
        """Break every connection at once."""
        for writer in self._open:
            with suppress(OSError, RuntimeError):
                writer.transport.abort()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection on."""
        self._open.add(writer)  # first: it can be reset also while the other half is being made
        try:
            end = await self._connected()
            if end is None:
                writer.transport.abort()
                return
            self._open.add(end[1])
            try:
                async with anyio.create_task_group() as both:
                    both.start_soon(self._pass, THERE, reader, end[1], both)
                    both.start_soon(self._pass, BACK, end[0], writer, both)
            finally:
                self._open.discard(end[1])
                end[1].close()
        finally:
            self._open.discard(writer)
            writer.close()

    async def _connected(self) -> Streams | None:
        for _ in range(len(self.ends)):
            self._turn += 1
            connect = self.ends[self._turn % len(self.ends)]
            with suppress(OSError):
                return await connect()
        return None

    async def _pass(
        self,
        way: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        both: anyio.abc.TaskGroup,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if self.delay_s:
                    await anyio.sleep(self.delay_s)
                if way not in self._swallows:
                    writer.write(data)
                    await writer.drain()
        both.cancel_scope.cancel()


def to_port(port: int) -> Connect:
    """To a program on this host."""
    return lambda: asyncio.open_connection("127.0.0.1", port)


def to_socket(path: str) -> Connect:
    """To a program with a Unix socket."""
    return lambda: asyncio.open_unix_connection(path)


@asynccontextmanager
async def linked(*ends: Connect, path: str = "") -> AsyncIterator[Link]:
    """Stand between whoever connects to it and these, while the block runs."""
    link = Link(list(ends))
    if path:
        server: asyncio.Server = await asyncio.start_unix_server(link.accept, path)
    else:
        link.port = free_port()  # a new one: Restate remembers who was at an address
        server = await asyncio.start_server(link.accept, "127.0.0.1", link.port)
    try:
        yield link
    finally:
        await let_nobody_else_in(server)
        server.close()
        link.reset()
        await all_have_left(link._open)


async def let_nobody_else_in(server: asyncio.Server) -> None:
    """First: a server that closes just when it takes somebody in leaves that socket open."""
    for one in server.sockets:
        asyncio.get_running_loop().remove_reader(one.fileno())
    await _some_turns()


async def all_have_left(guests: Collection[asyncio.StreamWriter]) -> None:
    """Once they are cut off: whoever passes something on for them sees it, and closes its half."""
    with anyio.fail_after(LEAVE_S):
        while guests:  # noqa: ASYNC110 - nobody is told of it
            await anyio.sleep(0.001)
    await _some_turns()


async def _some_turns() -> None:
    """Of the loop, in each of which a connection that is made or closed gets one step further."""
    for _ in range(TURNS):
        await anyio.lowlevel.checkpoint()
