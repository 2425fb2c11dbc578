"""The channel that the docs make in an afternoon, against a stand-in of Telegram's Bot API."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from aiohttp import web

from assistant.desk import Office, clerk, until
from midflight.agents import Agent
from midflight.control import local
from midflight.interfaces.chat import People, Switchboard
from midflight.models.scripted import call, say

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PAGE = Path(__file__).resolve().parents[2] / "docs/channels.md"
ANN = {"id": 11, "username": "ann"}


def channel_in_the_docs() -> Any:
    codes = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(next(c for c in codes if "class Telegram" in c), str(PAGE), "exec"), scope)
    return scope["Telegram"]


class BotApi:
    """Messages in a chat, and updates that are sent until they are confirmed."""

    def __init__(self) -> None:
        self.shown: dict[int, dict[str, Any]] = {}
        self.answers: dict[str, str] = {}
        self.updates: list[dict[str, Any]] = []
        self.refusals: list[int] = []
        self.confirmed = 0

    def _says(self, kind: str, **given: Any) -> None:
        number = 100 + len(self.updates)
        self.updates.append({"update_id": number, kind: {"from": ANN, **given}})

    def writes(self, number: int, text: str, kind: str = "message") -> None:
        self._says(kind, message_id=number, chat={"id": 7}, text=text)

    def presses(self, number: int, label: str, name: str) -> None:
        rows = self.shown[number]["reply_markup"]["inline_keyboard"]
        code = next(k["callback_data"] for (k,) in rows if k["text"].startswith(label))
        assert len(code) <= 64  # what Telegram takes
        self._says("callback_query", id=name, data=code, message={"chat": {"id": 7}})

    def find(self, text: str) -> int:
        return next((n for n, m in self.shown.items() if text in m["text"]), 0)

    def has(self, text: str) -> bool:
        return bool(self.find(text))

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self.refusals and request.match_info["method"] == "sendMessage":
            wrong = {"ok": False, "description": "no", "parameters": {"retry_after": 0.1}}
            return web.json_response(wrong, status=self.refusals.pop(0))
        return web.json_response({"ok": True, "result": await self._done(request, body)})

    async def _done(self, request: web.Request, body: dict[str, Any]) -> Any:
        match request.match_info["method"]:
            case "getUpdates":
                self.confirmed = body["offset"]
                await anyio.sleep(0.02)  # long polling, made short
                return [u for u in self.updates if u["update_id"] >= body["offset"]]
            case "sendMessage":
                assert len(body["text"]) <= 4096
                number = 1_000 + len(self.shown)
                self.shown[number] = body
                return {"message_id": number}
            case "editMessageText":
                self.shown[body["message_id"]] = body
                return True
            case _:
                self.answers[body["callback_query_id"]] = body["text"]
                return True


@pytest.fixture
async def api() -> AsyncIterator[tuple[BotApi, str]]:
    found, app = BotApi(), web.Application()
    app.add_routes([web.post("/bot1:x/{method}", found.handle)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield found, f"http://127.0.0.1:{runner.addresses[0][1]}/bot1:x/"
    await runner.cleanup()


@asynccontextmanager
async def listening(control: Any, works: Agent, url: str, folder: Path) -> AsyncIterator[None]:
    async with httpx.AsyncClient(base_url=url) as http:
        channel = channel_in_the_docs()(http)
        people = People.listed(["11=ann:controller"])
        async with (
            Switchboard(control, channel, works, folder=folder, people=people) as board,
            anyio.create_task_group() as tasks,
        ):
            channel.board = board
            tasks.start_soon(channel.listen)
            yield
            tasks.cancel_scope.cancel()


@pytest.mark.slow
async def test_it_talks_pauses_redirects_and_is_not_told_twice(
    api: tuple[BotApi, str], tmp_path: Path
) -> None:
    telegram, url = api
    office = Office("afternoon")
    for place in ("one", "two"):
        office.gate(place)
    script = [*(call("afternoon_look", what=place) for place in office.gates), say("Planned.")]
    works, _, _ = clerk("afternoon", script, office)
    telegram.refusals = [429]

    async with local("memory:", works, workdir=tmp_path / "w") as control:
        with anyio.fail_after(40):
            async with listening(control, works, url, tmp_path / "chats"):
                telegram.writes(1, "plan a trip")
                await office.until_begun("one")
                await until(lambda: telegram.has("**Running** plan a trip"))
                status = telegram.find("**Running** plan a trip")
                telegram.presses(status, "Pause", "q1")
                await until(lambda: "**Pause** is on record" in telegram.answers.get("q1", ""))
                await until(lambda: "**Paused**" in telegram.shown[status]["text"])
            async with listening(control, works, url, tmp_path / "chats"):  # all comes again
                telegram.presses(status, "Redirect", "q2")
                await until(lambda: "write: never mind" in telegram.answers.get("q2", ""))
                telegram.presses(status, "Resume", "q3")
                await office.until_begun("one", 2)
                telegram.writes(2, "never mind, plan a picnic instead")
                await until(lambda: telegram.has("plan a ~~trip~~ **picnic**"))
                await office.until_begun("two")
                office.gate("two").set()
                await until(lambda: telegram.has("Planned."))
        lines = await control.transcript("t-telegram-7")

    said = [line.text for line in lines if line.kind == "message"]
    assert said == ["plan a trip", "never mind, plan a picnic instead"]
    assert sum("Planned." in each["text"] for each in telegram.shown.values()) == 1
