"""Several people on one run, and one person with many tabs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, expect

from page.conftest import Look
from page.glass import MEANT_MS, WAIT_MS, Glass
from page.theatre import Theatre

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]


def test_two_browsers_on_one_run_see_the_same(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    ann, bob = look(stage), look(stage, session=theatre.session("bob", "controller"))
    ann.says("Running")
    bob.says("Running")

    ann.press(1)
    bob.says("Paused")
    bob.press(2)
    bob.rewrite.fill("Churn of May")
    bob.page.get_by_role("button", name="Redirect and resume").click()

    ann.says("Running")
    expect(ann.changed).to_contain_text("May", timeout=WAIT_MS)
    ann.changed.click()
    expect(ann.changed).to_contain_text("by bob")


def test_who_is_too_late_is_told_how_it_really_is(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("asker", input={"schema": {"enum": ["ana", "bob"]}, "message": "Who?"})
    tab = look(stage)
    card = tab.page.get_by_role("group", name="Who?")
    expect(card).to_be_visible(timeout=WAIT_MS)
    tab.page.route("**/v1/runs/*/answer", lambda route: late(stage, route))
    card.get_by_role("button", name="Ana").click()

    tab.says("Cancelled")
    expect(card).to_have_count(0)


def late(stage: object, route: object) -> None:
    """Somebody else is quicker by the time of one request."""
    stage.press("cancel")  # type: ignore[attr-defined]
    stage.until("cancelled")  # type: ignore[attr-defined]
    route.continue_()  # type: ignore[attr-defined]


def test_with_eight_tabs_on_running_runs_a_cancel_is_answered_while_all_are_told(
    theatre: Theatre, contexts: Callable[..., BrowserContext]
) -> None:
    context = contexts()
    stages = [theatre.begin(brief=f"Run number {n}") for n in range(8)]
    tabs = [Glass(context.new_page(), theatre.url).look_at(stage.run) for stage in stages]
    for tab in tabs:
        tab.says("Running")
    last = tabs[-1]
    last.page.bring_to_front()
    last.page.wait_for_timeout(MEANT_MS)

    with last.page.expect_response("**/cancel") as answered:
        last.slot(3).click()
    assert answered.value.ok
    last.says("Cancelled")
    for tab, stage in zip(tabs[:-1], stages, strict=False):
        stage.give("fetch")
        tab.says("Running", "Join revenue")  # its line was there all the time
