"""Every control in every state, pressed by a person in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Route, expect

from page.conftest import Look
from page.glass import MEANT_MS, WAIT_MS
from page.theatre import Stage, Theatre

APPROVE = re.compile("^Approve")
pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.mark.picture
def test_pause_then_reload_then_resume(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running", "Fetch customers")
    tab.slots_read("Pause", "Redirect", "Cancel")
    expect(tab.slot(1)).to_have_accessible_name(re.compile(r"^Pause ?, Resume keeps context"))
    tab.picture("running")

    tab.press(1)
    tab.says("Paused", "Nothing is running or spending")
    tab.step_is("Fetch customers", "Paused")
    assert stage.view["phase"] == "paused"
    tab.picture("paused")

    tab.page.reload()
    tab.says("Paused")
    tab.slots_read("Resume", "Redirect", "Cancel")
    tab.press(1)
    tab.says("Running")
    stage.give("fetch", "join")
    tab.step_is("Join revenue", "Done")


def test_a_pause_lets_an_effect_finish_and_can_be_taken_back(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    stage.give("fetch", "join", "score")
    tab = look(stage)
    tab.says("Running", "Create follow-up tasks")
    expect(tab.slot(1)).to_contain_text("Finishes follow-up task first")

    tab.press(1)
    tab.says("Pausing", "finishing follow-up task")
    tab.slots_read("Keep running", "Redirect", "Cancel")
    assert tab.violations() == []
    tab.press(1)
    tab.says("Running")

    tab.press(1)
    tab.says("Pausing")
    stage.give("tasks")
    tab.says("Paused")
    tab.step_is("Create follow-up tasks", "Done")
    tab.step_is("Write memo", "Paused")


@pytest.mark.picture
def test_a_redirect_while_it_runs_shows_what_was_changed(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    stage.give("fetch", "join")
    tab = look(stage)
    tab.says("Running", "Score churn risk")

    tab.press(2)
    field = tab.rewrite
    expect(field).to_be_focused()
    expect(field).to_have_value("Churn of June")
    tab.says("Running")  # opening it pauses nothing
    field.fill("Churn of June, only the EU")
    tab.picture("redirect")
    tab.page.get_by_role("button", name="Redirect", exact=True).last.click()

    line = tab.changed
    expect(line).to_contain_text("Changed", timeout=WAIT_MS)
    expect(line.locator("ins")).to_contain_text("only the EU")
    expect(tab.step("Score churn risk").last).to_contain_text("Rewritten by you")
    stage.give("score")
    expect(tab.step("Score churn risk").last).to_contain_text("38 at risk (Churn of June, only")


def test_a_redirect_while_paused_also_resumes(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    tab.press(1)
    tab.says("Paused")

    tab.press(2)
    field = tab.rewrite
    expect(tab.page.locator(".layer")).to_contain_text("Used when you resume")
    field.fill("Churn of May")
    tab.page.get_by_role("button", name="Redirect and resume").click()

    tab.says("Running")
    expect(tab.changed.locator("del")).to_contain_text("June")
    assert stage.view["brief"] == "Churn of May"


def test_keep_as_is_keeps_the_run_and_what_was_typed(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    tab.press(2)
    tab.rewrite.fill("Something else")
    tab.page.get_by_role("button", name="Keep as is").click()
    expect(tab.rewrite).to_have_count(0)
    tab.press(2)

    expect(tab.rewrite).to_have_value("Something else")
    assert stage.view["brief"] == "Churn of June"


def test_a_redirect_that_is_refused_keeps_what_was_written(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    tab.page.route("**/v1/runs/*/redirect", lambda route: ended_before(stage, route))
    tab.press(2)
    tab.rewrite.fill("Only the EU")
    tab.page.locator(".layer").get_by_role("button", name="Redirect").click()

    tab.says("Cancelled", "It had already finished.")
    kept = f"sessionStorage.getItem('midflight-draft:redirect:{stage.run}')"
    assert tab.page.evaluate(kept) == "Only the EU"


def ended_before(stage: Stage, route: Route) -> None:
    """Somebody else is quicker by the time of one request."""
    stage.press("cancel")
    stage.until("cancelled")
    route.continue_()


@pytest.mark.picture
def test_a_cancel_undoes_what_can_be_undone_and_gives_a_receipt(
    theatre: Theatre, look: Look
) -> None:
    stage = theatre.begin()
    stage.give("fetch", "join", "score", "tasks", "memo")
    tab = look(stage)
    tab.says("Waiting for you", "email")
    expect(tab.slot(3)).to_contain_text("Undoes follow-up task and memo")

    tab.press(3)
    tab.says("Cancelling", "Undoing 1 of 2")
    tab.step_is("Write memo", "Undoing")
    expect(tab.slot(1)).to_have_attribute("aria-disabled", "true")
    expect(tab.slot(1)).to_contain_text("Not while cancelling")
    expect(tab.slot(2)).to_contain_text("Not while cancelling")
    stage.give("undo")

    tab.says("Cancelled")
    receipt = tab.page.get_by_role("region", name="Receipt")
    for noun in ("memo", "follow-up task"):
        expect(receipt.locator("div", has_text=re.compile("^Undone"))).to_contain_text(noun)
    tab.step_is("Write memo", "Undone")
    tab.step_is("Send memo", "Cancelled")
    tab.slots_read("Start again", "New run")
    tab.picture("cancelled")


SECOND_TAP = """() => new MutationObserver((_, seen) => {
    const moved = [...document.querySelectorAll("#controls [data-slot]")]
        .find((slot) => slot.querySelector(".label").textContent.startsWith("New run"));
    if (!moved) return;
    seen.disconnect();
    moved.click();
    document.body.dataset.tapped = "twice";
}).observe(document.body, { subtree: true, childList: true, characterData: true })"""


def test_the_second_tap_on_cancel_does_not_press_what_has_come_to_lie_under_it(
    theatre: Theatre, look: Look
) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    tab.page.evaluate(SECOND_TAP)
    tab.page.wait_for_timeout(MEANT_MS)
    tab.slot(3).evaluate("(slot) => { slot.click(); slot.click(); }")  # two taps in one moment

    expect(tab.page.locator("body[data-tapped]")).to_be_visible(timeout=WAIT_MS)
    tab.says("Cancelled")
    assert tab.page.url.endswith(f"/runs/{stage.run}")
    tab.press(tab.page.locator("#controls [data-slot]").count())  # when it is meant, it is done
    expect(tab.page).to_have_url(f"{theatre.url}/", timeout=WAIT_MS)


def test_stop_now_is_offered_late_and_says_what_remains(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    stage.give("fetch", "join", "score", "tasks")
    tab = look(stage)
    tab.says("Running", "Write memo")
    stage.give("memo")
    tab.says("Waiting for you")
    tab.stop_clock()
    tab.press(3)
    tab.slots_read("Pause", "Redirect", "Stop now")
    expect(tab.slot(3)).to_have_attribute("aria-disabled", "true")

    tab.start_clock()
    expect(tab.slot(3)).to_have_attribute("aria-disabled", "false", timeout=WAIT_MS)
    expect(tab.slot(3)).to_contain_text("Skips undo, follow-up task and memo may remain")
    tab.slot(3).click()

    tab.says("Cancelled")
    expect(tab.page.get_by_role("region", name="Receipt")).to_contain_text("undo skipped")


def test_while_something_cannot_be_stopped_a_cancel_asks_in_place(
    theatre: Theatre, look: Look
) -> None:
    stage = theatre.begin()
    stage.give("fetch", "join", "score", "tasks", "memo", "undo")
    tab = look(stage)
    tab.page.get_by_role("button", name=APPROVE).click()
    expect(tab.slot(3)).to_have_attribute("data-opens", "confirm", timeout=WAIT_MS)

    tab.press(3)
    question = tab.page.get_by_role("group", name=re.compile("email is under way"))
    expect(question.get_by_role("button", name="Keep going")).to_be_focused()
    assert not tab.covered(tab.slot(3))
    question.get_by_role("button", name="Keep going").click()
    assert stage.view["phase"] == "running"

    tab.press(3)
    question.get_by_role("button", name="Cancel").click()
    tab.says("Cancelling")
    stage.give("send")
    tab.says("Cancelled")
    expect(tab.page.get_by_role("region", name="Receipt")).to_contain_text("final (irreversible)")


def test_a_run_to_its_end_and_what_was_done_undone_afterwards(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    stage.give("all")
    tab = look(stage)
    tab.page.get_by_role("button", name=APPROVE).click()

    tab.says("Done", "The report is done: sent to ana@example.com")
    tab.slots_read("Start another", "Open result", "Undo")
    receipt = tab.page.get_by_role("region", name="Receipt")
    expect(receipt).to_contain_text("email")
    receipt.get_by_role("button", name="Undo memo").click()
    expect(receipt.locator("div", has_text=re.compile("^Undone"))).to_contain_text(
        "memo", timeout=WAIT_MS
    )
    tab.press(2)
    expect(tab.page.get_by_role("dialog")).to_contain_text("The report is done")


@pytest.mark.picture
def test_a_failed_run_is_tried_again_from_where_it_failed(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("failing")
    stage.give("fetch", "again")
    tab = look(stage)

    tab.says("Failed at step 2", "the line is busy")
    tab.slots_read("Try again", "Redirect", "Close")
    steps = tab.page.get_by_role("region", name="Steps")
    expect(steps.get_by_text("the line is busy")).to_have_count(1)  # where it happened
    tab.picture("failed")
    before = tab.page.url
    stage.give("well")
    tab.press(1)
    tab.says("Done", "through")
    assert tab.page.url != before


def test_a_step_that_is_tried_again_says_so(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("caller")
    tab = look(stage)

    tab.step_is("Call", "Retry 2 of 4")
    stage.press("cancel")


@pytest.mark.picture
def test_a_cap_holds_the_run_until_it_is_raised(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin(limits={"usd": 0.4})
    stage.give("fetch", "join", "score", "tasks")
    tab = look(stage)
    tab.says("Paused at the cap", "$0.42 spent")
    tab.slots_read("Raise cap", "Redirect", "Cancel")
    tab.picture("cap")

    tab.press(1)
    cap, send = tab.page.get_by_label("Money, $"), tab.page.locator(".layer [type=submit]")
    cap.fill("")
    with tab.unheard():
        send.click()
    refused = tab.page.locator(".layer").get_by_role("alert")
    expect(refused).to_contain_text("Money, $: this cap is empty.")
    expect(refused).to_contain_text("Nothing was changed.")
    cap.fill("2")
    expect(refused).to_have_count(0)
    send.click()
    tab.says("Running", "Write memo")
    expect(tab.page.locator(".meter")).to_contain_text("$0.42 of $2.00")


def test_the_cap_that_is_nearest_is_shown_whichever_it_is(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin(limits={"usd": 2, "steps": 3})
    tab = look(stage)
    tab.says("Running", "Fetch customers")
    line = tab.page.locator(".meter")
    expect(line).to_contain_text("$0.00 of $2.00")
    stage.give("fetch", "join", "score")  # of which one asks a model, and that is no step
    tab.says("Running", "Create follow-up tasks")
    expect(line).to_contain_text("$0.42")
    expect(line).not_to_contain_text("of $2.00")
    expect(line).to_contain_text("2 of 3 steps")
    expect(line).to_have_attribute("title", re.compile(r"2 of 3 steps, .*\$0.42 of \$2.00"))
    expect(line.locator(".near")).to_have_count(0)
    stage.give("tasks")
    expect(line.locator(".near")).to_contain_text("3 of 3 steps")
    expect(line.get_by_role("meter")).to_have_accessible_name("Nearest cap: 3 of 3 steps")


def test_a_background_run_is_listed_and_can_be_stopped(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("parent")
    tab = look(stage)
    tab.says("Running")
    tasks = tab.page.locator(".background")
    expect(tasks).to_contain_text("Look around", timeout=WAIT_MS)
    tasks.get_by_role("button", name=re.compile("Stop|Cancel")).click()

    expect(tasks).to_contain_text(re.compile("cancelled", re.IGNORECASE), timeout=WAIT_MS)


@pytest.mark.picture
def test_an_operator_stops_all_agents_and_allows_them_again(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    tab.page.get_by_role("button", name="Stop all agents").click()
    dialog = tab.page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("No undo and no saving")
    expect(dialog.get_by_role("heading")).to_have_text(re.compile(r"^Stop \d+ runs? now\?$"))
    expect(dialog.get_by_role("radio", name="Everything")).to_be_checked()
    expect(dialog.get_by_role("button", name="Keep running")).to_be_focused()
    tab.picture("kill-switch")
    assert tab.violations() == []
    dialog.get_by_role("button", name=re.compile("^Stop")).click()

    tab.says("Stopped by an operator")
    banner = tab.page.get_by_role("region", name="Kill switch")
    expect(banner).to_contain_text("All agents are stopped")
    assert tab.violations() == []
    banner.get_by_role("button", name="Allow runs again").click()
    expect(banner).to_have_count(0, timeout=WAIT_MS)


@pytest.mark.parametrize(
    ("choice", "what", "banner", "refused"),
    [
        ("Agent looker", "1 run of agent looker", "Agent looker is stopped", "of agent looker"),
        ("This thread", "1 run in this thread", "This thread is stopped", "in this thread"),
    ],
)
def test_an_operator_stops_one_agent_or_one_thread_and_nothing_else(
    theatre: Theatre, look: Look, choice: str, what: str, banner: str, refused: str
) -> None:
    other, stage = theatre.begin(), theatre.begin("looker", "Whales {stage}")
    tab = look(stage)
    tab.says("Running")
    tab.page.get_by_role("button", name="Stop all agents").click()
    dialog = tab.page.get_by_role("alertdialog")
    dialog.get_by_role("radio", name=choice).check(force=True)  # its label is what is seen
    expect(dialog.get_by_role("heading")).to_have_text(f"Stop {what} now?")
    expect(dialog).to_contain_text(f"New runs {refused} are refused until you allow them again")
    dialog.get_by_role("button", name=f"Stop {what}", exact=True).click()

    tab.says("Stopped by an operator")
    region = tab.page.get_by_role("region", name="Kill switch")
    expect(region).to_contain_text(banner)
    expect(region).to_contain_text(f"New runs {refused} are refused.")
    assert other.view["phase"] == "running"
    region.get_by_role("button", name="Allow runs again").click()
    expect(region).to_have_count(0, timeout=WAIT_MS)
    assert theatre.get("/v1/operator/switches") == {"switches": []}


def test_of_two_kill_switches_each_is_released_alone(theatre: Theatre, look: Look) -> None:
    one, two = theatre.begin(), theatre.begin()
    tab = look(one)
    for stage in (one, two):
        theatre.post("/v1/operator/kill", {"scope": f"thread:{stage.thread}", "reason": ""})
    regions = tab.page.get_by_role("region", name="Kill switch")
    expect(regions).to_have_count(2, timeout=WAIT_MS)
    tab.page.get_by_role("button", name=f"Allow runs again for thread {two.thread}").click()

    expect(regions).to_have_count(1, timeout=WAIT_MS)
    expect(regions).to_contain_text("This thread is stopped")
    regions.get_by_role("button", name="Allow runs again").click()
    expect(regions).to_have_count(0, timeout=WAIT_MS)


def test_the_keys_pause_redirect_and_cancel(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    tab.page.keyboard.press("Escape")
    tab.says("Paused")
    tab.page.wait_for_timeout(MEANT_MS)
    tab.page.keyboard.press("Escape")
    tab.says("Running")
    tab.page.wait_for_timeout(MEANT_MS)
    tab.page.keyboard.press("Control+e")
    expect(tab.rewrite).to_be_focused()
    tab.page.keyboard.press("Escape")  # one layer a press, and never the run with it
    expect(tab.rewrite).to_have_count(0)
    tab.says("Running")
    tab.page.keyboard.press("Control+.")
    tab.says("Cancelled")


def test_a_viewer_sees_everything_and_presses_nothing(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    tab = look(stage, session=theatre.session("vic", "viewer"))

    tab.says("Running")
    with tab.unheard():
        for number in (1, 2, 3):
            expect(tab.slot(number)).to_have_attribute("aria-disabled", "true")
            tab.slot(number).click(force=True)
        for key in ("Escape", "Control+e", "Control+."):
            tab.page.keyboard.press(key)
    assert stage.view["phase"] == "running"


def test_a_viewer_is_told_why_smaller_buttons_are_off(theatre: Theatre, look: Look) -> None:
    stage, parent = theatre.begin(), theatre.begin("parent")
    stage.give("fetch", "join", "score", "tasks", "memo")
    stage.until("waiting")
    stage.press("cancel", now=True)
    stage.until("cancelled")
    tab = look(stage, session=theatre.session("vic", "viewer"))
    tab.says("Cancelled")
    clerk = theatre.begin("clerk", "Look at churn {stage}")
    theatre.post(f"/v1/threads/{clerk.thread}/messages", {"text": f"later a slide {clerk.name}"})
    with tab.unheard():
        off(tab.page.get_by_role("button", name="Undo memo"))
        tab.step("Write memo").get_by_role("button").first.click()
        off(tab.page.get_by_role("button", name="Fork from here"))
        assert tab.violations() == []

        tab.go_on_to(parent.run)
        off(tab.page.locator(".background").get_by_role("button"))
        tab.go_on_to(clerk.run)
        for name in ("Do it now", "Remove"):
            off(tab.page.locator(".todo-card").get_by_role("button", name=name))
        off(tab.page.locator("li.from-me .outcome").get_by_role("button", name="Do it now"))


def off(button: Locator) -> None:
    """It cannot be pressed, and says why."""
    expect(button).to_have_attribute("aria-disabled", "true", timeout=WAIT_MS)
    expect(button).to_have_attribute("title", "Viewers look and write")
    button.click(force=True)
