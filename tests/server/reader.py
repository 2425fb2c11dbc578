"""Reads event streams as a browser does, over bare sockets: a thousand of them fit in a test."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream


class Reader:
    """One client: remembers the last id, and puts text together by the one rule."""

    prefix = ""  # where the app is mounted

    def __init__(self, port: int, token: str, watch: Iterable[str]) -> None:
        self.port, self.token, self.watch = port, token, list(watch)
        self.last_id = ""
        self.query: list[tuple[str, str]] = []
        self.positions: dict[str, list[int]] = defaultdict(list)
        self.texts: dict[str, str] = defaultdict(str)
        self.names: list[str] = []
        self.deltas = 0
        self.gaps = 0
        self.comments = 0

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[SocketStream]:
        """A socket with the request sent."""
        query = urlencode([*(("watch", journal) for journal in self.watch), *self.query])
        lines = [
            f"GET {self.prefix}/v1/events?{query} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            f"Authorization: Bearer {self.token}",
            *([f"Last-Event-ID: {self.last_id}"] if self.last_id else []),
        ]
        async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
            await stream.send("\r\n".join([*lines, "", ""]).encode())
            yield stream

    async def read(self, until: str = "run.finished") -> bool:
        """Read until an event of that name, or the end of the stream; whether it came."""
        async with self.connected() as stream:
            status, frames = await _answer(stream)
            assert status == 200, status
            async for frame in frames:
                if self.take(frame) == until:
                    return True
        return False

    def take(self, frame: str) -> str:
        """One frame; gives the name of the journal's event if it is one."""
        fields = dict(line.partition(": ")[::2] for line in frame.split("\n"))
        if "data" not in fields:
            self.comments += "alive" in frame
            return ""
        data = json.loads(fields["data"])
        if fields["event"] == "delta":
            self.deltas += 1
            self._text(data["step"], data["offset"], data["text"])
            return ""
        self.last_id = fields["id"]
        self.positions[data["journal"]].append(data["position"])
        event = data["event"]
        self.names.append(event["event"])
        if event["event"] == "text.streamed":
            self._text(event["step"], event.get("offset", 0), event["text"])
        return str(event["event"])

    def _text(self, step: str, offset: int, text: str) -> None:
        before = self.texts[step]
        self.gaps += offset > len(before)
        self.texts[step] = before[:offset] + text

    @property
    def complete(self) -> bool:
        """Every position once and in order, no text missing."""
        whole = all(seen == list(range(1, len(seen) + 1)) for seen in self.positions.values())
        return whole and not self.gaps


async def _answer(stream: SocketStream) -> tuple[int, AsyncIterator[str]]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, rest = data.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), _frames(stream, rest)


async def _frames(stream: SocketStream, data: bytes) -> AsyncIterator[str]:
    """Frames out of a chunked body. A carriage return inside one would be a fault."""
    body = b""
    while True:
        while True:
            line, found, rest = data.partition(b"\r\n")
            if not found or len(rest) < (size := int(line, 16)) + 2:
                break
            if size == 0:
                return
            body, data = body + rest[:size], rest[size + 2 :]
        assert b"\r" not in body
        *whole, body = body.split(b"\n\n")
        for frame in whole:
            yield frame.decode()
        try:
            data += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return


async def status_of(port: int, lines: Iterable[str], body: bytes = b"") -> tuple[int, Any]:
    """Send a request byte for byte; its status and what the JSON says."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        buffered = BufferedByteReceiveStream(stream)
        head = (await buffered.receive_until(b"\r\n\r\n", 65536)).decode("latin-1")
        length = next(
            (
                int(line.partition(":")[2])
                for line in head.split("\r\n")
                if line.lower().startswith("content-length:")
            ),
            0,
        )
        text = await buffered.receive_exactly(length) if length else b""
        try:
            return int(head.split(" ", 2)[1]), json.loads(text)
        except ValueError:
            return int(head.split(" ", 2)[1]), text.decode()
