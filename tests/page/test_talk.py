"""Messages at any time: what becomes of each is said under it, with a way back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Route, expect

from page.conftest import Look
from page.glass import MEANT_MS, WAIT_MS, Glass
from page.theatre import Stage, Theatre, soon

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]


def say(tab: Glass, text: str) -> Locator:
    """Write a message; gives its item in the thread."""
    tab.page.get_by_label("Message the agent").fill(text)
    tab.page.keyboard.press("Enter")
    return tab.page.locator("li.from-me", has_text=text)


def test_a_message_is_incorporated_and_taken_out_again(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("clerk", "Look at churn {stage}")
    tab = look(stage)
    tab.says("Running", "Look")

    message = say(tab, "also look at May")
    expect(message.locator(".outcome")).to_contain_text("Incorporated", timeout=WAIT_MS)
    message.get_by_role("button", name="Undo").click()
    expect(message.locator(".outcome")).to_contain_text(
        re.compile("Taken out|Withdrawn"), timeout=WAIT_MS
    )
    stage.give("all")
    tab.says("Done")
    said = tab.page.get_by_role("region", name="Messages")
    expect(said.get_by_text("I have looked.", exact=True)).to_be_visible(timeout=WAIT_MS)


def test_a_message_that_was_read_is_taken_out_again(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("clerk", "Look at churn {stage}")
    tab = look(stage)
    tab.says("Running", "Look")
    message = say(tab, "also look at May")
    outcome = message.locator(".outcome")
    expect(outcome).to_contain_text("Incorporated", timeout=WAIT_MS)
    stage.give("look")
    expect(outcome).to_contain_text("into step 2", timeout=WAIT_MS)  # it was read before it
    soon(lambda: read(theatre, stage))
    tab.page.wait_for_timeout(MEANT_MS)
    with tab.page.expect_response("**/overrule") as answered:
        message.get_by_role("button", name="Undo").click()

    assert answered.value.ok
    expect(outcome).to_contain_text("Taken out again", timeout=WAIT_MS)


def read(theatre: Theatre, stage: Stage) -> bool:
    """Whether the run has read what it was told."""
    lines = theatre.get(f"/v1/threads/{stage.thread}/transcript")["lines"]
    return [line["status"] for line in lines if line["kind"] == "message"] == ["read"]


@pytest.mark.picture
def test_how_the_run_stood_when_a_message_came_is_not_said_of_its_next_step(
    theatre: Theatre, look: Look
) -> None:
    stage = theatre.begin("clerk", "Look at churn {stage}")
    tab = look(stage)
    tab.says("Running", "Look")
    tab.page.evaluate(  # what is said for a few seconds stays, unless something else ends it
        """() => {
            const later = window.setTimeout;
            window.setTimeout = (what, ms, ...more) => (ms === 6000 ? 0 : later(what, ms, ...more));
        }"""
    )
    hint = tab.page.locator("#message-hint")

    say(tab, "also look at May")
    expect(hint).to_contain_text("Look", timeout=WAIT_MS)
    stage.give("look")

    expect(hint).to_have_text("Read at the next safe point", timeout=WAIT_MS)


def test_a_message_switches_and_the_way_back_leads_back(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("clerk", "Look at churn {stage}")
    tab = look(stage)
    tab.says("Running", "Look")

    message = say(tab, f"first tell me about March {stage.name}")
    expect(message.locator(".outcome")).to_contain_text("Switched", timeout=WAIT_MS)
    soon_parked = tab.page.locator(".todo-card")
    expect(soon_parked).to_contain_text("Look at churn", timeout=WAIT_MS)
    tab.picture("switched")
    message.get_by_role("button", name="Go back").click()

    expect(message.locator(".outcome")).to_contain_text(re.compile("Went back"), timeout=WAIT_MS)
    stage.until("running")


def test_a_message_is_deferred_and_done_now_after_all(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("clerk", "Look at churn {stage}")
    tab = look(stage)
    tab.says("Running", "Look")

    message = say(tab, f"later draft a slide {stage.name}")
    expect(message.locator(".outcome")).to_contain_text("Deferred", timeout=WAIT_MS)
    card = tab.page.locator(".todo-card")
    expect(card).to_contain_text("draft a slide", timeout=WAIT_MS)
    expect(card.locator("li.new")).to_have_count(1)
    message.get_by_role("button", name="Do it now").click()
    stage.until("paused")

    expect(card).to_contain_text("Look at churn", timeout=WAIT_MS)  # which is parked for it


def test_what_nobody_has_read_can_be_edited_and_withdrawn(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("report", "Look at churn")
    tab = look(stage)
    tab.says("Running")
    message = say(tab, "use the new prices")
    expect(message.locator(".outcome")).to_contain_text("Sent", timeout=WAIT_MS)

    message.get_by_role("button", name="Edit").click()
    tab.page.get_by_label("Edit your message").fill("use the old prices")
    tab.page.get_by_role("button", name="Save", exact=True).click()
    edited = tab.page.locator("li.from-me", has_text="use the old prices")
    expect(edited).to_be_visible(timeout=WAIT_MS)
    edited.get_by_role("button", name="Withdraw").click()

    expect(edited.locator(".outcome")).to_contain_text("Withdrawn", timeout=WAIT_MS)


def test_a_stop_word_pauses_at_once(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("clerk", "Look at churn {stage}")
    tab = look(stage)
    tab.says("Running")
    say(tab, "wait")

    tab.says("Paused")
    assert stage.view["phase"] == "paused"


def test_nothing_typed_is_lost_by_a_press_or_a_reload(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    field = tab.page.get_by_label("Message the agent")
    field.fill("half a thought")
    tab.press(1)
    tab.says("Paused")
    expect(field).to_have_value("half a thought")
    tab.page.reload()

    expect(field).to_have_value("half a thought", timeout=WAIT_MS)


def test_a_message_is_sent_once_however_often_one_presses(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    tab.page.get_by_label("Message the agent").fill("once only")
    for _ in range(3):
        tab.page.keyboard.press("Enter")

    expect(tab.page.locator("li.from-me", has_text="once only")).to_have_count(1, timeout=WAIT_MS)
    lines = theatre.get(f"/v1/threads/{stage.thread}/transcript")["lines"]
    assert [line["text"] for line in lines if line["kind"] == "message"] == ["once only"]


def test_a_message_whose_answer_was_lost_is_not_said_twice_by_sending_it_again(
    theatre: Theatre, look: Look
) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    tab.page.route("**/messages", arrives_unanswered)
    field = tab.page.get_by_label("Message the agent")
    field.fill("once only")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#message-hint")).to_contain_text("Cannot reach", timeout=WAIT_MS)
    tab.page.unroute("**/messages")
    tab.page.reload()
    field.press("Enter")

    expect(field).to_have_value("", timeout=WAIT_MS)
    lines = theatre.get(f"/v1/threads/{stage.thread}/transcript")["lines"]
    assert [line["text"] for line in lines if line["kind"] == "message"] == ["once only"]


def arrives_unanswered(route: Route) -> None:
    """The server has it, and the line breaks before it can say so."""
    route.fetch()
    route.abort()


DRAWN_LATE = """() => {
    const Channel = MessageChannel;
    window.MessageChannel = function () {
        const made = new Channel(), post = made.port2.postMessage.bind(made.port2);
        made.port2.postMessage = (...told) => setTimeout(() => post(...told), 400);
        return made;
    };
}"""


def test_a_message_is_sent_once_also_while_its_going_is_not_drawn_yet(
    theatre: Theatre, look: Look
) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.page.add_init_script(f"({DRAWN_LATE})()")
    tab.page.reload()
    tab.says("Running")
    tab.page.get_by_label("Message the agent").fill("once only")
    with tab.page.expect_response("**/messages") as answered:
        tab.page.keyboard.press("Enter")
    assert answered.value.ok
    for _ in range(3):
        tab.page.keyboard.press("Enter")

    expect(tab.page.get_by_label("Message the agent")).to_have_value("", timeout=WAIT_MS)
    lines = theatre.get(f"/v1/threads/{stage.thread}/transcript")["lines"]
    assert [line["text"] for line in lines if line["kind"] == "message"] == ["once only"]


def test_runs_are_begun_found_and_looked_at_from_the_rail(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin(brief="Churn of the lighthouse keepers")
    tab = look(stage)
    rail = tab.page.get_by_role("navigation", name="Runs")
    expect(rail).to_contain_text("lighthouse", timeout=WAIT_MS)
    other = theatre.begin(brief="Something about narwhals")  # nobody else begins one
    expect(rail).to_contain_text("narwhals", timeout=WAIT_MS)

    tab.page.get_by_label("Search runs").fill("LIGHTHOUSE churn")
    expect(rail.get_by_role("link", name=re.compile("narwhals"))).to_have_count(0, timeout=WAIT_MS)
    expect(rail).to_contain_text("lighthouse")
    tab.page.get_by_label("Search runs").fill("")
    rail.get_by_role("link", name=re.compile("narwhals")).first.click()
    expect(tab.page).to_have_url(f"{theatre.url}/runs/{other.run}")
    tab.says("Running")
