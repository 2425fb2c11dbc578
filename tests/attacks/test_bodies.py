"""Bodies and heads of strangers: small, plain, and answered quickly."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import httpx
import pytest

from midflight.control import Control
from midflight.interfaces.app import create_app
from midflight.interfaces.cli.commands import serve_command
from midflight.interfaces.http.access.access import PUBLIC
from midflight.stores.memory import MemoryStore
from server.house import serving

pytestmark = pytest.mark.anyio

KB = 1024
ROUTES = [
    *(("POST", path) for path in sorted(PUBLIC)),
    *(("GET", path) for path in sorted(PUBLIC)),
    ("POST", "/"),
    ("GET", "/runs/r-1"),
    ("POST", "/v1/runs"),
    ("POST", "/v1/operator/kill"),
    ("POST", "/v1/leave"),
    ("POST", "/v1/agents/nobody/agui"),
    ("POST", "/nowhere"),
]
PLAIN = {"content-type": "application/json", "x-midflight": "1"}


async def pieces(size: int) -> AsyncIterator[bytes]:
    """A body that is sent in chunks, so that its length is not announced."""
    for _ in range(size // KB):
        yield b" " * KB


@pytest.fixture
async def stranger() -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Control(MemoryStore()))
    async with (
        serving(app, server=serve_command._server(app)) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=5) as client,
    ):
        yield client


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
async def test_a_large_body_is_refused_on_every_route(
    stranger: httpx.AsyncClient, method: str, path: str, chunked: bool
) -> None:
    body = pieces(60 * KB) if chunked else b" " * 60 * KB
    answer = await stranger.request(method, path, content=body, headers=PLAIN)
    open_to_all = path in PUBLIC or path in {"/", "/runs/r-1"}
    reads_no_body = chunked and open_to_all and (method, path) != ("POST", "/v1/session")
    known = {413} if open_to_all and path != "/" else {401, 405, 413}
    assert answer.status_code in (known | {200, 405} if reads_no_body else known), answer.text


async def test_a_body_of_several_megabytes_is_not_read_to_its_end(
    stranger: httpx.AsyncClient,
) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1_000):
            sent += 64 * KB
            yield b" " * 64 * KB
            await anyio.lowlevel.checkpoint()

    try:
        answer = await stranger.post("/v1/session", content=endless(), headers=PLAIN)
        assert answer.status_code == 413
    except httpx.TransportError:
        pass  # it was hung up while it sent
    assert sent < 16 * KB * KB


@pytest.mark.parametrize("path", ["/v1/session", "/v1/runs"])
async def test_a_packed_body_is_never_unpacked(stranger: httpx.AsyncClient, path: str) -> None:
    bomb = gzip.compress(json.dumps({"code": "x" * 1_000_000}).encode())
    assert len(bomb) < 4 * KB
    packed = {**PLAIN, "content-encoding": "gzip"}
    answer = await stranger.post(path, content=bomb, headers=packed)
    told = (answer.status_code, answer.json()["error"])
    assert told == ((415, "packed") if path == "/v1/session" else (401, "not_known"))


@pytest.mark.parametrize(
    "head",
    [
        b"".join(b"X-%d: y\r\n" % number for number in range(20_000)),
        b"X: " + b"y" * 200_000 + b"\r\n",
        b"Cookie: " + b"a=b; " * 40_000 + b"\r\n",
    ],
    ids=["many headers", "a long header", "many cookies"],
)
async def test_a_large_head_is_refused(stranger: httpx.AsyncClient, head: bytes) -> None:
    async with await anyio.connect_tcp("127.0.0.1", stranger.base_url.port or 0) as stream:
        answered = b""
        with anyio.fail_after(5):
            try:
                await stream.send(b"GET /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head + b"\r\n")
                answered = await stream.receive()
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                pass
    assert not answered or answered.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))
    assert (await stranger.get("/healthz")).status_code == 200
