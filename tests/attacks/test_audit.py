"""Every control, login, kill and change of keys leaves one record; no record can be lost unseen."""

from __future__ import annotations

import inspect
import json
import logging
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from typing_extensions import override

from cli.scene import Scene
from forks import Forked
from midflight.agents import agent
from midflight.audit import (
    COUNTED_MAX,
    EACH,
    IN_ALL,
    OTHERS,
    SOURCES_MAX,
    WINDOW_S,
    Checker,
    Flood,
    Head,
    Link,
    Visit,
    linked,
    visiting,
)
from midflight.control import Control
from midflight.control.verbs import VERBS
from midflight.errors import InvalidRequest, MidflightError, StoreFull
from midflight.inputs import wall_clock
from midflight.interfaces.agui import agui_router
from midflight.interfaces.http.access.access import Access
from midflight.interfaces.http.access.door import DoorAudit
from midflight.interfaces.http.access.keyring import Keyring
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor, Limits
from midflight.run import Run
from midflight.stores import open_store
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Committed, Query, Store, Submit
from midflight.tasks import owned_tasks
from scenarios.conftest import Open
from server.house import House, opened, serving
from stores.programs import environment, next_line

pytestmark = pytest.mark.anyio

ANN, VERA = Actor(by="ann", channel="library"), Actor(by="vera", role=Role.VIEWER)
OLGA = Actor(by="olga", role=Role.OPERATOR)
SECRET = "the-words-that-nobody-else-reads"


@agent()
async def works(run: Run) -> str:
    await run.ask("Well?")
    return "done"


async def busy(control: Control, thread: str = "t-work") -> str:
    run = await control.start(works, SECRET, thread=thread, who=ANN)
    await control.until(run, lambda state: state.phase is Phase.WAITING)
    return run


async def audit_of(store: Store) -> list[dict[str, Any]]:
    """All records, of a chain that is whole."""
    found: list[Link] = []
    while page := await store.audit_page(found[-1].number if found else 0):
        found += page
    checker = Checker(await store.audit_head())
    assert [fault for link in found for fault in checker.take(link)] + checker.end() == []
    return [json.loads(link.record) for link in found]


class Since:
    """What was recorded since it was last asked."""

    def __init__(self, store: Store) -> None:
        self.store, self.seen = store, 0

    async def __call__(self) -> list[dict[str, Any]]:
        found = await audit_of(self.store)
        new, self.seen = found[self.seen :], len(found)
        return new


# ── every verb ───────────────────────────────────────────────────────────────────────────────

ON_RUNS: dict[str, Callable[..., Any]] = {
    "pause": lambda c, run, **by: c.pause(run, **by),
    "resume": lambda c, run, **by: c.resume(run, **by),
    "redirect": lambda c, run, **by: c.redirect(run, SECRET, **by),
    "answer": lambda c, run, **by: c.answer(run, 5, SECRET, **by),
    "decline": lambda c, run, **by: c.decline(run, 5, **by),
    "raise limits": lambda c, run, **by: c.raise_limits(run, Limits(steps=90), **by),
    "take over": lambda c, run, **by: c.take_over(run, **by),
    "hand back": lambda c, run, **by: c.hand_back(run, SECRET, **by),
    "stop effect": lambda c, run, **by: c.stop_effect(run, 3, **by),
    "send": lambda c, run, **by: c.send(run, SECRET, **by),
    "ask aside": lambda c, run, **by: c.ask_aside(run, SECRET, **by),
    "edit": lambda c, run, **by: c.edit_message("t-work", 3, SECRET, **by),
    "withdraw": lambda c, run, **by: c.withdraw_message("t-work", 3, **by),
    "overrule": lambda c, run, **by: c.overrule("t-work", 3, "defer", **by),
    "heard": lambda c, run, **by: c.heard("t-work", SECRET, run=run, **by),
    "do now": lambda c, run, **by: c.do_now("t-work", 3, **by),
    "reorder": lambda c, run, **by: c.reorder("t-work", [3], **by),
    "remove todo": lambda c, run, **by: c.remove_todo("t-work", 3, **by),
    "start": lambda c, run, **by: c.start(works, SECRET, **by),
    "converse": lambda c, run, **by: c.converse(works, "t-2", [("k", SECRET)], key="1", **by),
    "cancel": lambda c, run, **by: c.cancel(run, **by),
    "undo": lambda c, run, **by: c.undo(run, **by),
    "fork": lambda c, run, **by: c.fork(run, 1, brief=SECRET, **by),
    "recover": lambda c, run, **by: c.recover(run, **by),
    "kill": lambda c, run, **by: c.kill("agent:nobody", reason=SECRET, **by),
    "release": lambda c, run, **by: c.release("agent:nobody", **by),
}


