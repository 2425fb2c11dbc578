"""A worker without its servers: its door, at which somebody knocks, and what it remembers."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import httpx
import pytest

from midflight.engines import restate_worker
from midflight.engines.restate_worker import LOOK_S, Door, Receive, Scope, Send, Worker
from midflight.interfaces.cli.commands.serve_command import listening
from midflight.stores.memory import MemoryStore
from ports import free_port

pytestmark = pytest.mark.anyio


async def nobody(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers every call, and says nothing."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def knock(port: int) -> int:
    async with httpx.AsyncClient(trust_env=False) as client:
        answer: Any = await client.get(f"http://127.0.0.1:{port}/", timeout=5)
        return int(answer.status_code)


async def test_a_door_that_is_blocked_when_it_opens_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    door = Door(partial(listening, "127.0.0.1", port), lambda: True, 1.0)
    with anyio.fail_after(15):
        async with anyio.create_task_group() as tasks:
            with listening("127.0.0.1", port):
                tasks.start_soon(door.keep, nobody)
                while "door_blocked" not in [vars(r).get("action") for r in caplog.records]:  # noqa: ASYNC110
                    await anyio.sleep(0.02)
            while True:
                try:
                    assert await knock(port) == 204
                    break
                except httpx.TransportError:
                    await anyio.sleep(0.05)
            door.leaving.set()
            await door.closed.wait()


async def test_a_door_says_when_it_closes_for_want_of_a_lease_and_when_it_is_open_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the lease itself its store tells, on every engine."""
    caplog.set_level("INFO", logger="midflight")
    monkeypatch.setattr(restate_worker, "UNSURE_S", 0.2)
    sure = True
    door = Door(partial(listening, "127.0.0.1", free_port()), lambda: sure, 1.0)

    def said() -> list[str]:
        return [vars(record).get("action", "") for record in caplog.records]

    with anyio.fail_after(15):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(door.keep, nobody)
            sure = False
            while not said():
                door.look()
                await anyio.sleep(0.02)
            sure = True
            while len(said()) < 2:  # noqa: ASYNC110 - a log tells nobody
                await anyio.sleep(0.02)
            door.leaving.set()
            await door.closed.wait()

    assert said() == ["door_closed", "door_open"]


async def test_what_was_seen_of_the_leases_of_others_is_kept_only_while_it_counts() -> None:
    nobody_else: Any = None
    worker = Worker(MemoryStore(), nobody_else, nobody_else, nobody_else)
    for number in range(5):
        assert await worker._is_gone(f"worker-{number}")
    await anyio.sleep(LOOK_S)
    assert await worker._is_gone("worker-5")

    assert list(worker._looked) == ["worker-5"]
