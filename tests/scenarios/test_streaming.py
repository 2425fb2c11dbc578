"""A pause in the middle of a streaming HTTP call: the far side sees its end; it is made again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import anyio
import pytest

from midflight.agents import agent
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.tools.declaration import tool
from scenarios.conftest import Open

pytestmark = pytest.mark.anyio


class Streamer:
    """An HTTP server that streams words: the first time for ever, after that to an end."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.streaming, self.hung_up = anyio.Event(), anyio.Event()
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        path = request.split()[1].decode()
        self.requests.append(path)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")
        endless = path == "/long" and self.requests.count(path) == 1
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._stream, writer, endless)
            if endless:
                with contextlib.suppress(ConnectionResetError):  # words were still on their way
                    assert await reader.read() == b""
                self.hung_up.set()
                tasks.cancel_scope.cancel()
        writer.close()

    async def _stream(self, writer: asyncio.StreamWriter, endless: bool) -> None:
        words = 0
        while endless or words < 3:
            words += 1
            writer.write(b"word ")
            with contextlib.suppress(ConnectionResetError):
                await writer.drain()
            if endless and words > 2:
                self.streaming.set()
            await asyncio.sleep(0.005)


@pytest.fixture
async def streamer() -> AsyncIterator[Streamer]:
    streamer = Streamer()
    server = await asyncio.start_server(streamer.answer, "127.0.0.1", 0)
    streamer.port = server.sockets[0].getsockname()[1]
    async with server:
        yield streamer


@tool(effect="read", name="streaming.fetch")
async def fetch(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        text = b""
        while chunk := await reader.read(64):
            text += chunk
        return text.decode()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_the_server_sees_the_call_end_and_resume_makes_only_that_call_again(
    driving: Open, streamer: Streamer
) -> None:
    @agent()
    async def reader(run: Run) -> list[str]:
        return [
            await run.step("Fetch", fetch, streamer.port, path)
            for path in ("/short", "/long", "/last")
        ]

    async with driving(reader) as control:
        run = await control.start(reader, "read")
        with anyio.fail_after(10):
            await streamer.streaming.wait()
            paused = await control.pause(run)
            await streamer.hung_up.wait()
            await control.applied(paused)
        assert (await control.state(run)).phase is Phase.PAUSED
        assert streamer.requests == ["/short", "/long"]

        await control.resume(run)
        with anyio.fail_after(10):
            assert await control.result(run) == ["word word word "] * 3
        assert streamer.requests == ["/short", "/long", "/long", "/last"]