def test_every_verb_that_says_who_asks_is_audited() -> None:
    asks = {
        name: method
        for name, method in inspect.getmembers(Control, inspect.isfunction)
        if not name.startswith("_") and {"who", "by"} & inspect.signature(method).parameters.keys()
    }
    assert asks.keys() == VERBS.keys()  # and all of these go through one door, which records them
    assert {verb.said for verb in VERBS.values()} == ON_RUNS.keys()


@pytest.mark.parametrize("who", [ANN, VERA, OLGA], ids=["controller", "viewer", "operator"])
async def test_every_verb_leaves_exactly_one_record_whatever_becomes_of_it(
    driving: Open, who: Actor
) -> None:
    async with driving(works) as control:
        run, since = await busy(control), Since(control.store)
        await since()
        for verb, press in ON_RUNS.items():
            try:
                await press(control, run, who=who)
                outcomes = {"done", "nothing", "repeated"}
            except (MidflightError, LookupError):
                outcomes = {"refused", "failed"}
            (record,) = await since()
            assert record["action"] == verb
            assert record["by"] == who.by
            assert record["role"] == who.role
            assert record["door"] == "library"
            assert "process" in record["address"]
            assert record["outcome"] in outcomes, (verb, record)
            assert (record["why"] != "") == (record["outcome"] in {"refused", "failed"})
            assert SECRET not in json.dumps(record)


async def test_what_does_not_exist_is_recorded_as_refused(driving: Open) -> None:
    async with driving(works) as control:
        for press in (control.pause, control.cancel, control.recover, control.take_over):
            with pytest.raises(MidflightError):
                await press("r-none", who=ANN)
        with pytest.raises(InvalidRequest):
            await control.kill("everything", who=OLGA)
        found = await audit_of(control.store)
        assert [r["outcome"] for r in found] == ["refused"] * 5
        assert {r["why"] for r in found} == {"journal_not_found", "invalid_request"}
        assert [r["target"] for r in found] == ["r-none"] * 4 + ["everything"]


async def test_a_repeat_under_the_same_key_is_recorded_as_one(driving: Open) -> None:
    async with driving(works) as control:
        run, since = await busy(control), Since(control.store)
        await since()
        for _ in range(2):
            await control.pause(run, who=ANN, key="k")
        assert [r["outcome"] for r in await since()] == ["done", "repeated"]


async def test_a_record_says_where_in_the_journal_the_control_is(driving: Open) -> None:
    async with driving(works) as control:
        run = await busy(control)
        paused = await control.pause(run, who=ANN)
        record = (await audit_of(control.store))[-1]
        assert record["target"] == run
        assert record["about"] == {"position": paused.position, "scope": "tree"}


async def test_an_approval_is_recorded_with_the_answer_and_other_answers_by_their_length(
    driving: Open,
) -> None:
    async with driving(works) as control:
        run = await busy(control)
        (question,) = (await control.state(run)).questions
        await control.answer(run, question, SECRET, who=ANN)
        record = (await audit_of(control.store))[-1]
        assert record["about"]["question"] == question
        assert record["about"]["payload_length"] == len(SECRET) + 2
        run = await busy(control)
        (question,) = (await control.state(run)).questions
        await control.answer(run, question, "approve", who=ANN)
        assert (await audit_of(control.store))[-1]["about"]["answer"] == "approve"


class Full(MemoryStore):
    """A store whose disk is full for requests."""

    full = False

    @override
    async def submit(self, request: Submit) -> Committed:
        if self.full:
            raise StoreFull("the disk is full. Nothing was appended.")
        return await super().submit(request)


async def test_a_control_that_failed_is_recorded_as_failed() -> None:
    store = Full()
    control = Control(store)
    run = await control.start("clerk", "work")
    store.full = True
    with pytest.raises(StoreFull):
        await control.cancel(run, who=ANN)
    record = (await audit_of(store))[-1]
    assert (record["action"], record["outcome"], record["why"]) == (
        "cancel",
        "failed",
        "store_full",
    )


