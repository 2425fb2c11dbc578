"""How it looks: at every width and in every state, nothing covered, nothing that jumps."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from page.conftest import Look
from page.glass import WAIT_MS, Glass
from page.scenes import SCENES
from page.sizes import WIDTHS, assert_slots_can_be_read, enlarge_text, size
from page.theatre import Stage, Theatre

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(180)]
PICTURES = {(*one, "as they are") for one in (("running", 390), ("waiting", 390), ("running", 820))}
FIRST_LOAD_MAX = 200_000
OVERLAPS = """() => {
    const texts = [...document.querySelectorAll(".timeline svg text")]
        .map((text) => [text.textContent, text.getBoundingClientRect()]);
    const meet = (a, b) => a.left < b.right && b.left < a.right
        && a.top < b.bottom && b.top < a.bottom;
    return texts.flatMap(([one, a], at) => texts.slice(at + 1)
        .filter(([, b]) => meet(a, b)).map(([other]) => `${one} / ${other}`));
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_one_button_stands_out_and_nothing_is_written_small(
    held: dict[str, Stage], look: Look, width: int
) -> None:
    tab = look(held["running"], **size(width))
    for name, stage in held.items():
        tab.turn_to(stage).says(SCENES[name].word)
        assert len(tab.filled()) <= 1, (name, tab.filled())
        assert tab.small_print() == [], name
    tab.turn_to(held["paused"]).says("Paused")
    tab.press(2)
    expect(tab.rewrite).to_be_focused()
    tab.rewrite.fill("Something else")
    assert tab.filled() == ["Redirect and resume"]
    tab.page.get_by_role("button", name="Keep as is").click()
    tab.page.get_by_role("button", name="Timeline").click()
    expect(tab.page.locator(".timeline svg .rested")).to_be_visible(timeout=WAIT_MS)
    assert tab.small_print() == []
    assert tab.page.evaluate(OVERLAPS) == []
    if width > 700:
        tab.page.get_by_role("button", name="Settings").click()
        expect(tab.page.get_by_role("dialog", name="Settings")).to_be_visible(timeout=WAIT_MS)
        assert tab.small_print() == []


@pytest.mark.picture
@pytest.mark.parametrize("width", WIDTHS)
def test_at_every_size_the_bar_is_whole_and_each_control_of_each_state_can_be_read(
    held: dict[str, Stage], look: Look, width: int
) -> None:
    tab = look(held["running"], **size(width))
    for letters in ("as they are", "twice as large"):
        if letters == "twice as large":
            tab.turn_to(held["running"]).says("Running")
            enlarge_text(tab)
        for name, stage in held.items():
            tab.turn_to(stage).says(SCENES[name].word)
            tab.drawn()
            assert_slots_can_be_read(tab, (name, width, letters))
            if letters == "as they are":
                assert_bar_is_whole(tab, width, name)
            if (name, width, letters) in PICTURES:
                tab.picture(f"{name}-{width}")


def assert_bar_is_whole(tab: Glass, width: int, name: str) -> None:
    """On the screen as a whole, with nothing over it, and large enough for a finger."""
    (bar,) = tab.places(tab.bar)
    assert bar.y + bar.height <= WIDTHS[width] + 0.5, (name, width)
    slots = tab.places(tab.slots)
    assert slots, (name, width)
    for slot in slots:
        assert slot.height >= 44, (name, width, slot)
        assert slot.x >= 0, (name, width, slot)
        assert slot.x + slot.width <= width + 0.5, (name, width, slot)
        assert not slot.covered, (name, width)


@pytest.mark.parametrize(("width", "height"), [(640, 400), (844, 390), (568, 320), (1280, 400)])
def test_with_little_height_a_press_still_says_what_it_would_do(
    held: dict[str, Stage], look: Look, width: int, height: int
) -> None:
    tab = look(held["running"], viewport={"width": width, "height": height})
    for name in ("running", "waiting", "cancelled"):
        tab.turn_to(held[name]).says(SCENES[name].word)
        assert_slots_can_be_read(tab, (name, width, height))


def test_what_has_the_focus_is_never_under_the_bar(held: dict[str, Stage], look: Look) -> None:
    tab = look(held["waiting"], viewport={"width": 1280, "height": 420})
    for _ in range(40):
        tab.page.keyboard.press("Tab")
        hidden = tab.page.evaluate(
            """() => {
                const bar = document.querySelector(".bar"), now = document.activeElement;
                if (!now || now === document.body || bar.contains(now)) return false;
                const box = now.getBoundingClientRect();
                return box.height > 0 && box.bottom > bar.getBoundingClientRect().top + 2
                    && box.right > bar.getBoundingClientRect().left && box.top < innerHeight
                    && box.left < bar.getBoundingClientRect().right;
            }"""
        )
        assert not hidden, tab.page.evaluate("document.activeElement.outerHTML.slice(0, 200)")


LISTEN = """() => {
    window.heard = [];
    for (const region of document.querySelectorAll("[aria-live], [role=status], [role=alert]"))
        new MutationObserver(() => region.textContent.trim()
            && heard.push([region.getAttribute("role") ?? "log", region.textContent.trim()]))
            .observe(region, { childList: true, characterData: true, subtree: true });
}"""


def test_changes_of_state_are_announced_once_and_steps_not_at_all(
    theatre: Theatre, look: Look
) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    tab.page.wait_for_timeout(300)
    tab.page.evaluate(LISTEN)
    tab.press(1)
    tab.says("Paused")
    tab.press(1)
    tab.says("Running")
    stage.give("fetch", "join", "score", "tasks", "memo")
    tab.says("Waiting for you")
    tab.page.wait_for_timeout(300)

    heard = tab.page.evaluate("heard")
    assert heard.count(["status", "Pausing."]) <= 1  # it may be over before anybody sees it
    assert [one for one in heard if one[1] != "Pausing."] == [
        ["status", "Paused. Nothing is running or spending."],
        ["status", "Running."],
        ["alert", "Waiting for you. May this be done: email?"],
    ]


def test_what_the_agent_says_is_announced_once_when_it_is_finished(
    theatre: Theatre, look: Look
) -> None:
    stage = theatre.begin("clerk", "Look at churn {stage}")
    tab = look(stage)
    tab.says("Running", "Look")
    expect(tab.page.locator("li.from-me")).to_contain_text("Look at churn")  # the thread is there
    tab.page.evaluate(LISTEN)
    stage.give("look", "look again", "sum up")
    tab.says("Done")
    expect(tab.page.locator("[aria-live]").filter(has_text="I have looked.")).to_have_count(1)
    tab.page.wait_for_timeout(300)

    said = [words for region, words in tab.page.evaluate("heard") if region == "log"]
    assert said == ["I have looked."]


def test_the_first_load_is_small(theatre: Theatre, look: Look, held: dict[str, Stage]) -> None:
    tab = look(held["running"])
    with tab.weighed() as scripts:
        tab.page.reload()
        tab.says("Running")

    assert 0 < sum(scripts.values()) <= FIRST_LOAD_MAX, scripts


def test_nothing_comes_from_elsewhere_and_the_console_is_silent(
    held: dict[str, Stage], look: Look, theatre: Theatre
) -> None:
    tab = look(held["done"])
    said: list[str] = []
    asked: list[str] = []
    tab.page.on("console", lambda one: said.append(one.text))
    tab.page.on("pageerror", lambda error: said.append(str(error)))
    tab.page.on("request", lambda request: asked.append(request.url))
    for name in ("running", "waiting", "failed"):
        tab.look_at(held[name].run)
        expect(tab.page.locator(".status .what b")).to_be_visible(timeout=WAIT_MS)

    assert said == []
    assert all(url.startswith((theatre.url, "data:")) for url in asked)
