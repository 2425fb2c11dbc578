"""Who may come in, and with what: everything else is refused in words, and nothing changes."""

from __future__ import annotations

import fcntl
import json
import logging
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import anyio
import httpx
import pytest
from fastapi import FastAPI

from midflight.agents import agent
from midflight.control import Control
from midflight.errors import InvalidRequest, StoreBusy
from midflight.interfaces.app import create_app
from midflight.interfaces.http.access.access import HERE, Access
from midflight.interfaces.http.access.keyring import CODE_S, LOCK_S, Keyring
from midflight.interfaces.http.access.quotas import Quotas
from midflight.journal.phases import Phase, Role
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from server.house import PATIENT, House, opened, serving
from server.reader import Reader, status_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
Shared = tuple[House, Control, str]


@agent("idle")
async def idle(run: Run) -> None:
    await run.ask("And now?")


@asynccontextmanager
async def house_with_a_run(quotas: Quotas = PATIENT) -> AsyncIterator[tuple[House, Control, str]]:
    """Nobody drives here: what a request changes is in the journal, and nothing else is."""
    control = Control(MemoryStore())
    run = await control.start(idle, "wait")
    async with opened(control, [idle], quotas=quotas) as house:
        yield house, control, run


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[Shared]:
    """For stories in which nothing changes."""
    async with house_with_a_run() as there:
        yield there


async def cancelled(control: Control, run: str) -> bool:
    return (await control.state(run)).phase is Phase.CANCELLED


# ── tokens and roles ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("", 401),
        ("Bearer", 401),
        ("Bearer nonsense", 401),
        ("Bearer mf_" + "A" * 43, 401),
        ("Basic dXNlcjpwYXNz", 401),
        ("Bearer \xe4\xf6", 401),
    ],
)
async def test_who_is_not_known_changes_nothing(
    shared: Shared, authorization: str, status: int
) -> None:
    house, control, run = shared
    async with house.client(None) as http:
        headers = [(b"authorization", authorization.encode("latin-1"))] if authorization else []
        answer = await http.post(f"/v1/runs/{run}/cancel", json={}, headers=headers)

        assert (answer.status_code, answer.json()["error"]) == (status, "not_known")
        assert answer.json()["changed"] is False
        assert not await cancelled(control, run)


@pytest.mark.parametrize(
    ("role", "place", "body", "allowed"),
    [
        (Role.VIEWER, "/v1/runs/{run}/cancel", {}, False),
        (Role.VIEWER, "/v1/runs", {"agent": "idle", "brief": "more"}, False),
        (Role.CONTROLLER, "/v1/operator/kill", {"scope": "all"}, False),
        (Role.CONTROLLER, "/v1/operator/release", {"scope": "all"}, False),
        (Role.CONTROLLER, "/v1/runs/{run}/recover", {}, False),
        (Role.CONTROLLER, "/v1/runs/{run}/cancel", {}, True),
        (Role.OPERATOR, "/v1/operator/kill", {"scope": "all"}, True),
    ],
)
async def test_a_role_does_what_it_may_and_no_more(
    role: Role, place: str, body: Any, allowed: bool
) -> None:
    async with house_with_a_run() as (house, control, run), house.client(role) as http:
        before = (await control.state(run)).head
        answer = await http.post(place.format(run=run), json=body)

        assert answer.is_success is allowed
        if not allowed:
            assert (answer.status_code, answer.json()["error"]) == (403, "not_allowed")
            assert "needs the role" in answer.json()["message"]
            assert (await control.state(run)).head == before
            assert len(await control.runs()) == 1
            assert not await control.switches()


async def test_a_kill_needs_no_key_and_leaves_the_same_switch_when_it_is_repeated() -> None:
    async with house_with_a_run() as (house, control, _), house.client(Role.OPERATOR) as http:
        key = {"idempotency-key": "k-1"}
        for _ in range(2):
            killed = await http.post("/v1/operator/kill", json={"scope": "all"}, headers=key)
            assert killed.status_code == 200
        assert [switch.scope for switch in await control.switches()] == ["all"]

        for first in (True, False):
            freed = await http.post("/v1/operator/release", json={"scope": "all"}, headers=key)
            assert (freed.status_code, freed.json()) == (200, {"released": first})
        assert await control.switches() == []