async def test_runs_do_not_act_in_the_name_of_who_has_started_them(driving: Open) -> None:
    holder: list[Control] = []

    @agent()
    async def meddler(run: Run) -> None:
        await holder[0].send("t-other", "by myself", who=Actor(by="meddler"))

    async with driving(works, meddler) as control:
        holder.append(control)
        await busy(control, "t-other")
        with visiting(Visit("http", "192.0.2.9")):
            run = await control.start(meddler, "go", who=ANN)
        await control.ended(run)
        mine = [r for r in await audit_of(control.store) if r["by"] == "meddler"]
        assert [(r["door"], r["action"]) for r in mine] == [("library", "send")]
        assert mine[0]["address"] != "192.0.2.9"


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────

POSTS: dict[str, dict[str, Any]] = {
    "pause": {},
    "resume": {},
    "redirect": {"text": SECRET},
    "take_over": {},
    "hand_back": {"note": SECRET},
    "messages": {"text": SECRET},
    "cancel": {},
}


@asynccontextmanager
async def house(driving: Open, **more: Any) -> AsyncIterator[tuple[Control, House, Since]]:
    async with driving(works) as control, opened(control, [works], **more) as there:
        records = there.app.state.records
        for floods in (records._floods, records._floods_of_callers):
            floods._each = 1_000  # every refusal, for these tests
        since = Since(control.store)
        yield control, there, since


async def test_every_verb_over_http_leaves_one_record_with_the_address(driving: Open) -> None:
    async with house(driving) as (control, there, since):
        run = await busy(control)
        await there.app.state.records.tend()
        await since()
        for role in (Role.VIEWER, Role.CONTROLLER, None):
            async with there.client(role) as client:
                for verb, body in POSTS.items():
                    done = await client.post(f"/v1/runs/{run}/{verb}", json=body)
                    (record,) = await since()
                    expected = "done" if done.is_success else "refused"
                    assert record["outcome"] == expected, (verb, role, record)
                    assert (record["door"], record["address"]) == ("http", "127.0.0.1")
                    assert record["by"] == (f"the-{role}" if role else "")
                    assert SECRET not in json.dumps(record)
                    assert role is not None or record["why"] == "not_known"


@pytest.mark.parametrize(
    ("headers", "body", "why"),
    [
        ({"origin": "https://evil.example"}, b"{}", "wrong_origin"),
        ({"host": "evil.example"}, b"{}", "wrong_host"),
        ({"content-type": "text/plain"}, b"{}", "not_json"),
        ({"content-type": "application/json"}, b"{", "invalid"),
        ({"content-type": "application/json"}, b'{"now": 7}', "invalid"),
        ({"content-type": "application/json"}, b" " * 2_000_000, "too_large"),
    ],
)
async def test_what_the_door_refuses_is_recorded_with_the_reason(
    driving: Open, headers: dict[str, str], body: bytes, why: str
) -> None:
    async with house(driving) as (control, there, since):
        run = await busy(control)
        await there.app.state.records.tend()
        await since()
        async with there.client() as client:
            done = await client.post(f"/v1/runs/{run}/cancel", content=body, headers=headers)
        assert done.status_code >= 400
        (record,) = await since()
        assert (record["action"], record["target"]) == ("cancel", run)
        assert (record["outcome"], record["why"]) == ("refused", why)


async def test_a_kill_over_http_is_recorded_also_if_nothing_was_stopped(driving: Open) -> None:
    async with house(driving) as (_, there, since):
        await there.app.state.records.tend()
        await since()
        async with there.client(Role.OPERATOR) as olga, there.client() as carl:
            for client, outcome in ((olga, "nothing"), (carl, "refused")):
                await client.post("/v1/operator/kill", json={"scope": "agent:none", "reason": "x"})
                (record,) = await since()
                assert (record["action"], record["target"]) == ("kill", "agent:none")
                assert record["outcome"] == outcome
            await olga.post("/v1/operator/release", json={"scope": "agent:none"})
            await olga.post("/v1/operator/release", json={"scope": "agent:none"})
            assert [r["outcome"] for r in await since()] == ["done", "nothing"]


