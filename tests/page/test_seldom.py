"""What is pressed seldom, and must work when it is: the thread's own links, keys, forms, lists."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from page import scenes
from page.conftest import Look
from page.glass import WAIT_MS, Glass
from page.theatre import Stage, Theatre, soon

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]


ASKED = """() => {
    window.asked = [];
    const post = MessagePort.prototype.postMessage;
    MessagePort.prototype.postMessage = function (told, ...more) {
        if (told?.ask) asked.push(told); // to the worker that has the line
        return post.call(this, told, ...more);
    };
}"""
LINES = "(box) => box.clientHeight / parseFloat(getComputedStyle(box).lineHeight)"


@pytest.fixture
def running(theatre: Theatre) -> Stage:
    return scenes.running(theatre)


def write(tab: Glass, text: str) -> None:
    tab.page.get_by_label("Message the agent").fill(text)


# ── the thread ───────────────────────────────────────────────────────────────────────────────────


def test_a_question_aside_is_answered_and_the_run_goes_on(running: Stage, look: Look) -> None:
    tab = look(running)
    tab.says("Running")
    write(tab, "how far are you?")
    tab.page.get_by_role("button", name="Ask aside").click()

    asked = tab.page.locator("li.from-me", has_text="how far are you?")
    expect(asked.locator(".outcome")).to_contain_text("Asked aside", timeout=WAIT_MS)
    answered = tab.page.locator(".lines li", has=tab.page.locator(".who", has_text="Aside"))
    expect(answered).to_contain_text("Score churn risk", timeout=WAIT_MS)
    expect(tab.page.get_by_label("Message the agent")).to_have_value("")
    tab.says("Running", "Score churn risk")


def test_who_says_stop_is_asked_in_the_thread_whether_to_cancel(running: Stage, look: Look) -> None:
    tab = look(running)
    tab.says("Running")
    write(tab, "stop")
    tab.page.keyboard.press("Enter")
    tab.says("Paused")
    tab.page.get_by_role("region", name="Messages").get_by_role(
        "button", name="Cancel the run"
    ).click()

    tab.says("Cancelled")
    expect(tab.page.get_by_role("button", name="Cancel the run")).to_have_count(0)


def test_work_that_was_kept_of_a_voice_that_was_cut_short_says_so(
    running: Stage, look: Look
) -> None:
    tab = look(running)
    tab.says("Running")
    running.press("cancel")
    tab.says("Cancelled")
    kept = tab.page.locator(".lines li.todo-card", has_text="Saved from this run")
    expect(kept).to_contain_text("Cancelled.", timeout=WAIT_MS)
    expect(kept).not_to_contain_text("heard")
    heard = {"text": "I have", "run": running.run}
    running.theatre.post(f"/v1/threads/{running.thread}/heard", heard)  # as a line by voice does

    expect(kept).to_contain_text(
        "Not all of this was heard: it was cut short while it spoke", timeout=WAIT_MS
    )
    cut = tab.page.locator(".lines li", has_text="Cut short: no more of it was heard")
    expect(cut).to_contain_text("I have")


def test_earlier_messages_are_shown_when_they_are_wanted(running: Stage, look: Look) -> None:
    for number in range(152):
        running.theatre.post(f"/v1/threads/{running.thread}/messages", {"text": f"note {number}."})
    tab = look(running)
    first = tab.page.locator("li.from-me", has_text="note 0.")
    expect(tab.page.locator("li.from-me", has_text="note 151.")).to_be_visible(timeout=WAIT_MS)
    expect(first).to_have_count(0)
    tab.page.get_by_role("button", name="Show earlier messages").click()

    expect(first).to_have_count(1)
    expect(tab.page.get_by_role("button", name="Show earlier messages")).to_have_count(0)


# ── lists ────────────────────────────────────────────────────────────────────────────────────────


def test_what_lives_is_listed_however_old_and_what_has_ended_when_it_is_wanted(
    theatre: Theatre, look: Look
) -> None:
    ended = theatre.begin("looker", "Lighthouse {stage}")
    ended.give("all")
    ended.until("done")
    living = theatre.begin("looker", "Whales {stage}")
    for _ in range(41):
        theatre.begin("looker", "Look {stage}").give("all")
    first = look(living)  # which is told more by the stream that it opens than who comes later
    tab = Glass(first.page.context.new_page(), theatre.url).look_at(living.run)
    rail = tab.page.get_by_role("navigation", name="Runs")
    now = rail.locator("section", has=tab.page.get_by_role("heading", name="Now"))
    expect(now).to_contain_text(f"Whales {living.name}", timeout=WAIT_MS)
    expect(rail).not_to_contain_text(f"Lighthouse {ended.name}")
    rail.get_by_role("button", name="Show earlier runs").click()

    expect(rail).to_contain_text(f"Lighthouse {ended.name}", timeout=WAIT_MS)


def test_from_anywhere_in_a_long_run_one_press_leads_to_where_it_is(
    theatre: Theatre, look: Look
) -> None:
    stage = theatre.begin("counter", input={"steps": 205, "recite": 110})
    stage.until_step("Recite")
    tab = look(stage)
    current = tab.page.locator("li[aria-current=step]")
    expect(current).to_be_in_viewport(timeout=WAIT_MS)
    tab.page.locator(".steps-pane").evaluate("(pane) => pane.scrollTo(0, 0)")
    expect(tab.step("Count 1").first).to_be_in_viewport(timeout=WAIT_MS)
    expect(current).to_have_count(0)
    tab.page.get_by_role("button", name="To step 206").click()

    expect(current).to_be_in_viewport(timeout=WAIT_MS)
    expect(tab.page.get_by_role("button", name="To step 206")).to_have_count(0)
    assert tab.page.locator(".step-saying > div").evaluate(LINES) == 4  # and no part of a fifth
    stage.press("cancel")


def test_the_timeline_tells_of_a_redirect_and_of_what_was_spent(
    theatre: Theatre, look: Look
) -> None:
    stage = scenes.changing(theatre)
    stage.press("redirect", text="Churn of May")
    tab = look(stage)
    tab.page.get_by_role("button", name="Timeline").click()

    picture = tab.page.locator(".timeline svg")
    expect(picture.locator(".mark-dot")).to_have_count(1)
    expect(picture.locator("path.spend")).to_be_visible()
    expect(picture).to_contain_text("Spent $0.42 of $2.00")
    expect(tab.page.locator(".happened")).to_contain_text("Redirect:")


def test_a_long_run_that_has_no_step_under_way_opens_at_its_last(
    theatre: Theatre, look: Look
) -> None:
    stage = theatre.begin("counter", input={"steps": 205})
    soon(lambda: stage.view["spent"]["steps"] == 205)  # now it reads, which is not on record yet
    tab = look(stage)
    last = tab.step("Count 205")
    expect(last).to_be_in_viewport()
    tab.page.locator(".steps-pane").evaluate("(pane) => pane.scrollTo(0, 0)")
    expect(last).to_have_count(0)
    tab.page.get_by_role("button", name="To step 205").click()

    expect(last).to_be_in_viewport()


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def test_one_key_leads_around_the_page_and_one_to_the_message(running: Stage, look: Look) -> None:
    tab = look(running)
    tab.says("Running")
    around = []
    for _ in range(4):
        tab.page.keyboard.press("F6")
        around.append(tab.page.evaluate("document.activeElement.closest('[id]').id"))
    assert sorted(around) == ["controls", "rail", "steps", "thread"]
    tab.page.keyboard.press("Shift+F6")
    back = tab.page.evaluate("document.activeElement.closest('[id]').id")
    assert back == around[-2]

    tab.page.keyboard.press("/")
    field = tab.page.get_by_label("Message the agent")
    expect(field).to_be_focused()
    expect(field).to_have_value("")
    tab.page.keyboard.type("a/b")
    expect(field).to_have_value("a/b")


def test_with_ctrl_a_message_is_sent_and_switched_to_at_once(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("clerk", "Look at churn {stage}")
    tab = look(stage)
    tab.says("Running", "Look")
    write(tab, f"also tell me about March {stage.name}")  # which would be incorporated
    tab.page.keyboard.press("Control+Enter")

    stage.until("paused")
    expect(tab.page).not_to_have_url(re.compile(stage.run), timeout=WAIT_MS)
    tab.says("Running")
    expect(tab.page.get_by_role("heading", level=1)).to_contain_text("March")


def test_escape_leaves_a_form_with_its_words_and_the_run_alone(
    theatre: Theatre, look: Look
) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    write(tab, "use the new prices")
    with tab.page.expect_response("**/messages"):
        tab.page.keyboard.press("Enter")
    edit = tab.page.locator("li.from-me").get_by_role("button", name="Edit")
    edit.click()
    tab.page.get_by_label("Edit your message").fill("use the old prices")
    with tab.unheard():
        tab.page.keyboard.press("Escape")
        expect(tab.page.get_by_label("Edit your message")).to_have_count(0)
        expect(edit).to_be_focused()
        tab.page.get_by_label("Search runs").fill("whales")
        tab.page.keyboard.press("Escape")
        expect(tab.page.get_by_label("Search runs")).to_have_value("whales")
        expect(edit).to_be_focused()  # where they came from
        settings = tab.page.get_by_role("button", name="Settings")
        settings.click()
        tab.page.get_by_role("dialog", name="Settings").wait_for()
        tab.page.keyboard.press("Control+.")
        tab.page.keyboard.press("Escape")
        expect(tab.page.get_by_role("dialog")).to_have_count(0)
        expect(settings).to_be_focused()
        stop_all = tab.page.get_by_role("button", name="Stop all agents")
        stop_all.click()
        tab.page.get_by_role("alertdialog").wait_for()
        tab.page.keyboard.press("Escape")
        expect(tab.page.get_by_role("alertdialog")).to_have_count(0)
        expect(stop_all).to_be_focused()
    tab.says("Running")
    edit.click()
    expect(tab.page.get_by_label("Edit your message")).to_have_value("use the old prices")


def test_escape_leaves_an_answer_with_its_words_and_the_run_alone(
    theatre: Theatre, look: Look
) -> None:
    tab = look(scenes.waiting(theatre))
    card = tab.page.get_by_role("group", name=re.compile("May this be done"))
    respond = card.get_by_role("button", name=re.compile("^Respond"))
    respond.click()
    card.get_by_role("textbox").fill("Ask Ana first")
    with tab.unheard():
        tab.page.keyboard.press("Escape")
        expect(card.get_by_role("textbox")).to_have_count(0)
        expect(card.locator(".card-title")).to_be_focused()
    tab.says("Waiting for you")
    respond.click()
    expect(card.get_by_role("textbox")).to_have_value("Ask Ana first")


# ── what was typed, and what was chosen, is kept ─────────────────────────────────────────────────


def test_the_brief_of_a_fork_and_an_edited_message_outlive_a_reload(
    theatre: Theatre, look: Look
) -> None:
    tab = look(scenes.failed(theatre))
    tab.says("Failed at step 2")
    write(tab, "use the new prices")
    tab.page.keyboard.press("Enter")
    tab.page.locator("li.from-me").get_by_role("button", name="Edit").click()
    tab.page.get_by_label("Edit your message").fill("use the old prices")
    tab.step("Fetch customers").get_by_role("button").first.click()
    fork = tab.page.get_by_role("button", name=re.compile("^Fork from here"))
    fork.click()
    expect(tab.page.get_by_label("Brief of the new run")).to_be_focused()
    tab.page.get_by_label("Brief of the new run").fill("Churn of May")
    tab.page.keyboard.press("Escape")
    expect(fork).to_be_focused()
    tab.page.reload()

    expect(tab.page.get_by_label("Edit your message")).to_have_value("use the old prices")
    tab.step("Fetch customers").get_by_role("button").first.click()
    expect(tab.page.get_by_label("Brief of the new run")).to_have_value("Churn of May")


def test_a_fork_that_is_pressed_twice_is_made_once(theatre: Theatre, look: Look) -> None:
    stage = scenes.failed(theatre)
    tab = look(stage)
    tab.step("Fetch customers").get_by_role("button").first.click()
    tab.page.get_by_role("button", name=re.compile("^Fork from here")).click()
    made = tab.page.get_by_role("button", name="Fork from step 1")
    made.evaluate("(button) => { button.click(); button.click(); }")

    expect(tab.page).not_to_have_url(re.compile(stage.run), timeout=WAIT_MS)
    rows = theatre.get("/v1/runs", thread=stage.thread)["rows"]
    assert len(rows) == 2


def test_another_run_is_begun_with_the_agent_that_was_at_work(theatre: Theatre, look: Look) -> None:
    tab = look(scenes.hasty(theatre))
    tab.says("Done")
    tab.press(1)

    expect(tab.page.get_by_role("combobox", name="Agent")).to_have_value("hasty", timeout=WAIT_MS)


# ── gates and banners ────────────────────────────────────────────────────────────────────────────


def test_a_session_that_is_ended_lets_nobody_in_again(running: Stage, look: Look) -> None:
    tab = look(running, session=running.theatre.session("zoe", "controller"))
    tab.says("Running")
    tab.page.get_by_role("button", name="Settings").click()
    tab.page.get_by_role("button", name="End this session").click()
    shut = tab.page.get_by_role("heading", name="This page needs a new link")
    expect(shut).to_be_visible(timeout=WAIT_MS)
    tab.page.reload()

    expect(shut).to_be_visible(timeout=WAIT_MS)
    assert running.view["phase"] == "running"


def test_retry_comes_in_once_the_server_answers(running: Stage, look: Look) -> None:
    tab = look(running)
    tab.page.route("**/v1/me", lambda route: route.abort())
    tab.page.reload()
    gate = tab.page.get_by_role("heading", name="Cannot reach the agent server")
    expect(gate).to_be_visible(timeout=WAIT_MS)
    tab.page.unroute("**/v1/me")
    tab.page.get_by_role("button", name="Retry").click()
    tab.says("Running")

    tab.page.route(f"**/v1/runs/{running.run}", lambda route: route.abort())
    tab.page.reload()
    missing = tab.page.get_by_text("Cannot reach the agent server.")
    expect(missing).to_be_visible(timeout=WAIT_MS)
    tab.page.unroute(f"**/v1/runs/{running.run}")
    tab.page.get_by_role("button", name="Retry").click()
    tab.says("Running")


def test_retry_in_the_banner_of_a_lost_line_asks_at_once(running: Stage, look: Look) -> None:
    tab = look(running)
    tab.says("Running")
    tab.page.context.set_offline(True)
    banner = tab.page.get_by_role("region", name="Connection")
    expect(banner).to_contain_text("The run is saved", timeout=WAIT_MS)
    tab.page.evaluate(ASKED)
    banner.get_by_role("button", name="Retry").click()
    assert tab.page.evaluate("asked.at(-1)") == {"ask": "retry", "evenIfLive": True}
    tab.page.context.set_offline(False)

    tab.says("Running")
    expect(banner).to_have_count(0)


def test_every_page_says_that_an_operator_has_stopped_something(
    theatre: Theatre, running: Stage, look: Look
) -> None:
    elsewhere = look(theatre.begin(brief="Something about whales"))
    elsewhere.says("Running")
    at_home = elsewhere.page.context.new_page()
    at_home.goto(theatre.url)
    at_home.locator("form.start").wait_for(timeout=WAIT_MS)
    scope = f"thread:{running.thread}"
    theatre.post("/v1/operator/kill", {"scope": scope, "reason": "wrong prices"})

    for page in (elsewhere.page, at_home):
        banner = page.get_by_role("region", name="Kill switch")
        thread = running.thread
        expect(banner).to_contain_text(f"Thread {thread} is stopped", timeout=WAIT_MS)
        expect(banner).to_contain_text(
            f"robot: wrong prices. New runs in thread {thread} are refused."
        )
    elsewhere.says("Running")
    theatre.post("/v1/operator/release", {"scope": scope})
    expect(at_home.get_by_role("region", name="Kill switch")).to_have_count(0, timeout=WAIT_MS)
