"""A channel over plain HTTP: signed both ways, once each, and to nobody's private network."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from assistant.desk import Office, clerk, slow_clerk, until
from chat.conftest import MoodyStore, Talking, until_chosen
from chat.person import Person
from chat.stand_in import StandIn
from midflight.agents import Agent
from midflight.control import Control
from midflight.errors import InvalidRequest
from midflight.interfaces.chat import People, Post, Switchboard
from midflight.interfaces.chat.channel import STRANGER, ChatGone, NotNow, NotTaken, PostGone
from midflight.interfaces.chat.webhook import NotGenuine, Signer, Webhook
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from midflight.models.scripted import call, say

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes or more").decode()
PEOPLE = People.listed(["ann=controller", "eve=viewer"])


class Desk:
    """Somebody's own service: takes deliveries, checks them, shows what it was told."""

    def __init__(self) -> None:
        self.signer = Signer(SECRET)
        self.shown: dict[str, dict[str, Any]] = {}
        self.deliveries: list[dict[str, Any]] = []
        self.answers: list[int] = []
        self.url = self.points_to = ""

    async def take(self, request: web.Request) -> web.Response:
        try:
            body = await request.read()
        except ConnectionResetError:  # whoever delivers has left in the middle of it
            return web.Response(status=400)
        if self.answers:
            headers = {"Retry-After": "1", "Location": self.points_to or self.url}
            return web.Response(status=self.answers.pop(0), headers=headers)
        self.signer.check({k.lower(): v for k, v in request.headers.items()}, body)
        given = json.loads(body)
        self.deliveries.append(given)
        self.shown[given["id"]] = given
        return web.json_response({})

    def find(self, text: str) -> dict[str, Any] | None:
        return next((each for each in self.shown.values() if text in each["text"]), None)

    async def until_shown(self, text: str) -> dict[str, Any]:
        await until(lambda: self.find(text) is not None)
        found = self.find(text)
        assert found is not None
        return found


