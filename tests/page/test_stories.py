"""A whole story at every size: begun, talked to, paused, turned, approved, cancelled, undone."""

from __future__ import annotations

import re
from functools import partial
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, expect

from page.conftest import Look
from page.glass import WAIT_MS, Glass
from page.sizes import WIDTHS, assert_slots_can_be_read, enlarge_text, size
from page.theatre import Stage, Theatre, soon

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]


class Reader:
    """Somebody at a screen of some size."""

    def __init__(self, tab: Glass, width: int) -> None:
        self.tab, self.page, self.width = tab, tab.page, width

    def turn_to(self, pane: str) -> None:
        if self.page.locator(".phone-head").is_visible():  # where they are tabs
            self.page.get_by_role("tab", name=re.compile(f"^{pane}")).click()

    def begin(self, brief: str) -> str:
        """By the form, from wherever the way to it is."""
        if not self.page.get_by_role("link", name="New run").is_visible():
            self.page.get_by_role("button", name="Runs").click()
        self.page.get_by_role("link", name="New run").click()
        self.page.get_by_label("What should the agent do?").fill(brief)
        self.page.get_by_role("combobox", name="Agent").select_option("errand")
        assert not self.tab.overflows()
        self.page.get_by_role("button", name="Start", exact=True).click()
        expect(self.page).to_have_url(re.compile("/runs/"), timeout=WAIT_MS)
        expect(self.page.get_by_role("heading", level=1)).to_contain_text(brief[:9])
        return self.page.url.rpartition("/")[2]

    def say(self, text: str) -> Locator:
        self.page.get_by_label("Message the agent").fill(text)
        send = self.tab.box(self.page.get_by_role("button", name="Send", exact=True))
        assert send["x"] + send["width"] <= self.width, send
        self.page.get_by_role("button", name="Send", exact=True).click()
        self.turn_to("Thread")
        return self.page.locator("li.from-me", has_text=text)

    def sees(self, word: str, detail: str = "") -> None:
        """The state, and all of the bar."""
        self.tab.says(word, detail)
        assert_slots_can_be_read(self.tab, (word, self.width))


def told_to(theatre: Theatre, reader: Reader) -> Stage:
    """A run that somebody has begun by the form."""
    stage = Stage(theatre, uuid4().hex[:8])
    theatre.stages.append(stage)
    stage.run = reader.begin(f"Run an errand {stage.name}")
    return stage


@pytest.mark.parametrize(
    ("width", "large"),
    [(820, False), (390, False), (320, False), (1280, True), (820, True), (390, True)],
)
def test_from_the_start_to_the_undo(theatre: Theatre, look: Look, width: int, large: bool) -> None:
    tab = look(theatre.begin("looker", "Look around {stage}"), **size(width))
    if large:
        enlarge_text(tab)
    reader = Reader(tab, width)
    stage = told_to(theatre, reader)
    reader.sees("Running", "Look")
    message = reader.say("also look at May")
    expect(message.locator(".outcome")).to_contain_text("Incorporated", timeout=WAIT_MS)
    reader.turn_to("Steps")

    turn_while_paused(reader, stage)
    stage.give("look", "send", "memo")
    approve(reader)
    reader.sees("Running", "Look again")
    cancel_and_undo(reader, stage)


def turn_while_paused(reader: Reader, stage: Stage) -> None:
    tab = reader.tab
    tab.press(1)
    reader.sees("Paused", "Nothing is running")
    tab.press(2)
    tab.rewrite.fill(f"Run two errands {stage.name}")
    assert not tab.overflows()
    for slot in (1, 2, 3):
        assert not tab.covered(tab.slot(slot))
    tab.page.get_by_role("button", name="Redirect and resume").click()
    reader.sees("Running", "Look")
    expect(tab.changed.locator("ins")).to_contain_text("two", timeout=WAIT_MS)


def approve(reader: Reader) -> None:
    tab = reader.tab
    reader.sees("Waiting for you", "email")
    tab.press(1)
    card = tab.page.get_by_role("group", name=re.compile("May this be done: email"))
    expect(card.locator(".card-title")).to_be_focused()
    button = card.get_by_role("button", name=re.compile("^Approve"))
    button.scroll_into_view_if_needed()
    assert not tab.covered(button)
    button.click()