async def test_logins_failed_logins_and_logouts_are_recorded(driving: Open) -> None:
    async with house(driving) as (_, there, since):
        code = there.keyring.code("dora", Role.CONTROLLER)
        await there.app.state.records.tend()
        await since()
        async with there.client(None, headers={"x-midflight": "1"}) as browser:
            await browser.post("/v1/session", json={"code": "mf_wrong"})
            come_in = await browser.post("/v1/session", json={"code": code})
            await browser.post("/v1/session", json={"code": code})
            page_secret = come_in.json()["page_secret"]
            await browser.post("/v1/leave", headers={"x-midflight-page": page_secret})
            found = await since()
            assert [(r["action"], r["outcome"], r["by"]) for r in found] == [
                ("login", "refused", ""),
                ("login", "done", "dora"),
                ("login", "refused", ""),
                ("logout", "done", "dora"),
            ]
            assert found[0]["why"] == "code_not_valid"
            assert code not in json.dumps(found)
            assert "mf_wrong" not in json.dumps(found)
            assert page_secret not in json.dumps(found)


async def test_a_wrong_token_is_a_failed_login_also_where_it_only_wants_to_look(
    driving: Open,
) -> None:
    async with house(driving) as (_, there, since):
        await there.app.state.records.tend()
        await since()
        async with there.client(None) as client:
            await client.get("/v1/runs", headers={"authorization": "Bearer mf_guess"})
            await client.get("/v1/runs")  # a stranger who claims nothing
            await client.get("/healthz")
        (record,) = await since()
        assert (record["action"], record["outcome"], record["why"]) == (
            "login",
            "refused",
            "not_known",
        )
        assert "mf_guess" not in json.dumps(record)


def agui_input(text: str) -> dict[str, Any]:
    said = {"threadId": "t-agui", "runId": "turn-1", "state": {}, "tools": [], "context": []}
    messages = [{"id": "m-1", "role": "user", "content": text}]
    return {**said, "messages": messages, "forwardedProps": {}}


async def talk(client: httpx.AsyncClient) -> None:
    async with client.stream("POST", "/v1/agents/works/agui", json=agui_input(SECRET)) as got:
        assert got.status_code == 200
        async for line in got.aiter_lines():
            if "RUN_FINISHED" in line or "STATE_SNAPSHOT" in line:
                return


async def test_what_comes_through_ag_ui_is_recorded_with_that_door(driving: Open) -> None:
    async with house(driving) as (_, there, since):
        await there.app.state.records.tend()
        await since()
        async with there.client() as client, there.client(None) as stranger:
            await talk(client)
            (record,) = await since()
            assert (record["action"], record["outcome"]) == ("converse", "done")
            assert (record["door"], record["address"]) == ("agui", "127.0.0.1")
            assert SECRET not in json.dumps(record)
            await stranger.post("/v1/agents/works/agui", json=agui_input("stop"))
            (record,) = await since()
            assert (record["door"], record["outcome"]) == ("agui", "refused")


