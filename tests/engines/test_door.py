"""The door of a worker, by itself: a real port, and somebody who knocks."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import httpx
import pytest

from engines.link import free_port
from midflight.cli.serve import listening
from midflight.engines.restate_door import Door, Receive, Scope, Send

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