def cancel_and_undo(reader: Reader, stage: Stage) -> None:
    tab = reader.tab
    expect(tab.slot(3)).to_contain_text("Undoes memo, email stays", timeout=WAIT_MS)
    tab.press(3)
    tab.says("Cancelling", "Undoing 1 of 1")
    stage.press("cancel", now=True)
    reader.sees("Cancelled")
    receipt = tab.page.get_by_role("region", name="Receipt")
    expect(receipt).to_contain_text("memo: could not be undone")
    expect(receipt).to_contain_text("final (irreversible)")
    stage.give("undo")
    tab.press(3)
    expect(receipt.locator("div", has_text=re.compile("^Undone"))).to_contain_text(
        "memo", timeout=WAIT_MS
    )
    assert not tab.overflows()


WATCH = """(parts) => {
    window.seen = [];
    const place = (part) => {
        const box = document.querySelector(part)?.getBoundingClientRect();
        return part + " " + (box ? [box.x, box.y, box.width, box.height].map(Math.round) : "gone");
    };
    const look = () => {
        const now = parts.map(place).join("; ");
        if (seen.at(-1)?.[0] !== now)
            seen.push([now, document.querySelector(".status .what b")?.textContent]);
        window.frames_seen = (window.frames_seen ?? 0) + 1;
        requestAnimationFrame(look);
    };
    look();
}"""


class Places:
    """Where the bar was in every frame that was drawn, from now on."""

    def __init__(self, tab: Glass, *parts: str) -> None:
        self.tab = tab
        tab.page.evaluate(WATCH, parts)

    def measure(self, about: str, word: str, detail: str = "") -> None:
        self.tab.says(word, detail)
        for number in (1, 2, 3):
            assert not self.tab.covered(self.tab.slot(number)), about

    def never_changed(self) -> None:
        enough = "window.frames_seen > 30"
        soon(partial(self.tab.page.evaluate, enough), "thirty frames")  # it did look
        seen = self.tab.page.evaluate("seen")
        assert len(seen) == 1, seen


@pytest.mark.parametrize("width", WIDTHS)
def test_the_bar_never_jumps_through_a_whole_run(theatre: Theatre, look: Look, width: int) -> None:
    stage = theatre.begin()
    tab = look(stage, **size(width))
    tab.says("Running", "Fetch customers")
    places = Places(tab, ".bar", ".slots")
    places.measure("first step", "Running", "Fetch customers")
    stage.give("fetch", "join")
    places.measure("third step", "Running", "Score churn risk")
    tab.press(1)
    places.measure("paused", "Paused")
    tab.press(1)
    places.measure("resumed", "Running")
    stage.give("score", "tasks", "memo", "send")
    places.measure("asks", "Waiting for you")
    tab.press(3)
    places.measure("cancels", "Cancelling")
    stage.give("undo")
    tab.says("Cancelled")
    tab.page.wait_for_timeout(200)
    places.never_changed()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_bar_never_jumps_for_what_opens_and_for_a_lost_line(
    theatre: Theatre, look: Look, width: int
) -> None:
    stage = theatre.begin()
    stage.give("fetch", "join")
    tab = look(stage, **size(width))
    tab.says("Running", "Score churn risk")
    places = Places(tab, ".bar-main", *(f'[data-slot="{number}"]' for number in (1, 2, 3)))
    places.measure("at rest", "Running", "Score churn risk")
    tab.step("Join revenue").get_by_role("button").first.click()
    expect(tab.step("Join revenue").locator(".step-details")).to_contain_text("84210")
    places.measure("details", "Running")
    tab.press(2)
    expect(tab.rewrite).to_be_focused()
    places.measure("redirect", "Running")
    tab.rewrite.fill("A brief that is much longer. " * 12)
    places.measure("redirect with much text", "Running")
    tab.page.get_by_role("button", name="Keep as is").click()

    tab.page.context.set_offline(True)
    places.measure("line lost", "Reconnecting")
    tab.press(2)
    places.measure("line lost, redirect", "Reconnecting")
    tab.page.get_by_role("button", name="Keep as is").click()
    expect(tab.page.get_by_role("region", name="Connection")).to_be_visible(timeout=WAIT_MS)
    places.measure("server gone", "Reconnecting")
    tab.page.context.set_offline(False)
    places.measure("line back", "Running")
    places.never_changed()