class Sender:
    """Sends signed deliveries to the channel."""

    def __init__(self, channel: Webhook) -> None:
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(app=channel))
        self._signer = Signer(SECRET)
        self._board = channel.board
        self._count = 0

    async def __call__(self, *, id: str = "", user: str = "ann", **body: Any) -> httpx.Response:  # noqa: A002
        self._count += 1
        packed = json.dumps({"chat": "desk", "user": user, **body}).encode()
        headers = self._signer.sign(id or f"d{self._count}", packed)
        return await self.send(packed, headers)

    async def join(self, thread: str) -> None:
        await self._board.join("desk", thread, Actor("ann@webhook:ann", Role.CONTROLLER))

    async def send(self, body: bytes, headers: dict[str, str]) -> httpx.Response:
        return await self._http.post("http://channel/", content=body, headers=headers)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    found = Desk()
    app = web.Application()
    app.add_routes([web.post("/hook", found.take)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield found
    await runner.cleanup()


@asynccontextmanager
async def joined(control: Control, agent: Agent, desk: Desk, folder: Path) -> AsyncIterator[Sender]:
    allow = (desk.url.removeprefix("http://").removesuffix("/hook"),)
    channel = Webhook(desk.url, Signer(SECRET), allow=allow)
    async with Switchboard(
        control, channel, agent, folder=folder / "hooks", people=PEOPLE
    ) as board:
        channel.board = board
        yield Sender(channel)


async def test_texts_presses_and_forms_go_both_ways(
    driving: Talking, desk: Desk, tmp_path: Path
) -> None:
    works, office = slow_clerk("hook")

    async with driving(works) as control, joined(control, works, desk, tmp_path) as send:
        assert (await send(text="begin")).status_code == 202
        await office.until_begun("slow")
        status = await desk.until_shown("**Running** begin")
        pause = status["buttons"][0]
        assert pause["label"] == "Pause · Resume keeps context"
        done = await send(press=pause["press"])
        assert "**Pause** is on record" in done.json()["text"]
        await desk.until_shown("**Paused**")
        form = await send(press=desk.shown[status["id"]]["buttons"][1]["press"])
        assert [field["name"] for field in form.json()["fields"]] == ["text", "then"]
        resumed = await send(command="/resume")
        assert "**Resume** is on record" in resumed.json()["text"]
        office.gate("slow").set()
        await desk.until_shown("Ready.")
        stranger = await send(user="mallory", text="me too")
        assert (stranger.status_code, stranger.json()) == (403, {"error": STRANGER})
        assert (await send(text="x", press="y", nonsense=1)).status_code == 400
        found = [json.loads(link.record) for link in await control.store.audit_page()]
        told = [(r["action"], r["outcome"], r["door"]) for r in found]
        assert told == [
            ("converse", "done", "webhook:desk"),
            ("pause", "done", "webhook:desk"),
            ("resume", "done", "webhook:desk"),
            ("send", "refused", "webhook:desk"),
        ]


async def test_a_delivery_is_taken_once_and_only_if_it_is_genuine_and_of_this_moment(
    driving: Talking, desk: Desk, tmp_path: Path
) -> None:
    works, _, _ = clerk("genuine", [say("Hello.")])
    body = json.dumps({"chat": "desk", "user": "ann", "text": "hello"}).encode()

    async with driving(works) as control, joined(control, works, desk, tmp_path) as send:
        signed = Signer(SECRET).sign("one", body)
        forged = await send.send(body.replace(b"hello", b"hullo"), signed)
        assert forged.status_code == 401
        assert "signature of the delivery is wrong" in forged.json()["error"]
        old = Signer(SECRET, clock=lambda: 1_000_000.0).sign("old", body)
        assert "s apart: check the clocks" in (await send.send(body, old)).json()["error"]
        assert (await send.send(body, {})).status_code == 401
        assert await control.runs() == []

        assert (await send.send(body, signed)).status_code == 202
        copied = await send.send(body, signed)
        assert "was received before" in copied.json()["error"]
        later = Signer(SECRET, clock=lambda: float(signed["webhook-timestamp"]) + 7)
        assert (await send.send(body, later.sign("one", body))).status_code == 202  # tried again
        await desk.until_shown("Hello.")
        assert len(await control.runs()) == 1
        too_long = await send.send(b"x" * 300_000, signed)
        assert too_long.status_code == 413


async def test_a_delivery_that_could_not_be_taken_may_come_again_at_once_and_is_done_once(
    driving: Talking, desk: Desk, tmp_path: Path, store: MoodyStore
) -> None:
    works, _, _ = clerk("again", [say("Hello.")])
    body = json.dumps({"chat": "desk", "user": "ann", "text": "hello"}).encode()

    async with driving(works) as control, joined(control, works, desk, tmp_path) as send:
        signed = Signer(SECRET).sign("one", body)
        store.busy = True
        refused = await send.send(body, signed)
        store.busy = False
        assert refused.status_code == 503
        assert refused.json()["error"].endswith(
            "Send it again under its id: nothing is done twice."
        )
        assert (await send.send(body, signed)).status_code == 202  # as it was, in the same second
        assert (await send.send(body, signed)).status_code == 401
        await desk.until_shown("Hello.")
        assert len(await control.runs()) == 1


async def test_nobody_changes_or_removes_what_somebody_else_has_written(
    driving: Talking, desk: Desk, tmp_path: Path
) -> None:
    office = Office("authors")
    office.gate("slow")
    works, model, _ = clerk("authors", [call("authors_look", what="slow"), say("Ready.")], office)

    async with driving(works) as control, joined(control, works, desk, tmp_path) as send:
        await send(text="begin")
        await office.until_begun("slow")
        await send(id="hers", text="for ten people")
        await send(id="also-hers", text="in red")
        for change in ({"edit": "hers", "text": "delete everything"}, {"remove": "also-hers"}):
            refused = await send(user="eve", **change)
            assert refused.status_code == 403
            assert (
                "by ann@webhook, and only its author can change or withdraw it. Nothing"
                in refused.json()["error"]
            )
        assert (await send(edit="hers", text="for twelve people")).status_code == 202
        assert (await send(remove="also-hers")).status_code == 202
        await desk.until_shown("**Withdrawn**, nobody had read it: a message of ann@webhook")
        await until_chosen(control, "t-webhook-desk")
        office.gate("slow").set()
        await desk.until_shown("Ready.")

    read = "\n".join(turn.text for turn in model.prompts[-1].turns)
    assert "for twelve people" in read
    assert "in red" not in read
    assert "delete everything" not in read


@pytest.mark.slow
async def test_what_cannot_be_delivered_now_is_delivered_later_once_and_in_order(
    driving: Talking, desk: Desk, tmp_path: Path
) -> None:
    works, _, _ = clerk("later", [say("Hello.")])
    desk.answers = [500, 403, 404]

    async with driving(works) as control, joined(control, works, desk, tmp_path) as send:
        await send(text="hello")
        await desk.until_shown("Hello.")
        await desk.until_shown("**Done**")

    texts = [each["text"] for each in desk.deliveries if each["type"] == "post"]
    assert texts.count("Hello.") == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/x", "http://169.254.169.254/latest", "http://localhost:9/x"]
)
async def test_nothing_is_sent_to_private_addresses_unless_they_are_allowed(url: str) -> None:
    channel = Webhook(url, Signer(SECRET))

    with pytest.raises(NotNow, match=r"is not on the public internet\. Nothing was sent"):
        await channel.post("desk", Post("hello"))


async def test_a_receiver_that_wants_nothing_more_is_left_alone(desk: Desk) -> None:
    allow = (desk.url.removeprefix("http://").removesuffix("/hook"),)
    desk.answers = [410]

    with pytest.raises(ChatGone):
        await Webhook(desk.url, Signer(SECRET), allow=allow).post("desk", Post("hello"))


async def test_a_receiver_that_points_elsewhere_is_not_followed(desk: Desk) -> None:
    allow = (desk.url.removeprefix("http://").removesuffix("/hook"),)
    desk.answers, desk.points_to = [307], f"{desk.url}?elsewhere"

    with pytest.raises(NotNow, match="does not take it \\(307\\)"):
        await Webhook(desk.url, Signer(SECRET), allow=allow).post("desk", Post("hello"))
    assert desk.deliveries == []


def test_a_secret_that_is_too_short_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="at least 24 bytes"):
        Signer("whsec_c2hvcnQ=")
    with pytest.raises(NotGenuine):
        Signer(SECRET).check({}, b"")


