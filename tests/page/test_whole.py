"""The page is never empty: it says what it waits for and what broke, and the bar outlives it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

from page.conftest import Look
from page.glass import WAIT_MS, Glass
from page.theatre import Stage, Theatre, soon

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]
SELDOM_DRAWN = """() => {
    const soon = requestAnimationFrame.bind(window);
    window.requestAnimationFrame = (draw) => setTimeout(() => soon(draw), 1_200);
}"""


@pytest.fixture
def running(theatre: Theatre) -> Stage:
    stage = theatre.begin()
    stage.until("running")
    return stage


def test_a_clock_that_ticks_while_another_run_is_looked_up_breaks_nothing(
    theatre: Theatre, running: Stage, look: Look
) -> None:
    other = theatre.begin("clerk", "Something about whales {stage}")
    tab = look(running)
    tab.says("Running")
    tab.page.evaluate(SELDOM_DRAWN)  # as on a machine that is very busy

    tab.go_on_to(other.thread)  # whose run must be asked for
    expect(tab.page.get_by_role("heading", level=1)).to_contain_text("whales", timeout=WAIT_MS)
    tab.says("Running")


def taken_from(held: list[Route], tab: Glass) -> Route:
    """What is said to be under way may not have been asked for yet."""

    def come() -> list[Route]:
        tab.page.wait_for_timeout(20)
        return held

    return soon(come, "the request").pop()


def test_what_takes_long_is_said_to_be_under_way(running: Stage, look: Look) -> None:
    tab = look(running)
    held: list[Route] = []
    tab.page.route("**/v1/me", lambda route: held.append(route))
    tab.page.reload()
    expect(tab.page.get_by_text("Coming in")).to_be_visible(timeout=WAIT_MS)
    taken_from(held, tab).continue_()
    tab.says("Running")

    tab.page.unroute("**/v1/me")
    other = running.theatre.begin()
    tab.page.route(f"**/v1/runs/{other.run}", lambda route: held.append(route))
    tab.page.goto(f"{running.theatre.url}/runs/{other.run}")
    expect(tab.page.get_by_text("Loading the run")).to_be_visible(timeout=WAIT_MS)
    assert tab.violations() == []
    taken_from(held, tab).continue_()
    tab.says("Running")


def breaks(tab: Glass, chunk: str) -> None:
    """A part of the page that is loaded when it is wanted is not to be had."""
    tab.page.route(f"**/assets/{chunk}-*.js", lambda route: route.abort())


def test_a_pane_that_breaks_says_so_and_leaves_the_bar(running: Stage, look: Look) -> None:
    tab = look(running)
    tab.says("Running")
    breaks(tab, "Timeline")
    tab.page.get_by_role("button", name="Timeline").click()

    broken = tab.page.get_by_role("alert").filter(has_text="The steps cannot be shown")
    expect(broken).to_contain_text("Nothing was changed", timeout=WAIT_MS)
    assert tab.violations() == []
    tab.press(1)
    tab.says("Paused")
    assert running.view["phase"] == "paused"
    tab.page.unroute("**/assets/Timeline-*.js")
    broken.get_by_role("button", name="Reload").click()
    tab.step_is("Fetch customers", "Paused")


def test_a_dialog_that_breaks_leaves_run_and_bar(running: Stage, look: Look) -> None:
    tab = look(running)
    tab.says("Running")
    breaks(tab, "Settings")
    tab.page.get_by_role("button", name="Settings").click()

    broken = tab.page.get_by_role("alert").filter(has_text="The list of runs cannot be shown")
    expect(broken.get_by_role("button", name="Reload")).to_be_visible(timeout=WAIT_MS)
    tab.says("Running")
    tab.step_is("Fetch customers", "Running")


NEWS_THAT_BREAK = 'event: switches\ndata: {"at": 1, "switches": null}\n\n'


def test_a_page_that_breaks_as_a_whole_says_so_and_comes_back(running: Stage, look: Look) -> None:
    tab = look(running)
    tab.page.add_init_script("delete window.SharedWorker")  # so that this tab has its own line
    news = {"content_type": "text/event-stream", "body": NEWS_THAT_BREAK}
    tab.page.route("**/v1/events?*", lambda route: route.fulfill(**news))
    tab.page.reload()

    broken = tab.page.get_by_role("alert").filter(has_text="This page cannot be shown")
    expect(broken).to_contain_text("the agent goes on", timeout=WAIT_MS)
    assert tab.violations() == []
    assert running.view["phase"] == "running"
    tab.page.unroute("**/v1/events?*")
    broken.get_by_role("button", name="Reload").click()
    tab.says("Running")


NO_WORKER = {
    "is not there": """
        const Worker = SharedWorker;
        window.SharedWorker = class extends Worker {
            constructor(url, options) { super(new URL("nowhere.js", url), options); }
        };""",
    "says nothing": """
        window.SharedWorker = function () { return { port: new MessageChannel().port1 }; };
        const later = setTimeout;
        window.setTimeout = (does, ms, ...more) => later(does, ms === 10_000 ? 2_000 : ms, ...more);
    """,
}
"""Ways in which the worker that has the line of all tabs can fail, for whatever reason."""


@pytest.mark.parametrize("worker", NO_WORKER)
def test_a_tab_whose_worker_fails_has_a_line_of_its_own(
    running: Stage, look: Look, worker: str
) -> None:
    tab = look(running)
    tab.page.add_init_script(NO_WORKER[worker])
    tab.page.reload()

    tab.says("Running", "Fetch customers")
    tab.press(1)
    tab.says("Paused")
