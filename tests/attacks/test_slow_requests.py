"""Somebody without a login holds connections and sends slowly: the others are served all the same.

The server is a process of its own that may have 1,024 files open, as most systems have it, or
fewer.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import psutil
import pytest
import uvicorn

from cli.scene import MIDFLIGHT, Scene
from forks import Forked
from midflight.control import Control
from midflight.interfaces.app import create_app
from midflight.interfaces.cli.commands import serve_command
from midflight.interfaces.cli.console import Repeats
from midflight.interfaces.http.access import connections
from midflight.interfaces.http.access.connections import PIECE_MAX, READ_MAX, Room, guarded
from midflight.interfaces.http.access.keyring import Keyring
from midflight.interfaces.http.access.quotas import Quotas
from midflight.interfaces.http.page import WEB
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from midflight.stores.memory import MemoryStore
from ports import free_port
from server.house import serving

MB = 1_000_000


class Besieged:
    """``midflight serve``, and an operator's key to it."""

    def __init__(self, folder: Path, files: int = 1_024) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        token = Keyring(folder / ".midflight" / "keys.json").issue("olga", Role.OPERATOR)
        self.headers = {"authorization": f"Bearer {token}"}
        command = [*MIDFLIGHT, "serve", "cli.clerk:clerk", "--port", str(self.port)]
        with (folder / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command],
                cwd=folder,
                env=Scene(folder).env,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        assert re.search("#code=", self.process.stdout.readline()), self.log()
        httpx.get(f"{self.url}/healthz").raise_for_status()
        # made before the siege: this takes the tests' own time; each kill has a new connection
        self.http = httpx.Client(timeout=5, limits=httpx.Limits(max_keepalive_connections=0))

    def log(self) -> str:
        return (self.folder / "serve.log").read_text(encoding="utf-8")

    def memory(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def kill(self) -> float:
        """Press the operator's switch over HTTP; how many seconds it took."""
        began = time.monotonic()
        answer = self.http.post(
            f"{self.url}/v1/operator/kill",
            json={"scope": "all", "reason": "now"},
            headers=self.headers,
        )
        answer.raise_for_status()
        return time.monotonic() - began

    def connect(self, *, sent: bytes, room: int = 0) -> socket.socket:
        """Connect and send; ``room`` is how much may lie unread where it comes in."""
        connection = socket.socket()
        if room:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        connection.settimeout(10)
        connection.connect(("127.0.0.1", self.port))
        connection.sendall(sent)
        return connection


@pytest.fixture
def besieged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Besieged]:
    server = Besieged(tmp_path, getattr(request, "param", 1_024))
    try:
        yield server
    finally:
        server.http.close()
        server.process.terminate()
        try:
            server.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait(timeout=10)
        assert server.process.stdout is not None
        server.process.stdout.close()


@contextmanager
def holding(
    besieged: Besieged, number: int, sent: bytes, *, room: int = 0
) -> Iterator[list[socket.socket]]:
    """Connections that have sent something and not all of it, or that read nothing."""
    with ExitStack() as all_of_them:
        held = []
        for _ in range(number):
            try:
                held.append(all_of_them.enter_context(besieged.connect(sent=sent, room=room)))
            except OSError:
                continue  # it was dropped while we sent
        yield held


@pytest.mark.slow
def test_a_kill_is_acknowledged_within_a_second_under_1500_half_open_connections(
    besieged: Besieged,
) -> None:
    before = besieged.memory()
    head = b"POST /v1/operator/kill HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 8_000
    with holding(besieged, 1_500, head):
        took = [besieged.kill() for _ in range(20)]
        assert httpx.get(f"{besieged.url}/healthz", timeout=2).status_code == 200
        grown = besieged.memory() - before

    assert max(took) < 1.0, took
    assert grown < 50 * MB, f"{grown / MB:.0f} MB"
    assert len(besieged.log()) < 100_000


@pytest.mark.slow
def test_slow_bodies_to_the_session_route_take_no_memory(besieged: Besieged) -> None:
    before = besieged.memory()
    head = (
        b"POST /v1/session HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
        b"X-Midflight: 1\r\n" % besieged.port
    )
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % MB + b" " * (MB - 1)
    announced = head + b"Content-Length: %d\r\n\r\n" % MB + b" " * (MB - 1)
    with holding(besieged, 150, chunked), holding(besieged, 150, announced):
        _, median, slowest = sorted(besieged.kill() for _ in range(3))
        grown = besieged.memory() - before

    assert median < 1.0
    assert slowest < 5.0, "the first one also waits for the 300 MB that this test sends"
    assert grown < 50 * MB, f"{grown / MB:.0f} MB"
    assert len(besieged.log()) < 300_000


LARGEST = max((WEB / "assets").iterdir(), key=lambda path: path.stat().st_size).name
GET = f"GET /assets/{LARGEST} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode()
UNREAD = {
    "one answer": GET + b"\r\n",
    "one answer and an end": GET + b"Connection: close\r\n\r\n",
    "two answers": (GET + b"\r\n") * 2,
    "many answers": (GET + b"\r\n") * 50,
}