class Client:
    """A client of AG-UI that sends its whole conversation each time."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client, self.said, self._turns = client, ["hello"], 0

    async def ask(self, **more: Any) -> dict[str, Any]:
        """Send a turn, and give the event that ends its stream."""
        self._turns += 1
        messages = [
            {"id": f"m-{n}", "role": "user", "content": text} for n, text in enumerate(self.said)
        ]
        asked = agui_input("") | {"messages": messages, "runId": f"turn-{self._turns}", **more}
        got = await self._client.post("/v1/agents/works/agui", json=asked)
        lines = [line for line in got.text.splitlines() if line.startswith("data:")]
        last: dict[str, Any] = json.loads(lines[-1].removeprefix("data:"))
        return last

    async def answer(self, interrupt: str, payload: Any, status: str = "resolved") -> None:
        """Answer an interrupt."""
        given = {"interruptId": interrupt, "status": status, "payload": payload}
        await self.ask(resume=[given])


@pytest.mark.parametrize("mounted", [False, True], ids=["our server", "an app of others"])
async def test_what_an_ag_ui_client_asks_for_is_recorded_once_and_as_it_came_out(
    driving: Open, mounted: bool
) -> None:
    async with driving(works) as control, AsyncExitStack() as open_now:
        if mounted:
            app = FastAPI()
            app.include_router(agui_router.router(control, [works], who=lambda: ANN))
            port = await open_now.enter_async_context(serving(app))
            plain = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}")
        else:
            there = await open_now.enter_async_context(opened(control, [works]))
            await there.app.state.records.tend()
            plain = there.client()
        client, since = Client(await open_now.enter_async_context(plain)), Since(control.store)

        async def told() -> list[tuple[str, str, str]]:
            return [(r["action"], r["outcome"], r["why"]) for r in await since()]

        await since()
        asks = await client.ask(protocolVersion="1.0")
        interrupt = asks["outcome"]["interrupts"][0]["id"]
        assert await told() == [("converse", "done", "")]
        client.said = ["something else"]
        assert (await client.ask())["type"] == "RUN_ERROR"
        assert await told() == [("converse", "refused", "history_changed")]
        client.said = ["hello"]
        await client.answer("r-none:4", "yes")
        assert await told() == [("answer", "refused", "not_open")]
        await client.answer(interrupt, "yes", status="perhaps")
        assert await told() == [("answer", "refused", "does_not_fit")]
        await client.ask()
        assert await told() == [("converse", "repeated", "")]
        await client.answer(interrupt, "yes")
        assert await told() == [("answer", "done", "")]
        await client.answer(interrupt, "yes")
        assert await told() == [("answer", "repeated", "")]
        await client.answer(interrupt, "no")
        assert await told() == [("answer", "refused", "answered_before")]
        assert (await client.ask())["type"] == "RUN_ERROR"
        assert await told() == [("converse", "refused", "answered_before")]


async def test_an_ag_ui_router_in_an_app_of_others_records_the_same(driving: Open) -> None:
    async with driving(works) as control:
        app = FastAPI()
        app.include_router(agui_router.router(control, [works], who=lambda: ANN))
        async with (
            serving(app) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
        ):
            await talk(client)
            await client.post("/v1/agents/nobody/agui", json=agui_input("hello"))
        done, refused = await audit_of(control.store)
        assert (done["door"], done["address"], done["by"]) == ("agui", "127.0.0.1", "ann")
        assert (refused["door"], refused["outcome"]) == ("agui", "refused")


# ── keys ─────────────────────────────────────────────────────────────────────────────────────


async def test_every_change_of_keys_is_recorded_without_the_key(driving: Open) -> None:
    async with house(driving) as (control, there, since):
        await there.app.state.records.tend()
        await since()
        with visiting(Visit("cli", "here", by="root", role="operator")):
            made = [there.keyring.issue("bot"), there.keyring.issue("bot", Role.VIEWER)]
            made.append(there.keyring.code("dora"))
            there.keyring.revoke("bot")
            there.keyring.revoke("bot")
        await there.app.state.records.tend()
        await there.app.state.records.tend()
        found = await since()
        assert [(r["action"], r["target"], r["outcome"], r["by"]) for r in found] == [
            ("token created", "bot", "done", "root"),
            ("token rotated", "bot", "done", "root"),
            ("link created", "dora", "done", "root"),
            ("token revoked", "bot", "done", "root"),
            ("token revoked", "bot", "nothing", "root"),
        ]
        assert not any(secret in json.dumps(found) for secret in made)
        assert there.keyring.changes() == []
        assert control.store is there.app.state.control.store


async def test_a_file_of_keys_that_cannot_be_read_ends_no_server_and_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("midflight.interfaces.http.access.door.TENDED_S", 0.01)
    path, store = tmp_path / "keys.json", MemoryStore()
    keyring = Keyring(path)
    keyring.issue("ann")
    records = DoorAudit(Control(store), Access(keyring), wall_clock)

    async def until(found: Callable[[], Any]) -> None:
        with anyio.fail_after(5):
            while not found():  # noqa: ASYNC110 - nothing tells of it
                await anyio.sleep(0.01)

    async with owned_tasks(records.run):
        await until(lambda: not keyring.changes())
        path.write_text("{")
        await until(lambda: "Changes of keys could not be recorded in the audit yet" in caplog.text)
        path.unlink()
        keyring.issue("ben")
        await until(lambda: not keyring.changes())
    assert [record["target"] for record in await audit_of(store)] == ["ann", "ben"]


async def test_a_change_of_keys_outlives_who_made_it_and_is_recorded_once(tmp_path: Path) -> None:
    """It is in the file of the keys with the change itself, until it is in the audit."""
    keys = tmp_path / "keys.json"
    Keyring(keys).issue("bot")  # a process that is killed right here
    store = MemoryStore()
    for _ in range(2):
        keyring = Keyring(keys)
        changes = keyring.changes()
        async with opened(Control(store), access=Access(keyring)) as there:
            await there.app.state.records.tend()
        await store.audit(*changes)  # a server that was killed before it forgot them
    found = [r for r in await audit_of(store) if r["target"] == "bot"]
    assert [r["action"] for r in found] == ["token created"]


# ── floods ───────────────────────────────────────────────────────────────────────────────────


async def test_a_strangers_flood_is_a_few_records_and_a_number(
    driving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    async with driving(works) as control, opened(control, [works]) as there:
        await there.app.state.records.tend()
        since = Since(control.store)
        await since()
        with caplog.at_level(logging.INFO, "midflight.audit"):
            async with there.client(None) as stranger:
                for _ in range(100):
                    await stranger.post("/v1/runs/r-1/cancel", json={})
            await there.app.state.records.tend(last=True)
        *one_by_one, rest = await since()
        assert len(one_by_one) == EACH
        assert (rest["action"], rest["address"]) == ("more refused", "127.0.0.1")
        assert rest["about"]["count"] == 100 - EACH
        lines = [r for r in caplog.records if getattr(r, "action", "") == "control"]
        assert len(lines) == EACH


async def test_a_flood_does_not_hide_what_others_do(driving: Open) -> None:
    async with driving(works) as control, opened(control, [works]) as there:
        run, since = await busy(control), Since(control.store)
        async with there.client(None) as stranger, there.client() as carl:
            for _ in range(50):
                await stranger.post(f"/v1/runs/{run}/cancel", json={})
            await since()
            await carl.post(f"/v1/runs/{run}/pause", json={})
        assert [(r["action"], r["by"]) for r in await since()] == [("pause", "the-controller")]


async def test_strangers_of_many_addresses_do_not_hide_what_a_caller_was_refused(
    driving: Open,
) -> None:
    async with driving(works) as control, opened(control, [works]) as there:
        await there.app.state.records.tend()
        since = Since(control.store)
        await since()
        for number in range(20):
            away = httpx.ASGITransport(there.app, client=(f"10.0.0.{number}", 1))
            async with httpx.AsyncClient(transport=away, base_url=there.url) as stranger:
                for _ in range(EACH):
                    await stranger.post("/v1/runs/r-1/cancel", json={})
        assert len(await since()) == IN_ALL
        async with there.client() as carl:
            refused = await carl.post("/v1/runs/r-1/cancel", content=b"x")
        assert refused.status_code == 415
        assert [(r["by"], r["outcome"]) for r in await since()] == [("the-controller", "refused")]


async def test_a_callers_refusals_are_bounded_too(driving: Open) -> None:
    async with driving(works) as control:
        run = await busy(control)
        for _ in range(200):
            with pytest.raises(MidflightError):
                await control.cancel(run, who=VERA)
        assert len(await audit_of(control.store)) < 100


async def test_a_server_logs_the_head_and_at_its_end_records_what_was_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    async with opened(Control(store)) as there:
        with caplog.at_level(logging.INFO, "midflight.audit"):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(there.app.state.records.run)
                async with there.client(None) as stranger:
                    for _ in range(EACH + 3):
                        await stranger.post("/v1/runs/r-1/cancel", json={})
                tasks.cancel_scope.cancel()
    assert (await audit_of(store))[-1]["about"]["count"] == 3
    logged = [vars(r)["head"] for r in caplog.records if getattr(r, "head", "")]
    assert logged[-1] == (await store.audit_head()).text


def test_a_flood_from_many_addresses_takes_little_memory_and_few_records() -> None:
    now = [0.0]
    flood = Flood(lambda: now[0])
    recorded = sum(flood.admits(f"10.0.{n // 250}.{n % 250}") for n in range(20_000))
    assert recorded <= 100
    assert len(flood) <= SOURCES_MAX + 1
    assert flood.over() == []
    now[0] += WINDOW_S
    counted = flood.over()
    assert len(counted) <= COUNTED_MAX + 1
    assert sum(one.more for one in counted) == 20_000 - recorded
    assert counted[0].source == OTHERS
    assert len(flood) == 0


# ── tampering ────────────────────────────────────────────────────────────────────────────────


async def chained(path: Path, number: int = 9) -> Head:
    async with open_store(str(path)) as store:
        control = Control(store, who=ANN)
        for n in range(number):
            await control.start("clerk", f"work {n}")
        return await store.audit_head()


async def midflight(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Give a command in a folder."""
    return await anyio.to_thread.run_sync(lambda: Scene(folder).call(*arguments))


