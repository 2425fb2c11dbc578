"""A stand-in for model providers: a real HTTP server on loopback that streams as they do.

::

    async with StandIn() as standin:
        standin.script(calls(("read_file", {"path": "a.txt"})), says("It says hello."))
        model = standin.anthropic()  # or standin.openai()
        ...
        standin.requests[0].body["messages"]

Requests that the provider would refuse are refused, in its own shape. A client that closes its
connection is noticed: ``await standin.requests[0].closed()``.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from typing import Any, Self

import anyio

from engines.link import let_nobody_else_in
from midflight.models.anthropic import AnthropicModel
from midflight.models.openai import OpenAIModel
from models.standin_rules import anthropic_complaint, openai_complaint
from models.standin_wire import (
    Answer,
    WireCall,
    anthropic_error,
    anthropic_events,
    openai_error,
    openai_events,
    sse,
)

KEY = "sk-standin-7f3a9c"
WAIT_S = 10.0  # for anything that has to happen
KINDS = {
    401: "authentication_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def says(*text: str, **more: Any) -> Answer:
    """A text, in these pieces."""
    return Answer(text=text, **more)


def calls(*wanted: tuple[str, Any], text: str = "", prefix: str = "call", **more: Any) -> Answer:
    """Tool calls: name and arguments, which may be a text that is no JSON."""
    made = tuple(
        WireCall(f"{prefix}_{number}", name, (a if isinstance(a, str) else json.dumps(a),))
        for number, (name, a) in enumerate(wanted)
    )
    return Answer(text=(text,) if text else (), calls=made, **more)


def fails(status: int, *, retry_after: str = "", **more: Any) -> Answer:
    """An error in place of an answer."""
    headers = (("retry-after", retry_after),) if retry_after else ()
    kind = KINDS.get(status, "invalid_request_error")
    return Answer(status=status, error=more.pop("error", kind), headers=headers, **more)


class Request:
    """What a client has asked, and when it has gone."""

    def __init__(self, path: str, headers: dict[str, str], body: Any) -> None:
        self.path, self.headers, self.body = path, headers, body
        self.complaint = ""  # why it was refused
        self.finished = False  # all of the answer was sent
        self.closed_at: float | None = None  # by the loop's clock, if before the answer's end
        self._gone = anyio.Event()

    async def left(self) -> None:
        """Wait until the connection is closed, early or not."""
        with anyio.fail_after(WAIT_S):
            await self._gone.wait()

    async def closed(self) -> float:
        """Wait until the client has closed its connection before the end; when that was."""
        await self.left()
        assert self.closed_at is not None, "the client stayed until the end"
        return self.closed_at

    def gone(self, at: float) -> None:
        self.closed_at = None if self.finished else at
        self._gone.set()


class StandIn:
    """The server. Answers come from a script, in order, or from a function of the request."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.key = KEY
        self._script: deque[Answer] = deque()
        self._choose: Callable[[Request], Answer] = lambda _: self._script.popleft()
        self._server: asyncio.Server | None = None
        self._serving: dict[asyncio.Task[Any], anyio.CancelScope] = {}
        self._asked = anyio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await let_nobody_else_in(self._server)
        self._server.close()
        for scope in self._serving.values():
            scope.cancel()
        if self._serving:
            await asyncio.wait(self._serving, timeout=WAIT_S)

    @property
    def url(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    def anthropic(self, model: str = "claude-standin", **more: Any) -> AnthropicModel:
        return AnthropicModel(model, **{"key": self.key, "base_url": self.url, **more})

    def openai(self, model: str = "gpt-standin", **more: Any) -> OpenAIModel:
        return OpenAIModel(model, **{"key": self.key, "base_url": f"{self.url}/v1", **more})

    def script(self, *answers: Answer) -> None:
        self._script.extend(answers)

    def answer_by(self, choose: Callable[[Request], Answer]) -> None:
        """For tests in which several ask at once."""
        self._choose = choose

    async def asked(self, times: int = 1) -> Request:
        """Wait until so many requests have come; the last of them."""
        with anyio.fail_after(WAIT_S):
            while len(self.requests) < times:
                self._asked = anyio.Event()
                await self._asked.wait()
        return self.requests[times - 1]

    # ── one connection ───────────────────────────────────────────────────────────────────────

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            with anyio.CancelScope() as self._serving[task]:
                request = await _read(reader)
                self.requests.append(request)
                self._asked.set()
                async with _watched(reader, request):
                    with suppress(ConnectionError):  # it has gone, which the watch notes
                        await self._answer(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone, which is on record
        finally:
            writer.close()
            del self._serving[task]

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        claude = request.path.endswith("/messages")
        shape = anthropic_error if claude else openai_error
        complain = anthropic_complaint if claude else openai_complaint
        if request.headers.get("authorization", "").removeprefix("Bearer ") != self.key:
            said = f"Incorrect API key provided: {request.headers.get('authorization')}"
            return await _refuse(writer, 401, shape("authentication_error", said))
        request.complaint = complain(request.body)
        if request.complaint:
            return await _refuse(writer, 400, shape("invalid_request_error", request.complaint))
        answer = self._choose(request)
        await anyio.sleep(answer.headers_after_s)
        if answer.status != 200:
            body = shape(answer.error, answer.message, answer.code)
            return await _refuse(writer, answer.status, body, answer.headers)
        events = (anthropic_events if claude else openai_events)(answer, request.body["model"])
        error = sse(shape(answer.error or "overloaded_error", answer.message), "error")
        return await _stream(writer, request, answer, [*events][: answer.events], error)


async def _read(reader: asyncio.StreamReader) -> Request:
    with anyio.fail_after(WAIT_S):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(head[0].split(" ")[1], headers, json.loads(body))


@asynccontextmanager
async def _watched(reader: asyncio.StreamReader, request: Request) -> AsyncIterator[None]:
    """Notice when the client goes away, and then stop answering it."""

    async def watch() -> None:
        with suppress(ConnectionError):
            await reader.read(1)
        request.gone(asyncio.get_running_loop().time())
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        yield
        await request.left()


async def _refuse(
    writer: asyncio.StreamWriter,
    status: int,
    body: Any,
    headers: Iterable[tuple[str, str]] = (),
) -> None:
    data = json.dumps(body).encode()
    more = [("content-type", "application/json"), ("content-length", str(len(data))), *headers]
    writer.write(_head(status, more) + data)
    await writer.drain()
    writer.close()


def _head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status} As-Scripted", "connection: close"]
    return "\r\n".join([*lines, *(f"{n}: {v}" for n, v in headers), "", ""]).encode()


async def _stream(
    writer: asyncio.StreamWriter,
    request: Request,
    answer: Answer,
    events: list[bytes],
    error: bytes,
) -> None:
    chunked = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]
    writer.write(_head(200, [*chunked, *answer.headers]))
    await writer.drain()
    await anyio.sleep(answer.first_after_s)
    if answer.ending == "garble":
        events = [*events, sse('{"type": "content_block_delta", "ind', "content_block_delta")]
    if answer.ending == "error":
        events = [*events, error]
    pieces = [*_cut(events, answer.cuts)]
    for number, data in enumerate(pieces, 1):
        request.finished = number == len(pieces) and not answer.ending
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
        if answer.between_s:
            await anyio.sleep(answer.between_s)
    if answer.ending == "hang":
        await anyio.sleep(WAIT_S)
    if answer.ending == "drop":
        linger = struct.pack("ii", 1, 0)  # no farewell: the client sees a reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        return
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    writer.close()


def _cut(events: list[bytes], sizes: tuple[int, ...]) -> Iterator[bytes]:
    if not sizes:
        yield from events
        return
    data, at = b"".join(events), 0
    for size in cycle(sizes):
        if at >= len(data):
            return
        yield data[at : at + size]
        at += size