@pytest.mark.slow
@pytest.mark.parametrize("besieged", [256], indirect=True, ids=["256 files"])
@pytest.mark.parametrize("sent", UNREAD.values(), ids=UNREAD)
def test_a_kill_is_acknowledged_within_a_second_while_many_read_nothing(
    besieged: Besieged, sent: bytes
) -> None:
    httpx.get(f"{besieged.url}/assets/{LARGEST}").raise_for_status()  # what is read once for all
    before = besieged.memory()
    with holding(besieged, 330, sent, room=2_048):
        httpx.get(f"{besieged.url}/healthz", timeout=15)  # when all of them were answered
        took = [besieged.kill() for _ in range(5)]
        grown, files = besieged.memory() - before, psutil.Process(besieged.process.pid).num_fds()

    assert max(took) < 1.0, took
    assert grown < 50 * MB, f"{grown / MB:.0f} MB"
    assert files < 200


POST = (
    b"POST /v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"X-Midflight: 1\r\n"
)
SLOW = {
    "nothing": b"",
    "half a head": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1",
    "half a body": POST + b"Content-Length: 99\r\n\r\n{",
    "half a body after an answer": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    + POST
    + b"Content-Length: 99\r\n\r\n{",
    "half a body that is refused": POST + b"Content-Length: 5000\r\n\r\n{",
}


@pytest.mark.anyio
@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW)
async def test_a_request_that_does_not_come_in_time_is_ended(sent: bytes) -> None:
    control = Control(MemoryStore())
    app = create_app(control)
    protocol = guarded(Room(), head_s=0.2, body_s=0.4)
    server = uvicorn.Server(
        uvicorn.Config(app, http=protocol, log_level="critical", lifespan="off")
    )
    async with serving(app, server=server) as port:
        stream = await anyio.connect_tcp("127.0.0.1", port)
        async with stream:
            await stream.send(sent)
            with anyio.fail_after(5), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                while True:
                    await stream.receive()


@pytest.mark.anyio
async def test_whole_requests_that_come_all_at_once_are_all_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "make_room", lambda: Room(16, 8))
    app = create_app(Control(MemoryStore()))
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    async with serving(app, server=serve_command._server(app)) as port:
        streams = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        for stream in streams:
            stream.sendall(asked)
        answers = [await anyio.to_thread.run_sync(stream.recv, 12) for stream in streams]
        for stream in streams:
            stream.close()
    assert answers == [b"HTTP/1.1 200"] * len(streams)


@pytest.mark.parametrize(
    "anyio_backend",
    [("asyncio", {"use_uvloop": uvloop}) for uvloop in (False, True)],
    ids=["asyncio", "uvloop"],
)
async def test_little_is_read_at_once_of_what_a_stranger_sends(anyio_backend: object) -> None:
    read: list[int] = []

    class Noting(guarded(Room())):  # type: ignore[misc]
        """Notes how much comes at once."""

        def data_received(self, data: bytes) -> None:
            read.append(len(data))
            super().data_received(data)

    app = create_app(Control(MemoryStore()))
    server = uvicorn.Server(uvicorn.Config(app, http=Noting, log_level="critical", lifespan="off"))
    async with serving(app, server=server) as port:
        stream = await anyio.connect_tcp("127.0.0.1", port)
        async with stream:
            await stream.send(
                b"POST /v1/session HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n"
            )
            with suppress(anyio.BrokenResourceError), anyio.move_on_after(1):
                await stream.send(b"x" * 4_000_000)

    assert sum(read) > READ_MAX, "more came than is read at once"
    assert max(read) <= 4 * READ_MAX


@pytest.mark.anyio
async def test_whole_heads_without_their_bodies_count_as_connections_that_are_only_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "make_room", lambda: Room(16, 8))
    app = create_app(Control(MemoryStore()))
    server = serve_command._server(app)
    pending = server.config.http.pending  # type: ignore[union-attr]
    async with serving(app, server=server) as port:
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        for stream in held:
            stream.sendall(POST + b"Content-Length: 99\r\n\r\n")
        with anyio.fail_after(10):
            while pending.dropped < 92:  # noqa: ASYNC110 - it has no event for that
                await anyio.sleep(0.02)
        assert len(server.server_state.connections) <= 8
        for stream in held:
            stream.close()


@pytest.mark.anyio
async def test_a_request_that_is_being_answered_is_never_dropped_for_others() -> None:
    control = Control(MemoryStore())
    app = create_app(control)
    app.state.access.public = {"/slow"}

    async def slow() -> str:
        await anyio.sleep(1)
        return "done"

    app.add_api_route("/slow", slow)
    server = uvicorn.Server(
        uvicorn.Config(app, http=guarded(Room(4, 2)), log_level="critical", lifespan="off")
    )
    answers: list[int] = []

    async with serving(app, server=server) as port, httpx.AsyncClient() as client:

        async def ask() -> None:
            answers.append((await client.get(f"http://127.0.0.1:{port}/slow")).status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask)
                await anyio.sleep(0.02)
            for _ in range(20):
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
    assert answers == [200] * 10


