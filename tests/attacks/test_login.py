"""Another user of the same machine: what their server is sent does not let them in.

Browsers send a cookie to every port of a host, and every user can read all command lines.
"""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import anyio
import httpx
import pytest
from fastapi import APIRouter, WebSocket
from playwright.sync_api import Browser, Page, expect
from typing_extensions import override
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from demo.theatre import command, plain_environment
from midflight.control import Control
from midflight.interfaces.app import create_app
from midflight.interfaces.cli.commands.token_command import REDIRECT, open_privately
from midflight.interfaces.http.access.access import Access
from midflight.interfaces.http.access.keyring import Key, Keyring, Session
from midflight.journal.phases import Role
from midflight.stores.memory import MemoryStore
from page.theatre import Theatre
from server.house import opened, serving

SHELL = ".shell"


def session_in(keyring: Keyring) -> Session:
    session = keyring.exchange(keyring.code("olga", Role.OPERATOR))
    assert session is not None
    return session


def asking(port: int, cookie: str, page_secret: str | None) -> dict[str, str]:
    headers = {"cookie": f"midflight_{port}={cookie}", "x-midflight": "1"}
    return headers | ({} if page_secret is None else {"x-midflight-page": page_secret})


@pytest.mark.anyio
@pytest.mark.parametrize("page_secret", [None, "", "1", "mf_guess"])
async def test_the_cookie_alone_opens_no_route(page_secret: str | None) -> None:
    async with opened(Control(MemoryStore())) as house, house.client(None) as http:
        cookie = session_in(house.keyring).cookie
        headers = asking(house.port, cookie, page_secret)
        for path in ("/v1/me", "/v1/runs", "/v1/events?index=1", "/metrics"):
            async with http.stream("GET", path, headers=headers) as answer:
                assert (path, answer.status_code) == (path, 401)
        for path in ("/v1/operator/kill", "/v1/leave"):
            body = {"scope": "all", "reason": "mine now"}
            pressed = await http.post(path, json=body, headers=headers)
            assert (path, pressed.status_code) == (path, 401)
        async with house.client() as known:
            assert (await known.get("/v1/operator/switches")).json() == {"switches": []}


@pytest.mark.anyio
async def test_the_secrets_of_two_sessions_do_not_go_together() -> None:
    async with opened(Control(MemoryStore())) as house, house.client(None) as http:
        one, other = session_in(house.keyring), session_in(house.keyring)
        mixed = asking(house.port, one.cookie, other.page_secret)
        whole = asking(house.port, one.cookie, one.page_secret)
        assert (await http.get("/v1/me", headers=mixed)).status_code == 401
        assert (await http.get("/v1/me", headers=whole)).status_code == 200


