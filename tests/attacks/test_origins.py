"""The AG-UI router in somebody's own app: who asks is always known, and pages of others are not."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from midflight.agents import agent
from midflight.control import Control
from midflight.interfaces.agui import agui_router
from midflight.journal.record import Actor
from midflight.run import Run
from scenarios.conftest import Open
from server.house import serving

pytestmark = pytest.mark.anyio


@agent()
async def works(run: Run) -> str:
    return "done"


def said() -> dict[str, Any]:
    message = {"id": "m-1", "role": "user", "content": "tea"}
    return {"threadId": "T", "runId": "X", "messages": [message]}


def ann() -> Actor:
    return Actor(by="ann")


def app_with(control: Control, **options: Any) -> FastAPI:
    app = FastAPI()
    app.include_router(agui_router.router(control, [works], who=ann, **options))
    return app


async def test_a_router_without_identity_cannot_be_made(driving: Open) -> None:
    async with driving(works) as control:
        with pytest.raises(TypeError, match="who"):
            agui_router.router(control, [works])  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example", "content-type": "application/json"}, 403),
        ({"origin": "null", "content-type": "application/json"}, 403),
        ({"origin": "https://desk.example", "content-type": "application/json"}, 200),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/json; charset=utf-8"}, 200),
    ],
)
async def test_a_page_of_another_site_starts_nothing(
    driving: Open, headers: dict[str, str], status: int
) -> None:
    async with driving(works) as control:
        app = app_with(control, origins=["https://desk.example"])
        async with serving(app) as port, httpx.AsyncClient() as client:
            url = f"http://127.0.0.1:{port}/v1/agents/works/agui"
            body = httpx.Request("POST", url, json=said()).content
            answer = await client.post(url, content=body, headers=headers)

        assert answer.status_code == status
        assert bool(await control.runs()) == (status == 200)
