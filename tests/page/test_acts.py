"""What can be done beside the three controls: steps, forks, to-dos, a new run, the look."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from page.conftest import Look
from page.glass import WAIT_MS, Glass
from page.theatre import Stage, Theatre, soon

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]


def opened(tab: Glass, name: str) -> Locator:
    """The details of a step."""
    tab.step(name).get_by_role("button").first.click()
    return tab.step(name).locator(".step-details")


def test_a_step_shows_its_whole_result_and_what_it_cost(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    stage.give("fetch", "join", "score")
    tab = look(stage)
    tab.says("Running", "Create follow-up tasks")

    scored = opened(tab, "Score churn risk")
    expect(scored).to_contain_text("38 at risk (Churn of June)", timeout=WAIT_MS)
    expect(scored).to_contain_text("$0.42, 1,200 tokens")
    joined = opened(tab, "Join revenue")
    expect(joined.get_by_label("Result")).to_contain_text('"revenue": 84210', timeout=WAIT_MS)
    assert tab.violations() == []
    tab.step("Join revenue").get_by_role("button").first.click()
    expect(joined).to_have_count(0)


def test_a_step_alone_is_stopped(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    stage.give("fetch", "join", "score")
    tab = look(stage)
    tab.says("Running", "Create follow-up tasks")

    details = opened(tab, "Create follow-up tasks")
    expect(details).to_contain_text("once the run is pausing for it", timeout=WAIT_MS)
    stop = details.get_by_role("button", name=re.compile("^Stop it"))
    expect(stop).to_have_count(0)  # what the server would refuse is not offered
    tab.press(1)
    expect(stop).to_contain_text("Aborts follow-up task, which may have partly happened")
    stop.click()
    tab.says("Paused")
    (attempt,) = [line for line in stage.view["receipt"]["lines"] if line["noun"]]
    assert attempt["noun"] == "follow-up task"


def test_a_run_is_forked_from_a_step_with_another_brief(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("failing")
    stage.give("fetch", "again")
    tab = look(stage)
    tab.says("Failed at step 2")
    details = opened(tab, "Fetch customers")
    details.get_by_role("button", name=re.compile("^Fork from here")).click()
    details.get_by_label("Brief of the new run").fill("Churn of May")
    stage.give("well")
    details.get_by_role("button", name="Fork from step 1").click()

    expect(tab.page).not_to_have_url(re.compile(stage.run), timeout=WAIT_MS)
    tab.says("Done", "through")
    expect(tab.page.get_by_role("heading", level=1)).to_contain_text("Churn of May")
    tab.page.get_by_role("region", name="Steps").get_by_role("link").click()  # A fork of ...
    tab.says("Failed at step 2")


def test_a_run_is_taken_over_and_handed_back(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    tab.press(2)
    offer = tab.page.locator(".take-over")
    expect(offer).to_contain_text("yours until you hand it back")
    offer.get_by_role("button", name="Take over").click()

    soon(lambda: stage.view["human"], "somebody")
    tab.says(f"{stage.view['human']} has it", "It goes on when it is handed back")
    tab.press(1)
    tab.note.fill("I have mended the table")
    tab.page.locator(".layer").get_by_role("button", name="Hand back").click()
    tab.says("Running")
    assert stage.view["human"] == ""


def test_a_run_is_begun_with_its_agent_and_its_cap(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("looker", "Look around {stage}")
    tab = look(stage)
    tab.page.get_by_role("link", name="New run").click()
    field = tab.page.get_by_label("What should the agent do?")
    expect(field).to_be_focused(timeout=WAIT_MS)
    field.fill(f"Look at the harbour {stage.name}")
    tab.page.get_by_role("combobox", name="Agent").select_option("looker")
    tab.page.get_by_label("Cap, $").fill("a lot")
    tab.page.get_by_role("button", name="Start", exact=True).click()
    expect(tab.page.get_by_text("The cap must be a number")).to_be_visible()
    tab.page.get_by_label("Cap, $").fill("0.50")
    tab.page.keyboard.press("Tab")
    field.press("Enter")

    tab.says("Running")
    expect(tab.page.get_by_role("heading", level=1)).to_contain_text("Look at the harbour")
    expect(tab.page.locator(".meter")).to_contain_text("$0.00 of $0.50")
    stage.give("around")
    tab.says("Done", "looked at around")
    tab.page.get_by_role("link", name="New run").click()
    expect(field).to_have_value("")  # what was sent does not wait to be sent again


def put_off(theatre: Theatre, stage: Stage, *texts: str) -> None:
    thread = f"/v1/threads/{stage.thread}"
    for number, text in enumerate(texts, 1):
        theatre.post(f"{thread}/messages", {"text": f"later {text} {stage.name}"})
        soon(lambda: len(theatre.get(f"{thread}/todos")["todos"]) == number, text)  # noqa: B023


def test_what_is_to_be_done_is_removed_again(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("clerk", "Look at churn {stage}")
    put_off(theatre, stage, "draft a slide")
    tab = look(stage)
    card = tab.page.locator(".todo-card")
    expect(card).to_contain_text("draft a slide", timeout=WAIT_MS)
    card.get_by_role("button", name=re.compile("^Remove")).click()

    expect(card).to_have_count(0, timeout=WAIT_MS)
    expect(tab.page.get_by_text("Removed: ")).to_be_visible()
    assert theatre.get(f"/v1/threads/{stage.thread}/todos")["todos"] == []


def test_what_is_to_be_done_is_put_in_another_order(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("clerk", "Look at churn {stage}")
    put_off(theatre, stage, "draft a slide", "book a room", "call Ana")
    tab = look(stage)
    todos = tab.page.locator(".todo-card li", has=tab.page.locator(".todo-acts"))
    expect(todos).to_have_count(3, timeout=WAIT_MS)
    expect(todos.first.get_by_role("button", name=re.compile("^Sooner"))).to_have_count(0)
    todos.last.get_by_role("button", name=re.compile("^Sooner")).click()

    wanted = ["draft a slide", "call Ana", "book a room"]
    expect(todos).to_contain_text(wanted, timeout=WAIT_MS)
    kept = theatre.get(f"/v1/threads/{stage.thread}/todos")["todos"]
    assert [text in todo["text"] for text, todo in zip(wanted, kept, strict=True)] == [True] * 3


def test_the_look_is_chosen_and_kept(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    tab = look(stage, color_scheme="light")
    tab.says("Running")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = tab.page.evaluate(paper)
    tab.page.get_by_role("button", name="Settings").click()
    settings = tab.page.get_by_role("dialog", name="Settings")
    settings.get_by_label("Dark").check()
    dark = tab.page.evaluate(paper)
    assert dark != light
    settings.get_by_role("button", name="Close").click()
    tab.page.reload()
    tab.says("Running")
    assert tab.page.evaluate(paper) == dark

    tab.page.get_by_role("button", name="Settings").click()
    settings.get_by_label("As the system").check()
    assert tab.page.evaluate(paper) == light
