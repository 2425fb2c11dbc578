"""What may stand between a store and its server: poolers, as far as they matter to it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
from typing_extensions import override

from engines.link import all_have_left, let_nobody_else_in
from engines.ways import SOCKET, folder_of

READY, TERMINATE = b"Z", b"X"
IDLE: Final = b"I"
OTHER_PID: Final = struct.pack(">ii", 4242, 4242)
REFUSAL: Final = b"SFATAL\0C08P01\0Munsupported startup parameter: lock_timeout\0\0"


class Ignoring:
    """Takes no settings from whoever connects, and says nothing about it."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.guests: set[asyncio.StreamWriter] = set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.guests.add(writer)
        try:
            await self.serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # one of them has left
        finally:
            writer.close()
            self.guests.discard(writer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(self._server)
        to_server.write(without_settings(await greeting(reader)))
        async with anyio.create_task_group() as both_ways:
            both_ways.start_soon(_pump, reader, to_server)
            both_ways.start_soon(_pump, from_server, writer)


class Refusing(Ignoring):
    """Does not let in who brings settings that it does not know."""

    @override
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greeting(reader)
        writer.write(b"E" + struct.pack(">i", 4 + len(REFUSAL)) + REFUSAL)
        await writer.drain()


class Sharing(Ignoring):
    """One connection for all, which changes hands after each transaction. Takes settings."""

    def __init__(self, server: str) -> None:
        super().__init__(server)
        self._turn = anyio.Semaphore(1)
        self._holder: asyncio.StreamWriter | None = None
        self._welcome = b""
        self._to_server: asyncio.StreamWriter

    @override
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = await greeting(reader)
        async with anyio.create_task_group() as tasks:
            if not self._welcome:
                from_server, self._to_server = await asyncio.open_unix_connection(self._server)
                self._to_server.write(hello)
                while not self._welcome.endswith(READY + b"\0\0\0\5" + IDLE):
                    kind, body = await message(from_server)
                    self._welcome += framed(kind, OTHER_PID if kind == b"K" else body)
                tasks.start_soon(self._answer, from_server)
            writer.write(self._welcome)
            with suppress(asyncio.IncompleteReadError):
                await self._ask(reader, writer)
            tasks.cancel_scope.cancel()
        self._to_server.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            kind, body = await message(reader)
            if kind == TERMINATE:
                return
            if self._holder is not writer:
                await self._turn.acquire()
                self._holder = writer
            self._to_server.write(framed(kind, body))

    async def _answer(self, from_server: asyncio.StreamReader) -> None:
        while True:
            kind, body = await message(from_server)
            if self._holder is not None:
                self._holder.write(framed(kind, body))
            if (kind, body) == (READY, IDLE) and self._holder is not None:
                self._holder = None
                self._turn.release()


async def greeting(reader: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack(">i", head := await reader.readexactly(4))
    return head + await reader.readexactly(length - 4)


def without_settings(hello: bytes) -> bytes:
    words = hello[8:].rstrip(b"\0").split(b"\0")
    told = dict(zip(words[::2], words[1::2], strict=True))
    kept = b"".join(b"%s\0%s\0" % (name, told[name]) for name in (b"user", b"database"))
    return struct.pack(">i", 8 + len(kept) + 1) + hello[4:8] + kept + b"\0"


async def message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind = await reader.readexactly(1)
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return kind, await reader.readexactly(length - 4)


def framed(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">i", 4 + len(body)) + body


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


@asynccontextmanager
async def pooled(address: str, folder: Path, kind: type[Ignoring]) -> AsyncIterator[str]:
    """The address of a server behind a pooler."""
    pooler = kind(f"{folder_of(address)}/{SOCKET}")
    server = await asyncio.start_unix_server(pooler.accept, folder / SOCKET)
    try:
        yield f"postgresql://postgres:@/postgres?host={folder}"
    finally:
        await let_nobody_else_in(server)
        server.close()
        for guest in tuple(pooler.guests):
            guest.close()
        await all_have_left(pooler.guests)
