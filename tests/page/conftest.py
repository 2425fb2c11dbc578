"""A real server, a real Chromium, and a tab that has come in by the printed link."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect

from midflight.interfaces.http.access.keyring import Session
from page.glass import WAIT_MS, Glass
from page.scenes import SCENES
from page.sizes import WIDTHS, size
from page.theatre import Stage, Theatre

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or ""
"""The shell first: the whole one draws the same, and computes four times as much for a window."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--no-first-run"]
DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"}
STORED = "({...localStorage})"
RESTORE = "(kept) => { localStorage.clear(); Object.assign(localStorage, kept) }"
Look = Callable[..., Glass]
expect.set_options(timeout=WAIT_MS)  # half of five seconds may be another program's
BROKEN: list[str] = []
"""What the scripts of the pages have raised, for the report of a failure."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """With a failure goes what was on the screen."""
    made: Any = yield
    report = made.get_result()
    given = getattr(item, "funcargs", {})
    if report.when == "call" and report.failed:
        at_desk = given["desks"].tabs if "desks" in given else []
        elsewhere = [page for context in given.get("opened", []) for page in context.pages]
        for page in (*at_desk, *elsewhere):
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
    """Open the printed link; gives the cookie and the page secret that this has made."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{theatre.url}/#code={theatre.code}")
    expect(page.locator(".shell")).to_be_visible(timeout=WAIT_MS)
    assert "code=" not in page.url
    kept = context.storage_state()
    context.close()
    return kept


def come_in_as(context: BrowserContext, theatre: Theatre, session: Session) -> None:
    """Give a browser both halves of a session, as a link of their own would."""
    context.clear_cookies()
    name = f"midflight_{theatre.port}"
    context.add_cookies([{"name": name, "value": session.cookie, "url": theatre.url}])
    kept = f"localStorage.setItem('midflight-page:/', '{session.page_secret}')"
    context.add_init_script(f"if (location.origin === '{theatre.url}') {kept}")


class Desk:
    """A browser that stays open, with nothing left in it by whoever sat there before.

    A tab of it is a third of the work that a browser of one's own is, as long as one tab of its
    site stays: their process does. That one shows no page of ours, so no worker outlives a test.
    """

    def __init__(self, browser: Browser, known: Any, theatre: Theatre, **options: Any) -> None:
        self._browser, self._url = browser, f"{theatre.url}/v1/me"
        self._options = {"storage_state": known, **DESK, **options}
        self._sit_down()

    def _sit_down(self) -> None:
        self.context = self._browser.new_context(**self._options)
        self.context.set_default_timeout(WAIT_MS)
        self._stays = self.context.new_page()
        self._stays.goto(self._url)
        self._cookies = self.context.cookies()
        self._stored = self._stays.evaluate(STORED)

    @property
    def tabs(self) -> list[Page]:
        return [page for page in self.context.pages if page is not self._stays]

    def tidy(self) -> None:
        """Close every tab, and leave no line cut, nothing stored, and nobody else's cookie."""
        for page in self.tabs:
            page.close()
        self.context.set_offline(False)
        self._stays.evaluate(RESTORE, self._stored)  # a session's goes with its tab
        if self.context.cookies() != self._cookies:
            self.context.close()
            self._sit_down()


class Desks(dict[int, Desk]):
    """By the width of what stands there."""

    def __init__(self, make: Callable[[int], Desk]) -> None:
        self._make = make

    def __missing__(self, width: int) -> Desk:
        self[width] = self._make(width)
        return self[width]

    @property
    def tabs(self) -> list[Page]:
        return [tab for desk in self.values() for tab in desk.tabs]

    def free(self, options: dict[str, Any]) -> Desk | None:
        """The one for this screen; unless there is none, or somebody of this test sits there."""
        for width in WIDTHS:
            if DESK | options == DESK | size(width) and not self[width].tabs:
                return self[width]
        return None

    def tidy(self) -> None:
        for desk in self.values():
            desk.tidy()


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


@pytest.fixture(scope="session")
def desks(browser: Browser, known: Any, theatre: Theatre) -> Iterator[Desks]:
    """One for each size, once somebody has looked at something there."""
    made = Desks(lambda width: Desk(browser, known, theatre, **size(width)))
    yield made
    for desk in made.values():
        desk.context.close()


@pytest.fixture
def look(contexts: Callable[..., BrowserContext], desks: Desks, theatre: Theatre) -> Iterator[Look]:
    """Look at a run in a browser of one's own: a desk, if it is free and nothing else asked."""

    def at(stage: Stage | str, session: Session | None = None, **options: Any) -> Glass:
        desk = None if session else desks.free(options)
        context = desk.context if desk else contexts(**options)
        if session:
            come_in_as(context, theatre, session)
        page = context.new_page()
        page.on("pageerror", lambda error: BROKEN.append(f"{error}\n{error.stack}"))
        return Glass(page, theatre.url).look_at(stage if isinstance(stage, str) else stage.run)

    yield at
    desks.tidy()