CHANGE = "UPDATE audit SET record = replace(record, 'ann', 'bob') WHERE number = 4"
TAMPERED = {
    "changed": (CHANGE, 20, "record 4 was changed"),
    "deleted": ("DELETE FROM audit WHERE number = 4", 20, "record 4 is missing"),
    "deleted several": (
        "DELETE FROM audit WHERE number BETWEEN 4 AND 6",
        20,
        "records 4 to 6 are missing",
    ),
    "swapped": (
        "UPDATE audit SET number = -1 WHERE number = 4;"
        "UPDATE audit SET number = 4 WHERE number = 5;"
        "UPDATE audit SET number = 5 WHERE number = -1",
        20,
        "record 4 does not follow the record 3 that is there",
    ),
    "inserted": (
        "UPDATE audit SET number = -number WHERE number > 4;"
        "INSERT INTO audit SELECT 5, 'x', digest, digest, record FROM audit WHERE number = 4;"
        "UPDATE audit SET number = 1 - number WHERE number < 0",
        20,
        "record 5 was changed",
    ),
    "cut at the front": ("DELETE FROM audit WHERE number < 3", 20, "records 1 to 2 are missing"),
    "cut at the end": (
        "DELETE FROM audit WHERE number > 7",
        21,
        "the end was cut off: records 8 to 9 are missing",
    ),
}