@pytest.mark.anyio
async def test_a_websocket_needs_both_secrets_too() -> None:
    keyring, door = Keyring(), APIRouter()

    @door.websocket("/v1/talk")
    async def talk(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text(socket.state.who.by)
        await socket.close()

    app = create_app(Control(MemoryStore()), access=Access(keyring), doors=[door])
    async with serving(app) as port:
        session, url = session_in(keyring), f"ws://127.0.0.1:{port}/v1/talk"
        headers = {"cookie": f"midflight_{port}={session.cookie}"}
        for offered in ([], ["midflight"], ["midflight", "midflight.page.mf_guess"]):
            named = [Subprotocol(one) for one in offered] or None
            with pytest.raises(InvalidStatus):
                await connect(url, additional_headers=headers, subprotocols=named)
        whole = [Subprotocol("midflight"), Subprotocol(f"midflight.page.{session.page_secret}")]
        async with connect(url, additional_headers=headers, subprotocols=whole) as socket:
            assert socket.subprotocol == "midflight"
            assert await socket.recv() == "olga"


def test_a_session_of_an_older_version_has_no_second_secret_and_lets_nobody_in(
    tmp_path: Path,
) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    session = session_in(keyring)
    with keyring._changing() as kept:
        old = kept.sessions[0]
        kept.sessions = [Key(old.name, old.role, old.digest, old.until)]
    assert keyring.of_session(session.cookie, "") is None
    assert keyring.of_session(session.cookie, session.page_secret) is None


# ── in a browser ─────────────────────────────────────────────────────────────────────────────


class Thief:
    """A server of another user on another port of the same host, and what browsers send to it."""

    def __init__(self) -> None:
        thief = self
        self.cookies: list[str] = []

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                thief.cookies.append(self.headers.get("cookie", ""))
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><title>Lunch menu</title>")

            @override
            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @contextmanager
    def serving(self) -> Iterator[Thief]:
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            self.server.shutdown()
            thread.join()
            self.server.server_close()


def come_in(page: Page, theatre: Theatre, name: str) -> None:
    code = Keyring(theatre.folder / "keys.json").code(name, Role.OPERATOR)
    page.goto(f"{theatre.url}/#code={code}")
    expect(page.locator(SHELL)).to_be_visible()


@pytest.mark.slow
@pytest.mark.chromium
def test_a_server_on_another_port_is_sent_the_cookie_and_cannot_use_it(
    browser: Browser, theatre: Theatre
) -> None:
    with Thief().serving() as thief, browser.new_context() as context:
        page = context.new_page()
        come_in(page, theatre, "victim")
        page.goto(thief.url)
        stolen = next(cookie for cookie in thief.cookies if f"midflight_{theatre.port}" in cookie)

        kill = {"scope": "all", "reason": "mine now"}
        headers = {"cookie": stolen, "x-midflight": "1"}
        asked = httpx.get(f"{theatre.url}/v1/runs", headers=headers)
        pressed = httpx.post(f"{theatre.url}/v1/operator/kill", json=kill, headers=headers)
        assert (asked.status_code, pressed.status_code) == (401, 401)
        seen = page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
        assert "mf_" not in seen
        reached = page.evaluate(
            f"fetch('{theatre.url}/v1/runs', {{credentials: 'include'}})"
            ".then((answer) => answer.text(), () => 'kept from this page')"
        )
        assert reached == "kept from this page"


@pytest.mark.slow
@pytest.mark.chromium
def test_the_page_goes_on_after_a_reload_in_another_tab_and_after_a_restart(
    browser: Browser, theatre: Theatre
) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        come_in(page, theatre, "ann")
        page.reload()
        expect(page.locator(SHELL)).to_be_visible()
        second = context.new_page()
        second.goto(theatre.url)
        expect(second.locator(SHELL)).to_be_visible()
        theatre.kill()
        theatre.open()
        page.reload()
        for tab in (page, second):  # one was loaded anew, the other lives on; both are told news
            expect(tab.locator(SHELL)).to_be_visible()
        run = theatre.begin().run
        for tab in (page, second):
            expect(tab.locator(f".run-row[href$='{run}']")).to_be_visible()
        theatre.clear()


# ── the browser's command line ───────────────────────────────────────────────────────────────

BROWSER = """#!{python}
import os, sys, urllib.parse, pathlib
path = pathlib.Path(urllib.parse.unquote(urllib.parse.urlsplit(sys.argv[1]).path))
told = [sys.argv[1], oct(path.stat().st_mode), oct(path.parent.stat().st_mode), path.read_text()]
pathlib.Path({seen!r} + ".new").write_text("\\0".join(told))
os.rename({seen!r} + ".new", {seen!r})
"""


def until(condition: Callable[[], bool], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_the_code_stands_in_no_command_line_and_its_file_goes_once_it_is_used(
    tmp_path: Path,
) -> None:
    script, seen = tmp_path / "browser", tmp_path / "seen"
    script.write_text(BROWSER.format(python=sys.executable, seen=str(seen)), encoding="utf-8")
    script.chmod(0o700)
    environment = plain_environment(BROWSER=f"{script} %s", DISPLAY=":0")
    started = [part for part in command(tmp_path / "demo", "--json") if part != "--no-open"]
    with subprocess.Popen(started, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            until(seen.exists)
            address, file_mode, folder_mode, held = seen.read_text(encoding="utf-8").split("\0")
            file = Path(url2pathname(urlsplit(address).path))
            assert "mf_" not in address
            assert stat.S_IMODE(int(file_mode, 8)) == 0o600
            assert stat.S_IMODE(int(folder_mode, 8)) == 0o700
            assert file.exists()

            url = held.partition('href="')[2].partition('"')[0]
            page, _, code = url.partition("#code=")
            used = httpx.post(
                httpx.URL(page).join("/v1/session"),
                json={"code": code},
                headers={"x-midflight": "1"},
            )
            assert used.status_code == 200
            until(lambda: not file.parent.exists())
        finally:
            process.terminate()
            process.wait(timeout=20)


@pytest.mark.slow
@pytest.mark.chromium
def test_the_file_sends_a_browser_on_to_the_page(
    browser: Browser, theatre: Theatre, tmp_path: Path
) -> None:
    code = Keyring(theatre.folder / "keys.json").code("ann", Role.OPERATOR)
    file = tmp_path / "midflight.html"
    file.write_text(REDIRECT.format(url=f"{theatre.url}/#code={code}"), encoding="utf-8")
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(file.as_uri())
        expect(page.locator(SHELL)).to_be_visible()
        assert page.url == f"{theatre.url}/"


@pytest.mark.anyio
async def test_the_file_goes_when_nobody_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", "true %s")
    monkeypatch.setattr("midflight.interfaces.cli.commands.token_command.KEPT_S", 0.2)
    with anyio.fail_after(10):
        await open_privately("http://127.0.0.1:1/#code=mf_x", tmp_path, lambda: False)
    assert list(tmp_path.iterdir()) == []