async def test_a_viewer_sees_everything_and_asks_who_they_are(shared: Shared) -> None:
    house, _, run = shared
    async with house.client(Role.VIEWER) as http:
        me = (await http.get("/v1/me")).json()
        assert (me["by"], me["role"]) == ("the-viewer", "viewer")
        assert [agent["name"] for agent in me["agents"]] == ["idle"]
        assert me["server"]["store"] == "memory"
        for place in ("/v1/runs", f"/v1/runs/{run}", f"/v1/runs/{run}/records", "/metrics"):
            assert (await http.get(place)).status_code == 200


@pytest.mark.parametrize("name", ["token", "access_token", "code", "Token", "api_key"])
async def test_a_secret_in_a_query_is_refused_even_when_it_is_right(
    shared: Shared, name: str
) -> None:
    house, control, run = shared
    async with house.client() as http:
        token = house.tokens[Role.CONTROLLER]
        answer = await http.post(f"/v1/runs/{run}/cancel", params={name: token}, json={})

        assert (answer.status_code, answer.json()["error"]) == (400, "secret_in_url")
        assert token not in answer.text
        assert not await cancelled(control, run)


# ── host and origin ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost:x", "localhost:\xb2", "::1"]
)
async def test_another_name_for_this_server_is_refused(shared: Shared, host: str) -> None:
    house, control, run = shared
    token = house.tokens[Role.CONTROLLER]
    lines = [
        f"POST /v1/runs/{run}/cancel HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {token}",
    ]
    status, told = await status_of(house.port, lines)

    assert (status, told["error"]) == (421, "wrong_host")
    assert not await cancelled(control, run)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
async def test_a_page_of_another_site_is_refused(shared: Shared, origin: str) -> None:
    house, control, run = shared
    async with house.client() as http:
        answer = await http.post(f"/v1/runs/{run}/cancel", json={}, headers={"origin": origin})

        assert (answer.status_code, answer.json()["error"]) == (403, "wrong_origin")
        assert not await cancelled(control, run)


async def test_a_page_of_our_own_and_one_that_was_named_may_ask() -> None:
    keyring = Keyring()
    access = Access(keyring, origins=("https://desk.example",))
    async with opened(Control(MemoryStore()), access=access) as house, house.client() as http:
        for origin in (house.url, "https://desk.example"):
            assert (await http.get("/v1/me", headers={"origin": origin})).status_code == 200


@pytest.mark.parametrize("public", ["", "https://agents.example.com"])
@pytest.mark.parametrize("origin", ["", "http://", "http://[half", "ftp://127.0.0.1"])
async def test_what_is_no_origin_of_a_page_is_refused(public: str, origin: str) -> None:
    access = Access(Keyring(), public_url=public)
    async with opened(Control(MemoryStore()), access=access) as house, house.client() as http:
        answer = await http.get("/v1/me", headers={"origin": origin})

        assert (answer.status_code, answer.json()["error"]) == (403, "wrong_origin")


async def test_behind_tls_a_page_that_came_without_it_is_not_our_own() -> None:
    """Whoever is on the way can write such a page under our name. On loopback nobody is."""
    name = "agents.example.com"
    access = Access(Keyring(), hosts=(*HERE, name), public_url=f"https://{name}")
    async with opened(Control(MemoryStore()), access=access) as house, house.client() as http:
        there = {"host": name}
        plain = await http.get("/v1/me", headers={**there, "origin": f"http://{name}"})
        over_tls = await http.get("/v1/me", headers={**there, "origin": f"https://{name}"})
        here = await http.get("/v1/me", headers={"origin": house.url})

        assert (plain.status_code, plain.json()["error"]) == (403, "wrong_origin")
        assert (over_tls.status_code, here.status_code) == (200, 200)


DESK = "https://desk.example"


def let_through(answer: httpx.Response) -> dict[str, str]:
    """What a browser reads to know whether a page of another site may have this answer."""
    told = answer.headers.items()
    return {name: value for name, value in told if name.startswith("access-control-")}


async def preflight(http: httpx.AsyncClient, place: str, origin: str) -> httpx.Response:
    asks = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,idempotency-key",
    }
    return await http.options(place, headers=asks)