@pytest.mark.slow
async def test_verify_finds_a_change_a_gap_an_order_and_a_cut(tmp_path: Path) -> None:
    head = await chained(tmp_path / "whole.db")
    told = await midflight(tmp_path, "audit", "verify", "--store", "whole.db", "--head", head.text)
    assert told.returncode == 0, told
    assert told.stdout == f"The audit is whole: 9 records, head {head.text}\n"

    for number, (name, (script, status, says)) in enumerate(TAMPERED.items()):
        copy = tmp_path / f"{number}.db"
        with (
            closing(sqlite3.connect(tmp_path / "whole.db")) as whole,
            closing(sqlite3.connect(copy)) as db,
        ):
            whole.backup(db)
            db.executescript(script)
        async with open_store(str(copy)) as store:
            checker, links = Checker(head), await store.audit_page()
        faults = [fault for link in links for fault in checker.take(link)] + checker.end()
        assert says in {fault.says for fault in faults}, (name, faults)
        if name in {"changed", "cut at the end"}:
            command = ("audit", "verify", "--store", copy.name, "--head", head.text)
            told = await midflight(tmp_path, *command)
            assert told.returncode == status, (name, told)
            assert f"{says}.\n" in told.stdout, (name, told.stdout)


@pytest.mark.slow
async def test_a_chain_that_was_written_anew_is_found_by_a_head_that_was_kept(
    tmp_path: Path,
) -> None:
    kept = await chained(tmp_path / "one.db")
    await chained(tmp_path / "two.db", 12)
    whole = await midflight(tmp_path, "audit", "verify", "--store", "two.db")
    assert whole.returncode == 0
    command = ("audit", "verify", "--store", "two.db", "--head", kept.text)
    found = await midflight(tmp_path, *command)
    assert found.returncode == 21
    assert "record 9 is not the one of the head: the chain was written anew" in found.stdout


@pytest.mark.slow
async def test_an_export_is_lines_of_json_that_can_be_checked_without_the_store(
    tmp_path: Path,
) -> None:
    head = await chained(tmp_path / "midflight.db")
    exported = (await midflight(tmp_path, "audit", "export")).stdout
    lines = [json.loads(line) for line in exported.splitlines()]
    assert [line["number"] for line in lines] == list(range(1, 10))
    assert {line["record"]["action"] for line in lines} == {"start"}
    assert (await midflight(tmp_path, "audit", "head")).stdout == f"{head.text}\n"

    (tmp_path / "whole.jsonl").write_text(exported, encoding="utf-8")
    (tmp_path / "rest.jsonl").write_text("\n".join(exported.splitlines()[4:]), encoding="utf-8")
    (tmp_path / "forged.jsonl").write_text(exported.replace("ann", "bob", 3), encoding="utf-8")
    (tmp_path / "midflight.db").unlink()
    for file, status in (("whole.jsonl", 0), ("rest.jsonl", 0), ("forged.jsonl", 20)):
        checked = await midflight(tmp_path, "audit", "verify", file, "--head", head.text)
        assert checked.returncode == status, checked


