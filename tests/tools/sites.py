"""Little servers on loopback, and names for them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engines.link import let_nobody_else_in


class Request:
    """What a server has got."""

    def __init__(self, head: str, body: bytes) -> None:
        first, *lines = head.split("\r\n")
        self.method, self.target, _ = first.split(" ")
        self.headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        self.body = body


Reply = bytes | Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


class Site:
    """A server that gives one reply for each path, and knows what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.replies: dict[str, Reply] = {}
        self.connections = 0
        self.port = 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip()
            request = Request(head, b"")
            request.body = await reader.readexactly(int(request.headers.get("content-length", 0)))
            self.asked.append(request)
            reply = self.replies.get(request.target, answer(404, "nothing here"))
            if isinstance(reply, bytes):
                writer.write(reply)
                await writer.drain()
            else:
                await reply(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()


def answer(status: int, body: str | bytes, **headers: str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    given = {"Content-Type": "text/plain", "Content-Length": str(len(data)), "Connection": "close"}
    given |= {key.replace("_", "-"): value for key, value in headers.items()}
    lines = "".join(f"{key}: {value}\r\n" for key, value in given.items())
    return f"HTTP/1.1 {status} Status\r\n{lines}\r\n".encode() + data


@asynccontextmanager
async def site(host: str = "127.0.0.1", port: int = 0, **options: Any) -> AsyncIterator[Site]:
    """Serve on loopback for as long as the block runs."""
    served = Site()
    server = await asyncio.start_server(served.serve, host, port, **options)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        await let_nobody_else_in(server)
        server.close()


class Names:
    """What the system's resolver says, and how often it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._resolve)

    def say(self, name: str, *answers: list[str]) -> None:
        """The addresses at each time it is asked; the last ones for ever."""
        self.answers[name] = list(answers)

    def _resolve(self, host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in self.answers:
            return self._real(host, port, *args, **kwargs)
        self.asked.append(name)
        answers = self.answers[name]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        kinds = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in addresses]
        return [
            (kind, socket.SOCK_STREAM, 6, "", (address, int(port)))
            for kind, address in zip(kinds, addresses, strict=True)
        ]
