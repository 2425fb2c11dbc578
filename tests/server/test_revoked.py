"""A key that is not valid any more opens nothing, and what it has opened ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.interfaces.http import event_streams
from midflight.interfaces.http.access.access import Access
from midflight.interfaces.http.access.keyring import Keyring
from midflight.interfaces.http.event_streams import Pace
from midflight.journal.phases import Role
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from server.house import House, opened

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
QUICK = Pace(heartbeat_s=0.05)
AGUI = {"threadId": "T", "runId": "X", "messages": [{"id": "m", "role": "user", "content": "tea"}]}
WATCHED: dict[str, tuple[str, str, Any]] = {
    "records": ("GET", "/v1/events?watch={run}", None),
    "views": ("GET", "/v1/events?watch={run}&views=1", None),
    "the list of runs": ("GET", "/v1/events?index=1", None),
    "AG-UI": ("POST", "/v1/agents/idle/agui", AGUI),
}


@agent("idle")
async def idle(run: Run) -> None:
    await run.ask("And now?")


@asynccontextmanager
async def watched_house(
    keyring: Keyring | None = None, pace: Pace = QUICK
) -> AsyncIterator[tuple[House, Control, str]]:
    """Nobody drives here, so streams have no end of their own."""
    control = Control(MemoryStore())
    run = await control.start(idle, "wait")
    access = Access(keyring or Keyring())
    async with opened(control, [idle], pace=pace, access=access) as house:
        yield house, control, run


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def read_on(
    http: httpx.AsyncClient, asked: tuple[str, str, Any], run: str, at_third: Callable[[], Any]
) -> str:
    """Read a stream to its end; something is done when it has said three times that it lives."""
    method, place, body = asked
    told = ""
    with anyio.fail_after(10):
        async with http.stream(method, place.format(run=run), json=body) as answer:
            assert answer.status_code == 200
            async for chunk in answer.aiter_text():
                before, told = told.count(": alive"), told + chunk
                if before < 3 <= told.count(": alive"):
                    at_third()
    return told


@pytest.mark.parametrize("what", WATCHED)
async def test_an_open_stream_ends_when_its_token_is_revoked(what: str) -> None:
    async with watched_house() as (house, _, run), house.client() as http:
        told = await read_on(
            http, WATCHED[what], run, lambda: house.keyring.revoke("the-controller")
        )

        assert "not_known" in told.split(": alive")[-1]
        assert "not valid any more" in told
        method, place, body = WATCHED[what]
        again = await http.request(method, place.format(run=run), json=body)
        assert again.status_code == 401


async def test_an_open_stream_ends_when_its_token_is_replaced() -> None:
    async with watched_house() as (house, _, run), house.client() as http:
        told = await read_on(
            http, WATCHED["records"], run, lambda: house.keyring.issue("the-controller", "viewer")
        )
        assert "not_known" in told


@pytest.mark.parametrize("what", WATCHED)
async def test_an_open_stream_ends_when_its_session_does(what: str) -> None:
    async with watched_house() as (house, _, run), house.client(None) as http:
        session = house.keyring.exchange(house.keyring.code("ann", Role.CONTROLLER))
        assert session is not None
        http.cookies.set(f"midflight_{house.port}", session.cookie)
        http.headers.update({"x-midflight": "1", "x-midflight-page": session.page_secret})
        told = await read_on(
            http, WATCHED[what], run, lambda: house.keyring.end_session(session.cookie)
        )

        assert "not_known" in told


async def test_what_another_process_revokes_ends_here_and_nothing_else_does(
    tmp_path: Path,
) -> None:
    keyring, elsewhere = Keyring(tmp_path / "keys.json"), Keyring(tmp_path / "keys.json")
    robot = keyring.issue("robot", Role.VIEWER)
    async with (
        watched_house(keyring) as (house, _, run),
        house.client(None, headers=bearer(robot)) as http,
        house.client() as other,
        other.stream("GET", f"/v1/events?watch={run}") as stays,
    ):
        lines = stays.aiter_text()
        told = await read_on(http, WATCHED["records"], run, lambda: elsewhere.revoke("robot"))
        assert "not_known" in told

        with anyio.fail_after(10):
            later = ""
            while later.count(": alive") < 5:
                later += await anext(lines)
        assert "not_known" not in later


async def test_a_stream_that_is_never_silent_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "KNOWN_S", 0.05)
    async with (
        watched_house(pace=Pace(heartbeat_s=5)) as (house, control, run),
        house.client() as http,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_steer, control, run)
            told = ""
            with anyio.fail_after(30):
                async with http.stream("GET", f"/v1/events?watch={run}") as answer:
                    async for chunk in answer.aiter_text():
                        told += chunk
                        if told.count("event: record") > 20:
                            house.keyring.revoke("the-controller")
            tasks.cancel_scope.cancel()

        assert ": alive" not in told
        assert told.endswith("\n\n")
        assert "not_known" in told.split("\n\n")[-2]


async def _steer(control: Control, run: str) -> None:
    for number in range(2_000):
        await control.redirect(run, f"more {number}")
        await anyio.sleep(0.005)


async def test_keys_that_cannot_be_read_let_nobody_stay(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    async with watched_house(Keyring(path)) as (house, _, run), house.client() as http:
        told = await read_on(
            http, WATCHED["records"], run, lambda: path.write_text("{", encoding="utf-8")
        )
        assert "not_known" in told


async def test_a_server_whose_heart_beats_slowly_asks_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert event_streams.KNOWN_S <= 15
    monkeypatch.setattr(event_streams, "KNOWN_S", 0.05)
    async with (
        watched_house(pace=Pace(heartbeat_s=3600)) as (house, _, run),
        house.client() as http,
    ):
        with anyio.fail_after(10):
            async with http.stream("GET", f"/v1/events?watch={run}") as answer:
                house.keyring.revoke("the-controller")
                told = (await answer.aread()).decode()

        assert "not_known" in told