@pytest.mark.anyio
@pytest.mark.parametrize("known", [False, True], ids=["a stranger", "somebody known"])
async def test_an_answer_that_is_not_taken_in_time_is_ended_for_strangers_alone(
    known: bool,
) -> None:
    async def app(scope: Any, _receive: Any, send: Any) -> None:
        scope["state"]["who"] = Actor("olga") if known else None
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * MB})

    protocol = guarded(Room(), take_s=0.3)
    config = uvicorn.Config(app, http=protocol, log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    async with serving(app, sndbuf=4_096, server=server) as port:
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            reader.connect(("127.0.0.1", port))
            reader.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            with anyio.move_on_after(1.5 if known else 10):
                await anyio.sleep(0.2)
                while server.server_state.connections:
                    (one,) = server.server_state.connections
                    kept = one.transport.get_write_buffer_size()
                    assert kept <= 2 * PIECE_MAX
                    await anyio.sleep(0.05)
            assert len(server.server_state.connections) == int(known)


@pytest.mark.anyio
async def test_a_stranger_who_sends_requests_before_the_answer_gets_one_answer() -> None:
    app = create_app(Control(MemoryStore()))
    async with serving(app, server=serve_command._server(app)) as port:
        stream = await anyio.connect_tcp("127.0.0.1", port)
        async with stream:
            await stream.send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 20)
            told = b""
            with anyio.fail_after(5), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    told += await stream.receive()
    assert told.count(b"HTTP/1.1 200") == 1


@pytest.mark.anyio
async def test_a_stranger_who_claims_many_addresses_is_counted_as_one() -> None:
    app = create_app(Control(MemoryStore()), quotas=Quotas(requests_per_s=0.01, burst=5))
    async with (
        serving(app, server=serve_command._server(app)) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        answers = [
            await client.get("/v1/runs", headers={"x-forwarded-for": f"10.0.0.{number}"})
            for number in range(8)
        ]
    assert [answer.status_code for answer in answers] == [401] * 5 + [429] * 3


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("proxies", "addresses"),
    [((), {"127.0.0.1"}), (("10.0.0.7",), {"127.0.0.1"}), (("127.0.0.1",), {"10.1.0.1"})],
    ids=["no proxy", "another proxy", "this proxy"],
)
async def test_an_address_is_taken_from_a_proxy_that_was_named_and_from_nobody_else(
    proxies: tuple[str, ...], addresses: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # what uvicorn would read
    store = MemoryStore()
    app = create_app(Control(store))
    async with (
        serving(app, server=serve_command._server(app, proxies=proxies)) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        claimed = {"x-forwarded-for": "10.1.0.1"}
        await client.post("/v1/runs/r-1/cancel", json={}, headers=claimed)
    records = [json.loads(link.record) for link in await store.audit_page(0)]
    assert {record["address"] for record in records if record["action"] == "cancel"} == addresses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "address"),
    [
        ((), "127.0.0.1"),
        (("--public-url", "https://desk.example"), "127.0.0.1"),
        (("--allow-host", "desk.example"), "127.0.0.1"),
        (("--public-url", "https://desk.example", "--proxy", "127.0.0.1"), "10.1.0.1"),
    ],
)
def test_a_server_believes_the_proxy_that_it_was_told_of_and_no_other(
    tmp_path: Path, options: tuple[str, ...], address: str
) -> None:
    scene = Scene(tmp_path)
    with _served(tmp_path, *options) as url:
        claimed = {"x-forwarded-for": "10.1.0.1"}
        httpx.post(f"{url}/v1/runs/r-1/cancel", json={}, headers=claimed)
    records = [json.loads(line)["record"] for line in scene.said("audit", "export").splitlines()]
    assert {r["address"] for r in records if r["action"] == "cancel"} == {address}


@contextmanager
def _served(folder: Path, *options: str) -> Iterator[str]:
    port = free_port()
    command = [*MIDFLIGHT, "serve", "cli.clerk:clerk", "--port", str(port), *options]
    with Forked(
        command,
        cwd=folder,
        env=Scene(folder).env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=20)


def test_trouble_that_strangers_cause_again_and_again_is_logged_a_few_times() -> None:
    log = logging.getLogger("uvicorn.error")
    kept = Repeats()
    records = [
        log.makeRecord(log.name, logging.WARNING, "", 0, "Invalid HTTP request received.", (), None)
        for _ in range(1_000)
    ]
    audit = logging.makeLogRecord({"name": "midflight.audit", "levelno": logging.WARNING})

    assert sum(map(kept.filter, records)) == 20
    assert all(kept.filter(audit) for _ in range(100))
