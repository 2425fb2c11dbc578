"""Questions as cards: what is asked, what each answer means, and nothing that would be refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from page.conftest import Look
from page.glass import WAIT_MS, Glass
from page.openings import run_out
from page.theatre import Stage, Theatre, soon

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]


def approval(theatre: Theatre, look: Look) -> tuple[Stage, Glass, Locator]:
    stage = theatre.begin()
    stage.give("all")
    tab = look(stage)
    tab.says("Waiting for you", "email")
    card = tab.page.get_by_role("group", name=re.compile("May this be done: email"))
    return stage, tab, card


def button(card: Locator, name: str) -> Locator:
    return card.get_by_role("button", name=re.compile(f"^{name}"))


@pytest.mark.picture
def test_approve(theatre: Theatre, look: Look) -> None:
    stage, tab, card = approval(theatre, look)
    tab.slots_read("Review", "Redirect", "Cancel")
    expect(tab.slot(1)).to_contain_text("One decision")
    expect(tab.step("Send memo")).to_contain_text("May this be done")
    terms = card.get_by_role("term")
    expect(terms).to_have_text(["Tool", "Stage", "To"])  # as its function calls them
    tab.picture("approval")
    tab.page.emulate_media(color_scheme="dark")
    tab.picture("waiting-dark")
    tab.page.emulate_media(color_scheme="light")
    tab.press(1)
    expect(card.locator(".card-title")).to_be_focused()
    button(card, "Approve").click()

    tab.says("Done", "sent to ana@example.com")
    assert stage.view["phase"] == "done"


def test_reject(theatre: Theatre, look: Look) -> None:
    stage, tab, card = approval(theatre, look)
    button(card, "Reject").click()

    tab.says("Failed at step 6", "rejected")
    assert "email" not in [line["noun"] for line in stage.view["receipt"]["lines"]]


def test_edit_then_approve(theatre: Theatre, look: Look) -> None:
    _, tab, card = approval(theatre, look)
    button(card, "Edit").click()
    field = card.get_by_role("textbox").last
    before = field.input_value()
    assert "ana@example.com" in before
    field.fill(before.replace("ana@example.com", "bob@example.com"))
    card.get_by_role("button", name="Approve as edited").click()

    tab.says("Done", "sent to bob@example.com")


def test_respond_in_words_instead(theatre: Theatre, look: Look) -> None:
    _, tab, card = approval(theatre, look)
    button(card, "Respond").click()
    card.get_by_role("textbox").fill("Ask Ana first")
    card.get_by_role("button", name="Send response").click()

    tab.says("Failed at step 6", "Ask Ana first")


def asked(theatre: Theatre, look: Look, schema: Any, **more: Any) -> tuple[Stage, Glass, Locator]:
    stage = theatre.begin("asker", input={"schema": schema, "message": "Which one?", **more})
    tab = look(stage)
    tab.says("Waiting for you", "Which one?")
    return stage, tab, tab.page.get_by_role("group", name="Which one?")


def answer_of(stage: Stage) -> Any:
    stage.until("done")
    return stage.theatre.get(f"/v1/runs/{stage.run}/result")["result"]["answered"]


def test_a_choice_is_one_press(theatre: Theatre, look: Look) -> None:
    stage, _, card = asked(theatre, look, {"enum": ["ana", "bob", "eve"]})
    button(card, "Bob").click()

    assert answer_of(stage) == "bob"


def test_yes_or_no(theatre: Theatre, look: Look) -> None:
    stage, _, card = asked(theatre, look, {"type": "boolean"})
    button(card, "No").click()

    assert answer_of(stage) is False


def test_a_number_is_checked_before_it_is_sent(theatre: Theatre, look: Look) -> None:
    stage, _, card = asked(theatre, look, {"type": "integer", "minimum": 1, "maximum": 9})
    card.get_by_role("textbox").fill("12")
    card.get_by_role("button", name="Answer", exact=True).click()
    expect(card.get_by_role("alert")).to_be_visible()
    assert stage.view["phase"] == "waiting"
    card.get_by_role("textbox").fill("7")
    card.get_by_role("button", name="Answer", exact=True).click()

    assert answer_of(stage) == 7


def test_words(theatre: Theatre, look: Look) -> None:
    stage, _, card = asked(theatre, look, {"type": "string", "minLength": 2})
    card.get_by_role("textbox").fill("the red one")
    card.get_by_role("button", name="Answer", exact=True).click()

    assert answer_of(stage) == "the red one"


def test_a_half_typed_answer_outlives_another_tab_and_a_reload(
    theatre: Theatre, look: Look
) -> None:
    stage, tab, card = asked(theatre, look, {"type": "string"})
    tab.page.set_viewport_size({"width": 390, "height": 844})
    card.get_by_role("textbox").fill("the red")
    tab.page.get_by_role("tab", name="Thread").click()
    expect(card).to_have_count(0)
    tab.page.get_by_role("tab", name="Steps").click()
    expect(card.get_by_role("textbox")).to_have_value("the red")
    tab.page.reload()
    expect(card.get_by_role("textbox")).to_have_value("the red", timeout=WAIT_MS)
    card.get_by_role("textbox").fill("the red one")
    card.get_by_role("button", name="Answer", exact=True).click()

    assert answer_of(stage) == "the red one"
    left = "Object.keys(sessionStorage).filter((name) => name.includes('draft:answer'))"
    assert tab.page.evaluate(left) == []


def test_an_edit_that_was_begun_is_open_again_after_a_reload(theatre: Theatre, look: Look) -> None:
    _, tab, card = approval(theatre, look)
    button(card, "Respond").click()
    card.get_by_role("textbox").fill("Ask Ana")
    tab.page.reload()
    expect(card.get_by_role("textbox")).to_have_value("Ask Ana", timeout=WAIT_MS)
    card.get_by_role("button", name="Keep as is").click()
    tab.page.reload()

    expect(button(card, "Approve")).to_be_visible(timeout=WAIT_MS)


@pytest.mark.picture
def test_several_fields_at_once(theatre: Theatre, look: Look) -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "people": {"type": "integer"},
            "late": {"type": "boolean"},
            "room": {"enum": ["garden", "hall"]},
        },
        "required": ["city", "people"],
    }
    stage, tab, card = asked(theatre, look, schema)
    card.get_by_label("City").fill("Rome")
    card.get_by_label("People").fill("4")
    card.get_by_label("Late").check()
    tab.picture("form")
    card.get_by_role("button", name="Answer", exact=True).click()

    found = answer_of(stage)
    assert (found["city"], found["people"], found["late"]) == ("Rome", 4, True)


def test_a_question_counts_down_and_closes_when_nobody_answers(
    theatre: Theatre, look: Look
) -> None:
    tab = look(theatre.begin())  # so that no page has to be loaded before it runs out
    given = {"schema": {"enum": ["ana", "bob"]}, "message": "Which one?", "expires_in": 12}
    stage = theatre.begin("asker", input=given)
    tab.turn_to(stage)
    card = tab.page.get_by_role("group", name="Which one?")
    expect(card).to_contain_text("Expires in")
    expect(tab.slot(1)).to_contain_text("s left")
    stage.until("done")

    tab.says("Done")
    expect(card).to_have_count(0)
    assert answer_of(stage) is None


def test_an_expired_question_says_so_and_takes_no_answer(theatre: Theatre, look: Look) -> None:
    stage = run_out(theatre)
    tab = look(stage)
    tab.says("Paused")
    card = tab.page.get_by_role("group", name="Who?")
    expired = re.compile(r"Expired \d+:\d\d ago. Nothing was done.")
    expect(card).to_contain_text(expired, timeout=WAIT_MS)
    expect(button(card, "Ana")).to_have_attribute("aria-disabled", "true")
    expect(button(card, "Skip it")).to_have_count(0)
    with tab.unheard():
        button(card, "Ana").click(force=True)


def test_a_question_is_skipped(theatre: Theatre, look: Look) -> None:
    stage, tab, card = asked(theatre, look, {"enum": ["ana", "bob"]})
    expect(card).to_contain_text("It goes on without an answer")
    button(card, "Skip it").click()

    tab.says("Done")
    assert answer_of(stage) is None


def test_what_somebody_else_has_answered_goes_away(theatre: Theatre, look: Look) -> None:
    stage, tab, card = asked(theatre, look, {"enum": ["ana", "bob"]})
    (question,) = stage.view["questions"]
    stage.press("answer", question=question["question"], payload="ana")

    expect(card).to_have_count(0, timeout=WAIT_MS)
    tab.says("Done")
    soon(lambda: answer_of(stage) == "ana")


WHOLE = "every word counts " * 1_100 + "\nand the last line: pay 9000 to eve"


def test_a_card_shows_the_whole_of_what_is_approved_and_hides_nothing_in_it(
    theatre: Theatre, look: Look
) -> None:
    values = {
        "body": WHOLE,
        "token": "x" * 3_000,
        "to": "ann\u200b\u202egro.elpmaxe@eve",
        "paths": ["a, b", "c"],
        "amount": 9007199254740993,
        "html": "<b>bold</b>",
    }
    details = {"args": [], "kwargs": values}
    schema = {"enum": ["approve", "reject"], "x-tool": "page.pay", "x-details": details}
    question = {"message": "Pay\nthis?", "schema": schema}
    stage = theatre.begin("asker", input=question)
    tab = look(stage)
    card = tab.page.get_by_role("group", name=re.compile("Pay"))
    expect(card).to_be_visible(timeout=WAIT_MS)
    shown = card.locator("dd")
    texts = [each.evaluate("one => one.innerText") for each in shown.all()]

    named = dict(zip(card.get_by_role("term").all_inner_texts(), texts, strict=True))
    assert named["Body"] == WHOLE
    assert named["To"] == '"ann\\u200b\\u202egro.elpmaxe@eve"'
    assert named["Paths"] == '["a, b","c"]'
    assert named["Amount"] == "9007199254740993"
    assert named["Html"] == "<b>bold</b>"
    for each in shown.all():
        wide, high = (
            "one.scrollWidth > one.clientWidth + 1",
            "one.scrollHeight > one.clientHeight + 1",
        )
        assert not each.evaluate(f"one => {wide} || {high}")
    shown.first.scroll_into_view_if_needed()
    expect(shown.first).to_be_in_viewport()
    expect(button(card, "Approve")).to_be_enabled()
    button(card, "Approve").scroll_into_view_if_needed()
    expect(button(card, "Approve")).to_be_in_viewport()
