"""CopilotKit and assistant-ui, as people use them, against a real server: see docs/agui.md."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from midflight.interfaces.cli.console import person
from page.glass import Glass
from server.agui_uis.cast import STORY
from server.agui_uis.screen import Screen

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.node,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.xdist_group("agui_uis"),
]


def test_an_answer_streams_in_and_stands_there_once(screen: Screen) -> None:
    half = screen.remember(r"^The tea is in the bl(?!.*fresh)")
    screen.say("tell me where the tea is")
    screen.shows(STORY)
    assert half()
    screen.rests()
    screen.shows(STORY)
    expect(screen.said).to_have_count(1)
    screen.say("tell me again")
    screen.shows(STORY, times=2)
    screen.rests()
    screen.shows(STORY, times=2)


def test_a_tool_is_shown_by_its_name_with_what_it_was_given_and_what_it_found(
    screen: Screen,
) -> None:
    screen.say("price of tea, please")
    screen.shows("Tea costs 4 euros.")
    screen.rests()
    screen.shows("I look that up.")
    tool = screen.tool("look_up_price")
    expect(tool).to_contain_text("product")
    expect(tool).to_contain_text("euros")
    expect(screen.tools).to_have_count(1)


def test_a_tool_is_announced_when_it_begins(screen: Screen) -> None:
    screen.say(f"wait {screen.name}-begins")
    expect(screen.tool("wait_for_delivery")).to_contain_text(f"{screen.name}-begins")
    assert screen.run["phase"] == "running"
    screen.cue(f"{screen.name}-begins")
    screen.shows("The parcel has come.")


def test_an_approval_is_given_with_the_button_of_the_interface(screen: Screen) -> None:
    screen.say("invoice Ann")
    screen.asks("Invoices are final.")
    expect(screen.asked).to_contain_text('"euros":')
    expect(screen.asked).to_contain_text("Ann")
    screen.press("Approve")
    screen.shows("The tool said: Invoice over 40 euros sent to Ann.")
    screen.rests()
    expect(screen.questions).to_have_count(0)
    expect(screen.tools).to_have_count(1)


def test_a_denial_reaches_the_agent_with_its_reason(screen: Screen) -> None:
    screen.say("invoice Ann")
    screen.asks("Invoices are final.")
    screen.write("she has paid already")
    screen.press("Deny")
    screen.shows(
        "The tool said: Error: step 'invoice: Ann' failed: not done; ann says: she has paid already"
    )
    screen.rests()
    expect(screen.questions).to_have_count(0)
    expect(screen.page.get_by_text("Invoice over 40 euros")).to_have_count(0)


def test_a_wrong_answer_brings_the_question_again(screen: Screen) -> None:
    screen.say("question please")
    screen.asks("Which size?")
    screen.write("purple")
    with screen.page.expect_response("**/agui") as answered:
        screen.press("Answer")
    assert answered.value.status == 200
    screen.rests()
    screen.asks("Which size?")
    screen.asks("Your answer was not taken: ")
    screen.press("large")
    screen.shows("I take it: ann: large")
    screen.rests()
    expect(screen.questions).to_have_count(0)


def test_after_stop_the_run_goes_on_and_the_thread_can_be_used(screen: Screen) -> None:
    screen.say(f"wait {screen.name}-stop")
    screen.tool("wait_for_delivery")
    screen.stop()
    screen.rests()
    assert screen.run["phase"] == "running"
    screen.cue(f"{screen.name}-stop")
    screen.until("done")
    screen.say("price of tea, please")
    screen.shows("Tea costs 4 euros.")
    screen.shows("The parcel has come.")


def test_a_page_can_have_stop_cancel_the_run(screen: Screen) -> None:
    screen.open(stop="cancel")
    screen.say(f"wait {screen.name}-cancelled")
    screen.tool("wait_for_delivery")
    with screen.page.expect_response("**/cancel") as pressed:
        screen.stop()
    assert pressed.value.status == 200
    screen.until("cancelled")
    screen.rests()
    screen.say("price of tea, please")
    screen.shows("Tea costs 4 euros.")
    screen.shows_cancelled(by="ann")


def test_a_reload_while_a_run_goes_on_finds_it(screen: Screen) -> None:
    screen.say(f"wait {screen.name}-reload")
    screen.tool("wait_for_delivery")
    screen.reload()
    screen.hears(f"wait {screen.name}-reload")
    screen.shows("I wait for the parcel.")
    screen.tool("wait_for_delivery")
    screen.cue(f"{screen.name}-reload")
    screen.shows("The parcel has come.")
    screen.rests()
    screen.shows("The parcel has come.")
    screen.tool("wait_for_delivery")


def test_a_reload_while_a_question_is_open_finds_it(screen: Screen) -> None:
    screen.say("invoice Ann")
    screen.asks("Invoices are final.")
    screen.reload()
    screen.asks("Invoices are final.")
    screen.press("Approve")
    screen.shows("The tool said: Invoice over 40 euros sent to Ann.")
    screen.rests()
    screen.tool("send_invoice")


def test_a_message_from_elsewhere_is_shown_while_the_agent_works(screen: Screen) -> None:
    screen.say(f"wait {screen.name}-elsewhere")
    screen.tool("wait_for_delivery")
    screen.somebody_writes("Please bring milk, too.")
    screen.hears("Please bring milk, too.")
    screen.shows("Noted.")
    screen.cue(f"{screen.name}-elsewhere")
    screen.shows("I also read: Please bring milk, too.")
    screen.rests()
    screen.shows("I also read: Please bring milk, too.")
    screen.hears("Please bring milk, too.")


def test_a_message_from_elsewhere_is_shown_while_nothing_goes_on(screen: Screen) -> None:
    screen.say("price of tea, please")
    screen.shows("Tea costs 4 euros.")
    screen.rests()
    screen.somebody_writes("tell me, too")
    screen.hears("tell me, too")
    screen.shows(STORY)
    screen.rests()
    screen.shows(STORY)


def test_a_pause_from_our_bar_is_shown_and_a_resume_from_there_goes_on(screen: Screen) -> None:
    screen.say(f"wait {screen.name}-paused")
    screen.tool("wait_for_delivery")
    screen.bar("pause")
    expect(screen.page.get_by_role("button", name="Resume")).to_be_visible()
    screen.cue(f"{screen.name}-paused")
    screen.bar("resume")
    screen.shows("The parcel has come.")
    screen.rests()
    expect(screen.questions).to_have_count(0)
    screen.shows("The parcel has come.")


def test_a_pause_from_our_bar_is_lifted_in_the_interface(screen: Screen) -> None:
    screen.say(f"wait {screen.name}-lifted")
    screen.tool("wait_for_delivery")
    screen.bar("pause")
    screen.cue(f"{screen.name}-lifted")
    screen.press("Resume")
    screen.shows("The parcel has come.")
    screen.rests()
    expect(screen.questions).to_have_count(0)


def test_pause_resume_and_cancel_pressed_in_our_own_page_are_shown(
    screen: Screen, ours: Glass
) -> None:
    screen.say(f"wait {screen.name}-ours")
    screen.tool("wait_for_delivery")
    ours.look_at(screen.run["journal"])
    ours.slots_read("Pause", "Redirect", "Cancel")
    ours.press(1)
    ours.says("Paused")
    resume = screen.page.get_by_role("button", name="Resume")
    expect(resume).to_be_visible()
    ours.slots_read("Resume", "Redirect", "Cancel")
    ours.press(1)
    ours.says("Running")
    expect(resume).to_have_count(0)
    ours.slots_read("Pause", "Redirect", "Cancel")
    ours.press(3)
    ours.says("Cancelled")
    screen.shows_cancelled(by=person())
    screen.rests()
    screen.say("price of tea, please")
    screen.shows("Tea costs 4 euros.")


def test_a_cancel_from_our_bar_is_shown_and_the_thread_can_be_used(screen: Screen) -> None:
    screen.say(f"wait {screen.name}-cancel")
    screen.tool("wait_for_delivery")
    screen.bar("cancel")
    screen.shows_cancelled(by="robot")
    screen.rests()
    screen.say("price of tea, please")
    screen.shows("Tea costs 4 euros.")


def test_a_paused_run_that_is_cancelled_from_our_bar_leaves_no_question_behind(
    screen: Screen,
) -> None:
    screen.say(f"wait {screen.name}-both")
    screen.tool("wait_for_delivery")
    screen.bar("pause")
    expect(screen.page.get_by_role("button", name="Resume")).to_be_visible()
    screen.bar("cancel")
    screen.shows_cancelled(by="robot")
    screen.rests()
    expect(screen.questions).to_have_count(0)
    screen.say("price of tea, please")
    screen.shows("Tea costs 4 euros.")


def test_an_answer_given_elsewhere_takes_the_question_away(screen: Screen) -> None:
    screen.say("question please")
    screen.asks("Which size?")
    screen.somebody_answers("small")
    screen.shows("I take it: robot: small")
    screen.rests()
    expect(screen.questions).to_have_count(0)
