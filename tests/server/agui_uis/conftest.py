"""One server, one browser and the three pages, shared by all tests of this folder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Playwright, Request
from typing_extensions import override

from page.conftest import CHROMIUM, DESK, FLAGS, come_in
from page.glass import Glass
from page.theatre import Theatre
from server.agui_uis.screen import ASSISTANT_UI, CLIENT_1, COPILOTKIT, Screen

HERE = Path(__file__).resolve().parent
BUILT = HERE / "built"
UIS = [COPILOTKIT, ASSISTANT_UI, CLIENT_1]
LOOPBACK = "127.0.0.1"
BROKEN: dict[str, list[str]] = {}
"""What the scripts of a page have raised, by the name of its thread."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """With a failure goes what was on the screen."""
    made: Any = yield
    report, screen = made.get_result(), getattr(item, "funcargs", {}).get("screen")
    if report.when == "call" and report.failed and screen is not None:
        seen = screen.page.locator("body").aria_snapshot()
        report.sections.append(("on the screen", "\n".join([seen, *BROKEN[screen.name]])))


class Quiet(SimpleHTTPRequestHandler):
    """Files of the pages, without a line for each."""

    @override
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="session")
def pages() -> Iterator[str]:
    """The address of the built pages, which is another origin than the server's."""
    if not all((BUILT / f"{ui}.html").exists() for ui in UIS):
        pytest.fail("the pages are not built: run `make agui-uis`")
    with ThreadingHTTPServer((LOOPBACK, 0), partial(Quiet, directory=BUILT)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://{LOOPBACK}:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def desk(pages: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    """The server of ``midflight serve`` with our cast, which lets the pages in."""
    there = Theatre(tmp_path_factory.mktemp("agui_uis"))
    there.agents, there.options = "server.agui_uis.cast", ("--allow-origin", pages)
    there.open()
    there.come_in()
    yield there
    there.close()


@pytest.fixture(scope="session")
def token(desk: Theatre) -> str:
    return desk.token("ann", "controller")


@pytest.fixture(scope="session")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def known(chromium: Browser, desk: Theatre) -> Any:
    """The session of who has opened the printed link in our own page."""
    return come_in(chromium, desk)


@pytest.fixture
def ours(chromium: Browser, desk: Theatre, known: Any) -> Iterator[Glass]:
    """A tab with our own page."""
    context = chromium.new_context(storage_state=known, **DESK)
    yield Glass(context.new_page(), desk.url)
    context.close()


@pytest.fixture(params=UIS)
def screen(
    request: pytest.FixtureRequest, chromium: Browser, desk: Theatre, pages: str, token: str
) -> Iterator[Screen]:
    """A tab with a thread of its own; nothing that it loads comes from elsewhere."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    strange: list[str] = []
    context.route(lambda url: urlsplit(url).hostname != LOOPBACK, _refuse(strange))
    page = context.new_page()
    broken: list[str] = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    shown = Screen(page, request.param, desk, pages, token)
    BROKEN[shown.name] = broken
    yield shown.open()
    context.close()
    assert not strange, f"the page wanted something from elsewhere: {strange}"


def _refuse(strange: list[str]) -> Callable[[Any, Request], None]:
    def refuse(route: Any, request: Request) -> None:
        strange.append(request.url)
        route.abort()

    return refuse
