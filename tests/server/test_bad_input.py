"""What cannot be right is refused with the right status and words, and changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.journal.phases import Role
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from server.house import House, opened
from server.reader import status_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(60)]
MB = 1024 * 1024


@agent("idle")
async def idle(run: Run) -> None:
    await run.ask("And now?")


class Place:
    """A server with one run that nobody drives, and a check that nothing has changed."""

    def __init__(self, house: House, control: Control, run: str) -> None:
        self.house, self.control, self.run = house, control, run

    async def is_unchanged(self) -> bool:
        rows = await self.control.runs()
        return [(row.journal, row.head) for row in rows] == [(self.run, 1)]


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[Place]:
    control = Control(MemoryStore())
    run = await control.start(idle, "wait")
    async with opened(control, [idle]) as house:
        yield Place(house, control, run)


BODIES: list[tuple[str, bytes, int]] = [
    ("/v1/runs/{run}/redirect", b"{", 400),
    ("/v1/runs/{run}/redirect", b"", 422),
    ("/v1/runs/{run}/redirect", b"[]", 422),
    ("/v1/runs/{run}/redirect", b'"text"', 422),
    ("/v1/runs/{run}/redirect", b"null", 422),
    ("/v1/runs/{run}/redirect", b'{"text": 3}', 422),
    ("/v1/runs/{run}/redirect", b'{"text": "  "}', 409),
    ("/v1/runs/{run}/redirect", b'{"text": "\\ud800"}', 422),
    ("/v1/runs/{run}/redirect", b'{"text": "\\u0000"}', 422),
    ("/v1/runs/{run}/redirect", b'{"text": "x", "color": 1}', 422),
    ("/v1/runs/{run}/redirect", b'{"text": "\xff"}', 400),
    ("/v1/runs/{run}/pause", b'{"scope": "world"}', 422),
    ("/v1/runs/{run}/pause", b'{"expect": 1e999}', 422),
    ("/v1/runs/{run}/pause", b'{"expect": 99999999999999999999}', 422),
    ("/v1/runs/{run}/answer", b'{"question": -1}', 422),
    ("/v1/runs/{run}/answer", b'{"question": 77, "payload": 1}', 409),
    ("/v1/runs/{run}/raise_limits", b'{"limits": {"usd": NaN}}', 422),
    ("/v1/runs/{run}/raise_limits", b'{"limits": {"steps": -1}}', 422),
    ("/v1/runs/{run}/fork", b'{"at": "Nowhere"}', 409),
    ("/v1/runs/{run}/undo", b'{"effects": ["a"]}', 422),
    ("/v1/runs", b'{"agent": "nobody", "brief": "x"}', 422),
    ("/v1/runs", b'{"agent": "idle", "brief": "x", "thread": "../t"}', 422),
    ("/v1/runs", b'{"agent": "idle", "brief": "x", "input": "\\ud800"}', 422),
    ("/v1/runs", b"[" * 100_000, 400),
    ("/v1/threads/t-nobody/messages", b'{"text": "hello"}', 404),
    ("/v1/operator/kill", b'{"scope": "agent:"}', 422),
    ("/v1/operator/kill", b'{"scope": "nonsense"}', 422),
]


@pytest.mark.parametrize(("path", "body", "status"), BODIES)
async def test_a_body_that_cannot_be_right(
    place: Place, path: str, body: bytes, status: int
) -> None:
    async with place.house.client(Role.OPERATOR) as http:
        answer = await http.post(
            path.format(run=place.run), content=body, headers={"content-type": "application/json"}
        )

    assert answer.status_code == status, answer.text
    told = answer.json()
    assert told["changed"] is False
    assert len(told["message"]) > 20
    assert "Traceback" not in answer.text
    assert await place.is_unchanged()
    assert not await place.control.switches()


@pytest.mark.parametrize(
    "kind", ["text/plain", "multipart/form-data; boundary=x", "application/xml", ""]
)
async def test_a_body_of_another_kind(place: Place, kind: str) -> None:
    headers = {"content-type": kind} if kind else {}
    async with place.house.client() as http:
        answer = await http.post(
            f"/v1/runs/{place.run}/cancel", content=b'{"now": true}', headers=headers
        )

    assert (answer.status_code, answer.json()["error"]) == (415, "not_json")
    assert await place.is_unchanged()


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_of_fifty_megabytes(place: Place, announced: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b" " * MB

    content: Any = b" " * (50 * MB) if announced else pieces()
    async with place.house.client() as http:
        answer = await http.post(
            f"/v1/runs/{place.run}/cancel",
            content=content,
            headers={"content-type": "application/json"},
        )

    assert (answer.status_code, answer.json()["error"]) == (413, "too_large")
    assert answer.json()["limit"] == MB
    assert await place.is_unchanged()


@pytest.mark.parametrize(
    ("path", "statuses"),
    [
        ("/v1/runs/../../etc/passwd", {404}),
        ("/v1/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd", {404, 422}),
        ("/v1/runs/r-x%00y", {422}),
        ("/v1/runs/r-x%0ay", {422}),
        ("/v1/runs/r-" + "x" * 5000, {422}),
        ("/v1/runs/r-%ff%fe", {404}),
        ("/v1/runs/t-thread", {422}),
        ("//v1/runs", {404}),
        ("/v1/runs/", {404}),
        ("/v1//runs", {404}),
        ("/v1/runs/r-x/records?after=-1", {422}),
        ("/v1/runs/r-x/records?limit=0", {422}),
        ("/v1/runs?limit=100000", {422}),
        ("/v1/runs?phase=dreaming", {422}),
        ("/v1/runs/r-x/deliveries/1", {404}),
        ("/v1/runs/r-x/cancel", {405}),
        ("/nowhere", {404}),
        ("http://evil.example/v1/runs", {404}),
    ],
)
async def test_a_path_that_leads_nowhere(place: Place, path: str, statuses: set[int]) -> None:
    token = place.house.tokens[Role.OPERATOR]
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: 127.0.0.1:{place.house.port}",
        f"Authorization: Bearer {token}",
    ]
    status, told = await status_of(place.house.port, lines)

    assert status in statuses, told
    assert told["changed"] is False
    assert told["message"]


@pytest.mark.parametrize("key", ["a b", "x" * 200, "a/b", "ä"])
async def test_a_key_that_cannot_be_one(place: Place, key: str) -> None:
    async with place.house.client() as http:
        answer = await http.post(
            f"/v1/runs/{place.run}/cancel",
            json={},
            headers=[(b"Idempotency-Key", key.encode())],
        )

    assert answer.status_code == 422
    assert await place.is_unchanged()


async def test_a_message_of_bytes_that_are_no_request(place: Place) -> None:
    status, _ = await status_of(place.house.port, ["NONSENSE", "x: \x01"])

    assert status == 400
    assert await place.is_unchanged()