async def test_a_browser_may_ask_for_a_page_that_was_named_and_read_every_answer() -> None:
    control, keyring = Control(MemoryStore()), Keyring()
    run = await control.start(idle, "wait")
    async with (
        opened(control, [idle], access=Access(keyring, origins=(DESK,))) as house,
        house.client(None) as http,
    ):
        asked = await preflight(http, f"/v1/runs/{run}/cancel", DESK)
        assert (asked.status_code, asked.content) == (204, b"")
        allows = let_through(asked)
        assert allows["access-control-allow-origin"] == DESK
        assert allows["access-control-allow-credentials"] == "true"
        assert "POST" in allows["access-control-allow-methods"]
        names = set(allows["access-control-allow-headers"].split(", "))
        assert names == {
            "authorization",
            "content-type",
            "idempotency-key",
            "last-event-id",
            "x-midflight",
            "x-midflight-page",
        }
        assert int(allows["access-control-max-age"]) > 0
        assert not await cancelled(control, run)

        refused = await http.get("/v1/me", headers={"origin": DESK})
        bearer = {"origin": DESK, "authorization": f"Bearer {house.tokens[Role.CONTROLLER]}"}
        done = await http.post(f"/v1/runs/{run}/cancel", json={}, headers=bearer)
        assert (refused.status_code, done.status_code) == (401, 200)
        for answer in (refused, done):
            assert let_through(answer)["access-control-allow-origin"] == DESK
            assert let_through(answer)["access-control-allow-credentials"] == "true"
            assert "access-control-allow-methods" not in answer.headers
            assert answer.headers["vary"] == "Origin"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", f"{DESK}.evil.example", "*"])
async def test_a_page_that_was_not_named_is_told_nothing(origin: str) -> None:
    access = Access(Keyring(), origins=(DESK,))
    async with opened(Control(MemoryStore()), access=access) as house, house.client() as http:
        for place in ("/v1/runs", "/v1/session", "/healthz", "/"):
            asked = await preflight(http, place, origin)
            read = await http.get(place, headers={"origin": origin})

            assert (asked.status_code, read.status_code) == (403, 403)
            assert let_through(asked) == let_through(read) == {}


async def test_where_no_other_site_is_named_no_answer_speaks_of_any(shared: Shared) -> None:
    house, _, _run = shared
    async with house.client() as http:
        own = await http.get("/v1/me", headers={"origin": house.url})
        bare = await http.get("/v1/me")
        asked = await preflight(http, "/v1/runs", DESK)

        assert [own.status_code, bare.status_code, asked.status_code] == [200, 200, 403]
        assert let_through(own) == let_through(bare) == let_through(asked) == {}


async def test_without_a_key_only_the_question_of_a_browser_is_answered(shared: Shared) -> None:
    house, _, run = shared
    async with house.client(None) as http:
        assert (await http.options(f"/v1/runs/{run}/cancel")).status_code == 401
        elsewhere = await http.options("/v1/runs", headers={"origin": house.url})
        assert elsewhere.status_code == 401


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("[::1]", "midflight_http"),
        ("[::1]:8321", "midflight_8321"),
        ("localhost", "midflight_http"),
        ("127.0.0.1:80", "midflight_80"),
    ],
)
async def test_a_cookie_is_named_after_the_port_however_the_host_is_written(
    host: str, name: str
) -> None:
    async with house_with_a_run() as (house, _, _run), house.client(None) as http:
        http.headers["host"] = host
        answer = await come_in(http, house.keyring.code("ann"))

        assert answer.status_code == 200
        assert answer.headers["set-cookie"].startswith(f"{name}=mf_")


# ── the browser's way in ─────────────────────────────────────────────────────────────────────


async def come_in(http: httpx.AsyncClient, code: str) -> httpx.Response:
    answer = await http.post("/v1/session", json={"code": code}, headers={"x-midflight": "1"})
    if answer.is_success:
        http.headers["x-midflight-page"] = answer.json()["page_secret"]
    return answer


def told_who(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.json().items() if name != "page_secret"}


