"""A real server, a real Chromium, and a tab that has come in by the printed link."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Playwright, expect

from page.glass import WAIT_MS, Glass
from page.scenes import SCENES
from page.theatre import Stage, Theatre

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--no-first-run"]
DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"}
Look = Callable[..., Glass]
expect.set_options(timeout=WAIT_MS)  # half of five seconds may be another program's
BROKEN: list[str] = []
"""What the scripts of the pages have raised, for the report of a failure."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """With a failure goes what was on the screen."""
    made: Any = yield
    report = made.get_result()
    opened: list[BrowserContext] = getattr(item, "funcargs", {}).get("opened", [])
    if report.when == "call" and report.failed:
        for page in (page for context in opened for page in context.pages):
            seen = f"{page.url}\n{page.locator('body').aria_snapshot()}"
            report.sections.append(("on the screen", seen))
        report.sections.append(("what broke in the page", "\n".join(BROKEN)))


@pytest.fixture(scope="session")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    there = Theatre(tmp_path_factory.mktemp("theatre"))
    there.open()
    there.come_in()
    yield there
    there.close()


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    yield chromium
    chromium.close()


@pytest.fixture(scope="session")
def known(browser: Browser, theatre: Theatre) -> Any:
    """The session of who has opened the printed link, once."""
    return come_in(browser, theatre)


def come_in(browser: Browser, theatre: Theatre) -> Any:
    """Open the printed link; gives the cookie that this has made."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{theatre.url}/#code={theatre.code}")
    expect(page.locator(".shell")).to_be_visible(timeout=WAIT_MS)
    assert "code=" not in page.url
    kept = context.storage_state()
    context.close()
    return kept


@pytest.fixture(scope="session")
def standing() -> dict[str, Stage]:
    """Runs that are only looked at, one in each state; whoever needs one first begins it."""
    return {}


@pytest.fixture
def held(theatre: Theatre, standing: dict[str, Stage]) -> dict[str, Stage]:
    """A run in each state, held still. One that another test has moved is begun anew."""
    for name, scene in SCENES.items():
        if name not in standing or standing[name].view["phase"] != scene.phase:
            standing[name] = scene.begin(theatre)
    theatre.stages.clear()  # they stay as they are when a test ends
    return standing


@pytest.fixture(autouse=True)
def cleared(theatre: Theatre) -> Iterator[None]:
    """What a test has left waiting does not wait beside the next one."""
    yield
    theatre.clear()


@pytest.fixture
def opened() -> Iterator[list[BrowserContext]]:
    """The browsers of this test, which are closed behind it."""
    contexts: list[BrowserContext] = []
    yield contexts
    for context in contexts:
        context.close()


@pytest.fixture
def contexts(
    browser: Browser, known: Any, opened: list[BrowserContext]
) -> Callable[..., BrowserContext]:
    """Browsers of people who have come in; each is one of its own."""

    def make(**options: Any) -> BrowserContext:
        opened.append(context := browser.new_context(storage_state=known, **DESK | options))
        context.set_default_timeout(WAIT_MS)
        return context

    return make


@pytest.fixture
def look(contexts: Callable[..., BrowserContext], theatre: Theatre) -> Look:
    """Look at a run in a tab of a browser of one's own."""

    def at(stage: Stage | str, cookie: str = "", **options: Any) -> Glass:
        context = contexts(**options)
        if cookie:
            context.clear_cookies()
            name = f"midflight_{theatre.port}"
            context.add_cookies([{"name": name, "value": cookie, "url": theatre.url}])
        page = context.new_page()
        page.on("pageerror", lambda error: BROKEN.append(f"{error}\n{error.stack}"))
        return Glass(page, theatre.url).look_at(stage if isinstance(stage, str) else stage.run)

    return at