@pytest.mark.slow
async def test_an_export_can_be_of_a_time(tmp_path: Path) -> None:
    await chained(tmp_path / "midflight.db", 3)
    for option, number in (("--since", 0), ("--until", 3)):
        told = await midflight(tmp_path, "audit", "export", option, "2999-01-01")
        assert len(told.stdout.splitlines()) == number
    told = await midflight(tmp_path, "audit", "export", "--since", "1h")
    assert len(told.stdout.splitlines()) == 3
    wrong = await midflight(tmp_path, "audit", "export", "--since", "yesterday")
    assert wrong.returncode == 1
    assert "is not a time" in wrong.stderr


@given(
    number=st.integers(1, 12),
    data=st.data(),
    deed=st.sampled_from(["change", "drop", "swap", "add"]),
)
def test_whatever_is_done_to_a_record_is_found(number: int, data: st.DataObject, deed: str) -> None:
    links, head = [], Head()
    for n in range(number):
        links.append(linked(head, f"record {n}".encode()))
        head = Head(links[-1].number, links[-1].digest)
    whole = list(links)
    at = data.draw(st.integers(0, number - 1))
    match deed:
        case "change":
            links[at] = replace(links[at], record=links[at].record + b" ")
        case "drop":
            del links[at]
        case "swap":
            other = data.draw(st.integers(0, number - 1))
            links[at], links[other] = links[other], links[at]
        case _:
            links.insert(at, replace(links[at], record=b"made up"))
    checker = Checker(head)
    faults = [fault for link in links for fault in checker.take(link)] + checker.end()
    assert bool(faults) == (links != whole)


# ── commands, and crashes ────────────────────────────────────────────────────────────────────


@pytest.mark.slow
async def test_commands_are_recorded_with_who_sits_there_and_from_which_process(
    tmp_path: Path,
) -> None:
    await chained(tmp_path / "midflight.db", 1)
    for command, status in (
        (("cancel", "last"), 0),
        (("kill", "all", "--yes"), 0),
        (("release", "all"), 0),
        (("purge", "--older-than", "1d", "--yes"), 0),
        (("token", "bot"), 0),
        (("token", "bot", "--revoke"), 0),
    ):
        done = await midflight(tmp_path, *command)
        assert done.returncode == status, done
    async with open_store(str(tmp_path / "midflight.db")) as store:
        _, *found = await audit_of(store)
    assert [(r["action"], r["outcome"]) for r in found] == [
        ("cancel", "done"),
        ("kill", "nothing"),
        ("release", "done"),
        ("purge", "nothing"),
        ("token created", "done"),
        ("token revoked", "done"),
    ]
    assert {r["door"] for r in found} == {"cli"}
    assert {r["role"] for r in found} == {"operator"}
    assert all("process" in r["address"] and r["by"] for r in found)


@pytest.mark.slow
async def test_no_kill_comes_between_a_control_and_its_record(tmp_path: Path) -> None:
    """Two processes control runs of one file until they are killed; journal and audit agree."""
    path = tmp_path / "journals.db"
    program = str(Path(__file__).with_name("presser.py"))
    with ExitStack() as stack:
        processes = [stack.enter_context(pressing(program, path, name)) for name in ("one", "two")]
        acknowledged = {
            tuple(next_line(process).split())
            for number, process in zip((12, 25), processes, strict=True)
            for _ in range(number)
        }

    async with open_store(str(path)) as store:
        recorded = {
            (r["target"], r["action"], str(r["about"]["position"]))
            for r in await audit_of(store)
            if r["outcome"] == "done" and r["action"] in ASKED.values()
        }
        journaled = {
            (row.journal, name, str(record.position))
            for row in await store.rows(Query(limit=100_000))
            for record in await store.read(row.journal)
            if (name := ASKED.get(type(record.event).stored_name())) is not None
        }
    assert journaled == recorded
    assert acknowledged <= recorded


ASKED = {"pause.requested": "pause", "resume.requested": "resume", "cancel.requested": "cancel"}


@contextmanager
def pressing(program: str, path: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    """A process that presses until it is killed, in the middle of whatever it does."""
    process = Forked(
        [sys.executable, program, str(path), name],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


async def test_who_is_refused_has_changed_nothing_and_is_on_record_before_hearing_of_it(
    driving: Open,
) -> None:
    async with driving(works) as control:
        run = await busy(control)
        before = (await control.state(run)).head
        with pytest.raises(MidflightError):
            await control.cancel(run, who=VERA)
        record = (await audit_of(control.store))[-1]
        assert (record["action"], record["by"], record["why"]) == ("cancel", "vera", "not_allowed")
        assert (await control.state(run)).head == before
        assert (await control.state(run)).phase is Phase.WAITING