async def test_a_code_is_exchanged_once_for_a_cookie_that_scripts_cannot_read() -> None:
    async with house_with_a_run() as (house, control, run), house.client(None) as http:
        code = house.keyring.code("ann", Role.CONTROLLER)
        answer = await come_in(http, code)

        assert told_who(answer) == {"by": "ann", "role": "controller"}
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "Secure" not in cookie  # over plain HTTP on loopback it would not come back
        assert "SameSite=strict" in cookie
        assert code not in cookie
        assert (await come_in(http, code)).status_code == 401

        assert (await http.get("/v1/me")).json()["by"] == "ann"
        bare = await http.post(f"/v1/runs/{run}/cancel", json={})
        assert (bare.status_code, bare.json()["error"]) == (403, "header_missing")
        assert not await cancelled(control, run)
        pressed = await http.post(
            f"/v1/runs/{run}/cancel", json={}, headers={"x-midflight": "1", "origin": house.url}
        )
        assert pressed.status_code == 200
        assert await cancelled(control, run)

        await http.post("/v1/leave", headers={"x-midflight": "1"})
        stolen = cookie.partition(";")[0]
        assert (await http.get("/v1/me", headers={"cookie": stolen})).status_code == 401


async def test_behind_tls_the_cookie_is_sent_over_tls_alone_whatever_the_proxy_says() -> None:
    public = "https://agents.example.com"
    hosts = ("127.0.0.1", "agents.example.com")
    access = Access(Keyring(), hosts=hosts, public_url=public)
    async with (
        opened(Control(MemoryStore()), access=access) as house,
        house.client(None) as http,
    ):
        for headers in ({"host": "agents.example.com", "origin": public}, {"origin": public}):
            code = house.keyring.code("ann")
            answer = await http.post(
                "/v1/session", json={"code": code}, headers={"x-midflight": "1", **headers}
            )
            assert answer.status_code == 200, answer.text
            assert "Secure" in answer.headers["set-cookie"]


async def test_an_old_code_and_a_made_up_session_are_worth_nothing() -> None:
    now = [1000.0]
    keyring = Keyring(clock=lambda: now[0])
    async with (
        opened(Control(MemoryStore()), access=Access(keyring)) as house,
        house.client(None) as http,
    ):
        code = keyring.code("ann")
        now[0] += CODE_S + 1
        assert (await come_in(http, code)).status_code == 401
        forged = {"cookie": f"midflight_{house.port}=mf_{'A' * 43}"}
        assert (await http.get("/v1/me", headers=forged)).status_code == 401


async def test_without_the_custom_header_no_code_is_used_up() -> None:
    async with house_with_a_run() as (house, _, _run), house.client(None) as http:
        code = house.keyring.code("ann")
        bare = await http.post("/v1/session", json={"code": code})
        assert (bare.status_code, bare.json()["error"]) == (403, "header_missing")
        assert (await come_in(http, code)).status_code == 200