async def test_several_channels_on_one_thread_neither_echo_nor_lose_anything(
    talking: Talking, discord: StandIn, ann: Person, desk: Desk, tmp_path: Path
) -> None:
    works, office = slow_clerk("shared")
    page = Actor("pat", Role.CONTROLLER, "http")

    async with talking(works) as control, joined(control, works, desk, tmp_path) as send:
        run = await control.start(works, "begun on the page", thread="t-page", who=page)
        await office.until_begun("slow")
        chat = ann.dm()
        going_on = await ann.commands(chat, "continue", thread="t-page")
        await discord.until(lambda: "Now: working" in going_on.text)
        await discord.until_shown(chat, "**Running** begun on the page")
        await send.join("t-page")
        await desk.until_shown("**Running** begun on the page")
        await ann.says(chat, "from a phone")
        await control.send("t-page", "from the page", who=page)
        await send(text="from the desk")
        await discord.until_shown(chat, "**pat** (http): from the page")
        await discord.until_shown(chat, "**ann@webhook** (webhook): from the desk")
        await desk.until_shown("**ann@discord** (discord): from a phone")
        await desk.until_shown("**pat** (http): from the page")
        await until_chosen(control, "t-page")
        office.gate("slow").set()
        await discord.until_shown(chat, "Ready.")
        lines = [x.text for x in await control.transcript("t-page") if x.kind == "message"]
        assert sorted(lines) == ["from a phone", "from the desk", "from the page"]
        await desk.until_shown("Ready.")
        assert (await control.ended(run)).phase == "done"

    assert "): from a phone" not in discord.text(chat)
    told = "\n".join(each["text"] for each in desk.shown.values())
    assert "): from the desk" not in told
    for text in (told, discord.text(chat)):
        assert text.count("): from the page") == 1
        assert text.count("Ready.") == 1


@pytest.mark.parametrize(
    ("status", "posting", "editing"),
    [(404, NotNow, PostGone), (403, NotNow, NotNow), (422, NotTaken, NotTaken)],
)
async def test_a_refusal_is_never_taken_for_a_delivery(
    desk: Desk, status: int, posting: type[Exception], editing: type[Exception]
) -> None:
    allow = (desk.url.removeprefix("http://").removesuffix("/hook"),)
    channel = Webhook(desk.url, Signer(SECRET), allow=allow)
    desk.answers = [status, status]

    with pytest.raises(posting):
        await channel.post("desk", Post("hello"))
    with pytest.raises(editing):
        await channel.edit("desk", "1", Post("hello"))


def test_a_time_that_only_looks_like_a_number_is_not_genuine() -> None:
    with pytest.raises(NotGenuine, match="no timestamp"):
        Signer(SECRET).check({"webhook-id": "1", "webhook-timestamp": "²"}, b"")
