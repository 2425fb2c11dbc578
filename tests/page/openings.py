"""What can be open on the page beside the bare run: layers, forms, dialogs, gates, banners.

Each is opened by hand as a person would, and then held still for who looks at it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from playwright.sync_api import Route, expect

from page import scenes
from page.glass import WAIT_MS, Glass
from page.theatre import Stage, Theatre, soon

Opening = Callable[[Theatre, Glass], None]
FIELDS: Final = {
    "type": "object",
    "properties": {"city": {"type": "string", "minLength": 1}, "late": {"type": "boolean"}},
    "required": ["city"],
}
LATER: Final = "(now => { Date.now = () => now() + 31000 })(Date.now.bind(Date))"


def raise_cap(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.capped(theatre).run).says("Paused at the cap")
    tab.press(1)
    expect(tab.page.get_by_label("Money, $")).to_be_focused()


def hand_back(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.taken_over(theatre).run).says("robot has it")
    tab.press(1)
    expect(tab.note).to_be_focused()


def redirect(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.running(theatre).run).says("Running")
    tab.press(2)
    expect(tab.rewrite).to_be_focused()


def confirm(theatre: Theatre, tab: Glass) -> None:
    stage = sending(theatre)
    tab.look_at(stage.run).says("Running", "Send memo")
    tab.press(3)
    expect(tab.page.get_by_role("group", name=re.compile("email is under way"))).to_be_visible()


def sending(theatre: Theatre) -> Stage:
    """With an effect in flight that cannot be stopped."""
    stage = theatre.begin(brief=scenes.TITLE)
    stage.give("fetch", "join", "score", "tasks", "memo")
    stage.until("waiting")
    (asked,) = stage.view["questions"]
    stage.press("answer", question=asked["question"], payload="approve")
    stage.until_step("Send memo")
    return stage


def asks_again(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.running(theatre).run).says("Running")
    tab.page.context.set_offline(True)
    tab.says("Reconnecting")
    tab.press(3)
    expect(tab.page.locator(".status .what")).to_contain_text("Cancel will be sent")
    tab.page.evaluate(LATER)
    tab.page.context.set_offline(False)
    asks = tab.page.get_by_role("group", name="Cancel was pressed")
    expect(asks).to_be_visible(timeout=WAIT_MS)


def reconnecting(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.running(theatre).run).says("Running")
    tab.page.context.set_offline(True)
    tab.says("Reconnecting")
    tab.page.get_by_role("region", name="Connection").wait_for(timeout=WAIT_MS)


def result(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.done(theatre).run).says("Done")
    tab.press(2)
    expect(tab.page.get_by_role("dialog")).to_contain_text("The report is done")


def answer_form(theatre: Theatre, tab: Glass) -> None:
    stage = theatre.begin("asker", input={"schema": FIELDS, "message": "Where?"})
    tab.look_at(stage.run).says("Waiting for you")
    card = tab.page.get_by_role("group", name="Where?")
    card.get_by_role("button", name="Answer", exact=True).click()
    expect(card.get_by_role("alert")).to_be_visible()


def edit_form(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.waiting(theatre).run).says("Waiting for you")
    card = tab.page.get_by_role("group", name=re.compile("May this be done"))
    card.get_by_role("button", name=re.compile("^Edit")).click()
    expect(card.get_by_label("To", exact=True)).to_have_value("ana@example.com")


def expired(theatre: Theatre, tab: Glass) -> None:
    """A question that ran out while the run was paused: nobody has closed it yet."""
    tab.look_at(run_out(theatre).run).says("Paused")
    card = tab.page.locator(".card.expired")
    expect(card).to_contain_text(re.compile(r"Expired \d+:\d\d ago"), timeout=WAIT_MS)


def run_out(theatre: Theatre) -> Stage:
    given = {"schema": {"enum": ["ana", "bob"]}, "message": "Who?", "expires_in": 6}
    stage = theatre.begin("asker", input=given)
    stage.until("waiting")
    stage.press("pause")
    stage.until("paused")
    return stage


def could_not_undo(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.undo_broken_off(theatre).run).says("Cancelled")
    tab.step("Write memo").get_by_text("What to do").click()
    details = tab.step("Write memo").locator(".step-details")
    expect(details).to_contain_text("mark it as handled in the receipt", timeout=WAIT_MS)


def fork_form(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.failed(theatre).run).says("Failed at step 2")
    tab.step("Fetch customers").get_by_role("button").first.click()
    tab.page.get_by_role("button", name=re.compile("^Fork from here")).click()
    expect(tab.page.get_by_label("Brief of the new run")).to_be_visible()


def turn_to_thread(tab: Glass) -> None:
    if tab.page.locator(".phone-head").is_visible():
        tab.page.get_by_role("tab", name="Thread").click()


def edit_message(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.running(theatre).run).says("Running")
    tab.page.get_by_label("Message the agent").fill("use the new prices")
    tab.page.get_by_role("button", name="Send", exact=True).click()
    turn_to_thread(tab)
    tab.page.locator("li.from-me").get_by_role("button", name="Edit").click()
    expect(tab.page.get_by_label("Edit your message")).to_be_focused()


def to_dos(theatre: Theatre, tab: Glass) -> None:
    stage = theatre.begin("clerk", "Look at churn {stage}")
    path = f"/v1/threads/{stage.thread}"
    theatre.post(f"{path}/messages", {"text": f"later draft a slide {stage.name}"})
    soon(lambda: theatre.get(f"{path}/todos")["todos"], "the to-do")
    tab.look_at(stage.run).says("Running")
    turn_to_thread(tab)
    expect(tab.page.locator(".todo-card")).to_contain_text("draft a slide", timeout=WAIT_MS)


def voice(theatre: Theatre, tab: Glass) -> None:
    """The way to begin a call, as a server that has ears offers it."""
    tab.page.route("**/v1/me", with_ears)
    tab.look_at(scenes.running(theatre).run).says("Running")
    turn_to_thread(tab)
    expect(tab.page.get_by_role("region", name="Voice")).to_be_visible(timeout=WAIT_MS)


def with_ears(route: Route) -> None:
    answer = route.fetch()
    me = answer.json()
    me["server"]["voice"] = True
    route.fulfill(response=answer, body=json.dumps(me))


def nothing_here(theatre: Theatre, tab: Glass) -> None:
    tab.page.goto(f"{theatre.url}/runs/r-nothing")
    expect(tab.page.get_by_role("heading", name="There is nothing at this address")).to_be_visible()


def shut_out(theatre: Theatre, tab: Glass) -> None:
    kept = tab.page.context.cookies()
    tab.page.context.clear_cookies()
    try:
        tab.page.goto(theatre.url)
        expect(tab.page.get_by_role("heading", name="This page needs a new link")).to_be_visible()
    finally:  # the tab is opened elsewhere next
        tab.page.context.add_cookies([dict(one) for one in kept])  # type: ignore[misc]


def unreachable(theatre: Theatre, tab: Glass) -> None:
    tab.page.route("**/v1/me", lambda route: route.abort())
    tab.page.goto(theatre.url)
    gate = tab.page.get_by_role("heading", name="Cannot reach the agent server")
    expect(gate).to_be_visible(timeout=WAIT_MS)


def home(theatre: Theatre, tab: Glass) -> None:
    tab.page.goto(theatre.url)
    expect(tab.page.locator("form.start")).to_be_visible(timeout=WAIT_MS)


def turn_to_rail(tab: Glass) -> None:
    if tab.page.locator(".phone-head").is_visible():
        tab.page.get_by_role("button", name="Runs").click()
        expect(tab.page.get_by_role("navigation", name="Runs")).to_be_visible()


def settings(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.running(theatre).run).says("Running")
    turn_to_rail(tab)
    tab.page.get_by_role("button", name="Settings").click()
    expect(tab.page.get_by_role("dialog", name="Settings")).to_be_visible(timeout=WAIT_MS)


def runs(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.running(theatre).run).says("Running")
    menu = tab.page.get_by_role("button", name="Runs")
    if menu.is_visible():
        menu.click()
    expect(tab.page.get_by_role("navigation", name="Runs")).to_be_visible(timeout=WAIT_MS)


def timeline(theatre: Theatre, tab: Glass) -> None:
    stage = scenes.waiting(theatre)
    stage.press("pause")
    tab.look_at(stage.run)
    tab.page.get_by_role("button", name="Timeline").click()
    expect(tab.page.locator(".timeline svg text").first).to_be_visible(timeout=WAIT_MS)


def broken_pane(theatre: Theatre, tab: Glass) -> None:
    tab.page.route("**/assets/Timeline-*.js", lambda route: route.abort())
    tab.look_at(scenes.running(theatre).run)
    tab.page.get_by_role("button", name="Timeline").click()
    expect(tab.page.locator(".broken")).to_contain_text("The steps cannot be shown")


def stop_all(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.running(theatre).run).says("Running")
    turn_to_rail(tab)
    tab.page.get_by_role("button", name="Stop all agents").click()
    expect(tab.page.get_by_role("alertdialog")).to_be_visible()


def stopped(theatre: Theatre, tab: Glass) -> None:
    stage = scenes.running(theatre)
    tab.look_at(stage.run).says("Running")
    scope = f"thread:{stage.thread}"
    theatre.post("/v1/operator/kill", {"scope": scope, "reason": "wrong prices"})
    tab.says("Stopped by an operator")
    banner = tab.page.get_by_role("region", name="Kill switch")
    expect(banner).to_contain_text("This thread is stopped")


def step_details(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(scenes.pausing(theatre).run).says("Pausing")
    tab.step("Join revenue").get_by_role("button").first.click()
    expect(tab.step("Join revenue").locator("pre")).to_contain_text("84210")
    tab.step("Create follow-up tasks").get_by_role("button").first.click()
    expect(tab.page.get_by_role("button", name="Stop it")).to_be_visible()


def change_line(theatre: Theatre, tab: Glass) -> None:
    stage = scenes.running(theatre)
    stage.press("redirect", text="Churn of May")
    tab.look_at(stage.run)
    expect(tab.changed.locator("del")).to_contain_text("June")
    expect(tab.changed.locator("ins")).to_contain_text("May")
    tab.changed.click()
    expect(tab.changed).to_contain_text("by robot")


def stop_question(theatre: Theatre, tab: Glass) -> None:
    stage = scenes.running(theatre)
    theatre.post(f"/v1/threads/{stage.thread}/messages", {"text": "stop"})
    tab.look_at(stage.run).says("Paused")
    turn_to_thread(tab)
    expect(tab.page.get_by_role("button", name="Cancel the run")).to_be_visible()


def aside(theatre: Theatre, tab: Glass) -> None:
    stage = scenes.running(theatre)
    theatre.post(f"/v1/threads/{stage.thread}/ask_aside", {"text": "how far are you?"})
    tab.look_at(stage.run).says("Running")
    turn_to_thread(tab)
    answered = tab.page.locator(".lines li", has=tab.page.locator(".who", has_text="Aside"))
    expect(answered).to_contain_text("Score churn risk")


def background(theatre: Theatre, tab: Glass) -> None:
    tab.look_at(theatre.begin("parent").run).says("Running")
    expect(tab.page.locator(".background")).to_contain_text("Look around")


def near_the_cap(theatre: Theatre, tab: Glass) -> None:
    stage = theatre.begin(limits={"usd": 0.5})
    stage.give("fetch", "join", "score")
    tab.look_at(stage.run).says("Running", "Create follow-up tasks")
    expect(tab.page.locator(".near")).to_contain_text("$0.42 of $0.50")


OPENINGS: Final[dict[str, Opening]] = {
    opening.__name__.replace("_", " "): opening
    for opening in (
        raise_cap, hand_back, redirect, confirm, asks_again, reconnecting, result, answer_form,
        edit_form, expired, could_not_undo, fork_form, edit_message, to_dos, voice, nothing_here,
        shut_out, unreachable, home, settings, runs, timeline, broken_pane, stop_all, stopped,
        step_details, change_line, stop_question, aside, background, near_the_cap,
    )
}  # fmt: skip