async def test_a_code_made_elsewhere_lets_its_person_in_with_their_role(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    keys = tmp_path / "keys.json"
    async with (
        opened(Control(MemoryStore()), access=Access(Keyring(keys))) as house,
        house.client(None) as http,
    ):
        code = Keyring(keys).code("vera", Role.VIEWER)  # another process, while this one serves
        answer = await come_in(http, code)

        assert told_who(answer) == {"by": "vera", "role": "viewer"}
        kill = {"scope": "all", "reason": "to see"}
        refused = await http.post("/v1/operator/kill", json=kill, headers={"x-midflight": "1"})
        assert refused.status_code == 403
    audited = [r for r in caplog.records if r.name == "midflight.audit"]
    assert [(r.by, r.role) for r in audited] == [("vera", "viewer")] * 2  # type: ignore[attr-defined]
    ours = [r for r in caplog.records if r.name.startswith(("midflight", "uvicorn", "fastapi"))]
    assert code not in "".join(f"{r.getMessage()}{r.__dict__}" for r in ours)


def test_of_many_that_use_one_code_at_once_one_comes_in(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    servers = [Keyring(keys) for _ in range(8)]
    for _ in range(20):
        code = servers[0].code("ann")
        at_once = Barrier(len(servers))

        def exchanged(server: Keyring, code: str = code, at_once: Barrier = at_once) -> bool:
            at_once.wait(10)
            return server.exchange(code) is not None

        with ThreadPoolExecutor(len(servers)) as together:
            assert sum(together.map(exchanged, servers)) == 1


def test_codes_are_kept_as_digests_until_they_are_used_or_too_old(tmp_path: Path) -> None:
    now, keys = [1000.0], tmp_path / "keys.json"
    keyring = Keyring(keys, clock=lambda: now[0])
    code = keyring.code("ann")
    assert code not in keys.read_text(encoding="utf-8")
    assert [one["name"] for one in json.loads(keys.read_bytes())["codes"]] == ["ann"]

    now[0] += CODE_S + 1
    keyring.code("bob")
    assert [one["name"] for one in json.loads(keys.read_bytes())["codes"]] == ["bob"]


def test_who_is_revoked_cannot_use_a_link_that_they_were_given(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    code = keyring.code("ann")

    assert keyring.revoke("ann")
    assert keyring.exchange(code) is None


def test_a_code_that_nobody_gave_leaves_the_file_alone(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keyring = Keyring(keys)
    keyring.code("ann")
    before = keys.stat()

    assert keyring.exchange("mf_" + "A" * 43) is None
    assert keys.stat() == before


def test_a_code_whose_use_could_not_be_written_down_can_still_be_used(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    code = keyring.code("ann")
    in_the_way = tmp_path / "keys.new"
    in_the_way.mkdir()
    with pytest.raises(OSError, match=r"keys\.new"):
        keyring.exchange(code)
    in_the_way.rmdir()

    assert keyring.exchange(code) is not None
    assert keyring.exchange(code) is None


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """As a process holds it that was stopped in the middle."""
    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_keys_that_another_process_does_not_let_go_of_are_not_waited_for_without_end(
    tmp_path: Path,
) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    code = keyring.code("ann")

    with (
        held(tmp_path / "keys.lock"),
        pytest.raises(StoreBusy, match=r"keys\.lock.* Nothing was changed"),
    ):
        keyring.exchange(code)

    assert keyring.exchange(code) is not None


async def test_who_waits_for_the_keys_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    access = Access(Keyring(tmp_path / "keys.json"))
    async with opened(Control(MemoryStore()), access=access) as house, house.client() as http:
        code, told = house.keyring.code("ann"), list[httpx.Response]()

        async def comes_in() -> None:
            body, headers = {"code": code}, {"x-midflight": "1"}
            told.append(await http.post("/v1/session", json=body, headers=headers))

        with held(tmp_path / "keys.lock"):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(comes_in)
                await anyio.sleep(LOCK_S / 10)
                assert (await http.get("/v1/me")).status_code == 200
                assert told == []
        assert (told[0].status_code, told[0].json()["error"]) == (503, "store_busy")


# ── keys at rest ─────────────────────────────────────────────────────────────────────────────


def test_keys_are_kept_as_digests_that_only_their_owner_may_read(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    keyring = Keyring(path)
    token, session = keyring.issue("robot", "viewer"), keyring.exchange(keyring.code("ann"))
    assert session is not None

    text = path.read_text(encoding="utf-8")
    assert token not in text
    assert session.cookie not in text
    assert session.page_secret not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lock = tmp_path / "keys.lock"
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600  # whoever may open it can hold it
    again = Keyring(path)
    robot, ann = again.of_token(token), again.of_session(session.cookie, session.page_secret)
    assert robot is not None
    assert (robot.by, robot.role, robot.channel) == ("robot", Role.VIEWER, "http")
    assert ann is not None
    assert ann.by == "ann"
    assert again.revoke("robot")
    assert again.of_token(token) is None
    assert not again.revoke("robot")


def test_a_new_token_of_a_name_replaces_the_old_one() -> None:
    keyring = Keyring()
    old, new = keyring.issue("robot"), keyring.issue("robot")

    assert keyring.of_token(old) is None
    assert keyring.of_token(new) is not None


@pytest.mark.parametrize(("name", "role"), [("", "viewer"), ("a/b", "viewer"), ("ann", "king")])
def test_a_key_needs_a_name_and_a_role_that_can_be(name: str, role: str) -> None:
    with pytest.raises(InvalidRequest, match="No key was made"):
        Keyring().issue(name, role)


def test_a_file_that_holds_no_keys_is_named(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InvalidRequest, match="is not a file of keys"):
        Keyring(path)


# ── the rest ─────────────────────────────────────────────────────────────────────────────────


async def test_every_control_leaves_a_line_of_audit_without_any_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with house_with_a_run() as (house, _, run), house.client(Role.VIEWER) as viewer:
        await viewer.post(f"/v1/runs/{run}/cancel", json={})
        async with house.client() as http:
            await http.post(f"/v1/runs/{run}/cancel", json={})
            await come_in(http, house.keyring.code("ann"))

    lines = [r for r in caplog.records if r.name == "midflight.audit"]
    told = [(r.by, r.status, r.route, r.target) for r in lines[:2]]  # type: ignore[attr-defined]
    place = "/v1/runs/{run}/cancel"
    assert told == [
        ("the-viewer", 403, place, {"run": run}),
        ("the-controller", 200, place, {"run": run}),
    ]
    assert (lines[1].verb, lines[1].position) == ("cancel", 2)  # type: ignore[attr-defined]
    ours = [r for r in caplog.records if r.name.startswith(("midflight", "uvicorn", "fastapi"))]
    assert "mf_" not in "".join(f"{r.getMessage()}{r.__dict__}" for r in ours)


async def test_who_is_too_quick_is_told_when_to_come_back() -> None:
    quick = Quotas(requests_per_s=0.01, burst=3)
    async with house_with_a_run(quick) as (house, _, _run), house.client() as http:
        answers = [await http.get("/v1/me") for _ in range(5)]

        assert [answer.status_code for answer in answers][:3] == [200, 200, 200]
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert answers[-1].json()["message"].count("Nothing was changed.") == 1
        async with house.client(Role.VIEWER) as other:
            assert (await other.get("/v1/me")).status_code == 200


async def test_streams_are_counted_and_given_back() -> None:
    few = Quotas(streams=2)
    async with house_with_a_run(few) as (house, _, run), house.client() as http:
        watcher = Reader(house.port, house.tokens[Role.CONTROLLER], [run])
        async with watcher.connected() as first, watcher.connected() as second:
            await first.receive()
            await second.receive()
            third = await http.get("/v1/events", params={"watch": run})
            assert (third.status_code, third.json()["error"]) == (429, "too_many_streams")
        with anyio.fail_after(20):
            while house.app.state.meter.streams:  # noqa: ASYNC110 - nobody tells us
                await anyio.sleep(0.01)
        async with watcher.connected() as again:
            assert b"200 OK" in await again.receive()


async def test_health_is_open_to_all_and_says_little(shared: Shared) -> None:
    house, _, _run = shared
    async with house.client(None) as http:
        assert (await http.get("/healthz")).json() == {"ok": True, "store": "answers"}
        assert (await http.get("/openapi.json")).status_code == 200
        assert (await http.get("/metrics")).status_code == 401


async def test_figures_are_in_the_format_of_prometheus() -> None:
    async with house_with_a_run() as (house, _, run), house.client() as http:
        await http.post(f"/v1/runs/{run}/pause", json={})
        answer = await http.get("/metrics")

        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = answer.text.splitlines()
        route = 'route="/v1/runs/{run}/pause",method="POST",status="200"'
        assert f"midflight_requests_total{{{route}}} 1" in lines
        assert 'midflight_runs{phase="paused"} 1' in lines
        assert "# TYPE midflight_runs gauge" in lines


async def test_it_can_be_mounted_into_an_app_of_ones_own() -> None:
    control, keyring = Control(MemoryStore()), Keyring()
    token = keyring.issue("robot", "controller")
    mine = FastAPI()
    mine.mount("/agents", create_app(control, agents=[idle], access=Access(keyring)))
    async with (
        serving(mine) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/agents") as http,
    ):
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.get("/v1/runs")).status_code == 401
        bearer = {"authorization": f"Bearer {token}"}
        started = await http.post(
            "/v1/runs", json={"agent": "idle", "brief": "wait"}, headers=bearer
        )
        assert started.status_code == 201
        answer = await come_in(http, keyring.code("ann"))
        assert "Path=/agents" in answer.headers["set-cookie"]
        assert (await http.get("/v1/me")).json()["by"] == "ann"


def test_without_its_extra_the_error_names_it() -> None:
    code = "import sys; sys.modules['fastapi'] = None; import midflight.interfaces.http"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30
    )

    assert done.returncode == 1
    assert "pip install './midflight[server]'" in done.stderr
