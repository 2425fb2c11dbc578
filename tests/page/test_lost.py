"""A server that is killed and comes back, and what is pressed while nobody hears it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Route, expect

from page.conftest import Desk, come_in
from page.glass import WAIT_MS, Glass
from page.scenes import SCENES
from page.theatre import Stage, Theatre

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    """A server that nobody else needs."""
    there = Theatre(tmp_path_factory.mktemp("frail"))
    there.open()
    there.come_in()
    yield there
    there.close()


@pytest.fixture(scope="module")
def seat(mortal: Theatre, browser: Browser) -> Iterator[Desk]:
    """A session outlives its server, so one will do."""
    there = Desk(browser, come_in(browser, mortal), mortal)
    yield there
    there.context.close()


@pytest.fixture
def frail(mortal: Theatre) -> Iterator[Theatre]:
    """A server of its own, which the test may kill; it is alive again behind it."""
    yield mortal
    if not mortal.alive:
        mortal.open()
    mortal.clear()


@pytest.fixture
def tab(frail: Theatre, seat: Desk) -> Iterator[Glass]:
    yield Glass(seat.context.new_page(), frail.url)
    seat.tidy()


@pytest.mark.picture
def test_a_server_that_is_killed_comes_back_and_the_page_with_it(
    frail: Theatre, tab: Glass
) -> None:
    stage = frail.begin()
    stage.give("fetch")
    tab.look_at(stage.run).says("Running", "Join revenue")

    frail.kill()
    tab.says("Reconnecting", "The agent keeps running")
    tab.step_is("Fetch customers", "Done")  # what was known stays readable
    tab.picture("reconnecting")
    assert tab.violations() == []
    tab.slots_read("Pause", "Redirect", "Cancel")
    expect(tab.slot(1)).to_contain_text("Sent when back online")
    expect(tab.slot(2)).to_contain_text("Sent when back; asks after 30 s")
    expect(tab.slot(3)).to_contain_text("Sent when back; asks after 30 s")
    frail.open()

    tab.says("Running", "Join revenue")
    stage.give("join")
    tab.says("Running", "Score churn risk")
    names = [step.split("\n")[0] for step in tab.page.locator(".step-name").all_inner_texts()]
    assert len(names) == len(set(names)) == 6


WAS_PAUSED: Final = "It was paused when the line was lost"
IS_SENT, ASKS, IS_OFF = "Sent when back online", "Sent when back; asks after", "When back online"
LAST_SEEN: Final = {
    "queued": ("It had not begun when the line was lost", IS_SENT, True),
    "pausing": ("It was pausing when the line was lost", ASKS, True),
    "paused": (WAS_PAUSED, ASKS, True),
    "at the cap": (WAS_PAUSED, IS_OFF, False),
    "taken over": (WAS_PAUSED, IS_OFF, False),
    "parked": (WAS_PAUSED, IS_OFF, False),
    "waiting": ("It waits for you", "One decision", True),
    "stale": ("It waits for you", "One decision", True),
    "cancelling": ("It was cancelling when the line was lost", "Not while cancelling", False),
}
"""What the bar says then, what its first slot does, and whether that can be pressed."""
ENDED: Final = ("done", "failed", "cancelled")


@pytest.mark.timeout(180)  # a tab for each state
def test_a_lost_line_says_how_the_run_stood_in_every_state(frail: Theatre, tab: Glass) -> None:
    tabs = {"queued": tab}
    for name in (*LAST_SEEN, *ENDED):
        here = tabs.setdefault(name, Glass(tab.page.context.new_page(), frail.url))
        here.look_at(SCENES[name].begin(frail).run).says(SCENES[name].word)
    frail.kill()

    for name, (detail, cost, pressable) in LAST_SEEN.items():
        tabs[name].says("Reconnecting", detail)
        tabs[name].slots_are(*SCENES[name].slots)
        first = tabs[name].slot(1)
        expect(first.locator(".cost")).to_have_text(re.compile(f"^{cost}"))
        expect(first).to_have_attribute("aria-disabled", "false" if pressable else "true")
    tabs["waiting"].page.bring_to_front()
    tabs["waiting"].press(1)  # what is asked can be read without the server
    expect(tabs["waiting"].page.locator(".card-title")).to_be_focused()
    for name in ENDED:
        tabs[name].says(SCENES[name].word)  # which cannot change any more


def test_a_pause_pressed_while_offline_is_sent_when_the_server_is_back(
    frail: Theatre, tab: Glass
) -> None:
    stage = frail.begin()
    tab.look_at(stage.run).says("Running")
    frail.kill()
    tab.says("Reconnecting")

    tab.press(1)
    expect(tab.page.locator(".status .what")).to_contain_text("Pause will be sent")
    frail.open()

    tab.says("Paused")
    assert stage.view["phase"] == "paused"


def test_a_pause_can_be_taken_back_before_it_was_sent(frail: Theatre, tab: Glass) -> None:
    stage = frail.begin()
    tab.look_at(stage.run).says("Running")
    frail.kill()
    tab.says("Reconnecting")
    tab.press(1)
    tab.page.get_by_role("button", name="Take back").click()
    frail.open()

    tab.says("Running")
    assert stage.view["phase"] == "running"


def redirected_offline(frail: Theatre, tab: Glass) -> Stage:
    stage = frail.begin()
    tab.look_at(stage.run).says("Running")
    frail.kill()
    tab.says("Reconnecting")
    tab.press(2)
    tab.rewrite.fill("Churn of May")
    tab.page.locator(".layer").get_by_role("button", name="Redirect").click()
    expect(tab.page.locator(".status .what")).to_contain_text("Redirect will be sent")
    return stage


def test_a_fresh_redirect_is_sent_when_the_server_is_back(frail: Theatre, tab: Glass) -> None:
    stage = redirected_offline(frail, tab)
    tab.stop_clock()  # so that it is fresh, however long the server takes to come back
    frail.open()

    expect(tab.changed.locator("ins")).to_contain_text("May", timeout=WAIT_MS)
    tab.says("Running")
    assert stage.view["brief"] == "Churn of May"


def test_an_old_redirect_asks_once_more_and_its_words_are_kept(frail: Theatre, tab: Glass) -> None:
    stage = redirected_offline(frail, tab)
    tab.page.evaluate("(now => { Date.now = () => now() + 31000 })(Date.now.bind(Date))")
    frail.open()

    asks = tab.page.get_by_role("group", name="Redirect was pressed")
    expect(asks).to_be_visible(timeout=WAIT_MS)
    asks.get_by_role("button", name="Keep going").click()
    tab.says("Running")
    assert stage.view["brief"] == "Churn of June"
    tab.press(2)
    expect(tab.rewrite).to_have_value("Churn of May")


def test_an_old_cancel_asks_once_more_before_it_is_sent(frail: Theatre, tab: Glass) -> None:
    stage = frail.begin()
    tab.look_at(stage.run).says("Running")
    frail.kill()
    tab.says("Reconnecting")
    tab.press(3)
    tab.page.evaluate("(now => { Date.now = () => now() + 31000 })(Date.now.bind(Date))")
    frail.open()

    asks = tab.page.get_by_role("group", name="Cancel was pressed")
    expect(asks).to_be_visible(timeout=WAIT_MS)
    assert stage.until("running", "queued")
    asks.get_by_role("button", name="Cancel").click()
    tab.says("Cancelled")


def test_a_fresh_cancel_is_sent_when_the_server_is_back(frail: Theatre, tab: Glass) -> None:
    stage = frail.begin()
    tab.look_at(stage.run).says("Running")
    frail.kill()
    tab.says("Reconnecting")
    tab.press(3)
    tab.stop_clock()
    frail.open()

    tab.says("Cancelled")
    assert stage.view["phase"] == "cancelled"


def test_a_start_whose_answer_was_lost_is_the_same_start_when_it_is_pressed_again(
    frail: Theatre, tab: Glass
) -> None:
    def die_behind_it(route: Route) -> None:
        if frail.alive:
            assert route.fetch().ok  # the run is on record, and nobody is told
            frail.kill()
        route.abort()

    tab.page.goto(frail.url)
    brief, start = tab.page.locator("#start"), tab.page.get_by_role("button", name="Start")
    brief.fill("Whales")
    tab.page.route("**/v1/runs", die_behind_it)
    start.click()
    expect(tab.page.locator("form .wrong")).to_contain_text("Cannot reach", timeout=WAIT_MS)
    expect(brief).to_have_value("Whales")
    tab.page.unroute_all()
    frail.open()
    tab.page.reload()
    expect(brief).to_have_value("Whales")
    start.click()

    expect(tab.page).to_have_url(re.compile("/runs/r-"), timeout=WAIT_MS)
    (run,) = frail.get("/v1/runs", search="Whales")["rows"]
    expect(tab.page).to_have_url(re.compile(run["journal"]))
    tab.page.goto(frail.url)
    brief.fill("Whales")
    start.click()
    expect(tab.page).to_have_url(re.compile("/runs/r-"), timeout=WAIT_MS)
    both = frail.get("/v1/runs", search="Whales")["rows"]
    assert len(both) == 2  # once it is answered, the same again is another one
