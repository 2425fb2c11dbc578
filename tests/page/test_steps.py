"""Every word that can stand beside a step, seen in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from playwright.sync_api import expect

from midflight.view.data import WORDS
from page import scenes
from page.conftest import Look
from page.glass import Glass
from page.theatre import Stage, Theatre

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]
NOT_KNOWN: Final = "not known"
ELSEWHERE: Final = (
    "lost"  # its driver is dead, and here the page's own server drives: test_nobody_drives
)
SEEN: Final[dict[Callable[[Theatre], Stage], dict[str, tuple[str, str]]]] = {
    scenes.running: {
        "done": ("Fetch customers", "Done"),
        "running": ("Score churn risk", "Running"),
        "queued": ("Write memo", "Queued"),
    },
    scenes.paused: {"paused": ("Score churn risk", "Paused")},
    scenes.waiting: {"waiting": ("Send memo", "Needs you")},
    scenes.failed: {"failed": ("Call the bank", "Failed")},
    scenes.retrying: {"retrying": ("Call", "Retry 2 of 4")},
    scenes.hasty: {"skipped": ("Look again", "Skipped")},
    scenes.cancelling: {"undoing": ("Write memo", "Undoing")},
    scenes.cancelled: {
        "undone": ("Write memo", "Undone"),
        "cancelled": ("Send memo", "Cancelled"),
    },
    scenes.cancelled_at_once: {"kept": ("Write memo", "Kept")},
    scenes.undo_broken_off: {"undo_failed": ("Write memo", "Could not undo")},
    scenes.killed_in_flight: {NOT_KNOWN: ("Create follow-up tasks", "Not known")},
}
"""A run in which each state of a step is to be seen, at which step, and its word."""


def test_there_is_a_step_in_each_state() -> None:
    seen = {state for row in SEEN.values() for state in row}
    assert seen == {*WORDS, NOT_KNOWN} - {ELSEWHERE}


def test_each_step_says_how_it_stands(theatre: Theatre, look: Look) -> None:
    tab: Glass | None = None
    for scene, steps in SEEN.items():
        stage = scene(theatre)
        tab = tab.turn_to(stage) if tab else look(stage)
        for name, word in steps.values():
            tab.step_is(name, word)


def test_the_list_of_runs_counts_the_steps_that_the_run_shows_as_done(
    theatre: Theatre, look: Look
) -> None:
    stage = theatre.begin("chief", "Churn {stage}")
    stage.give("fetch", "around")
    tab = look(stage)
    tab.says("Running", "Write memo")
    assert stage.view["spent"]["steps"] == 2  # of which one is not its own

    tab.step_is("Fetch customers", "Done")
    row = tab.page.get_by_role("link", name=f"Churn {stage.name}")
    expect(row).to_contain_text("Running, 1 step done")
    tab.page.get_by_role("button", name="Timeline").click()
    expect(tab.page.get_by_label("1 of 2 steps done")).to_be_visible()


@pytest.mark.parametrize("scene", [scenes.stale, scenes.capped])
def test_the_list_says_of_a_held_run_that_somebody_is_needed(
    theatre: Theatre, look: Look, scene: Callable[[Theatre], Stage]
) -> None:
    tab = look(scene(theatre))
    row = tab.page.locator(".run-row[aria-current]")
    expect(row).to_contain_text("Paused, needs you")


def test_what_was_ended_in_the_middle_says_so_as_a_person_would(
    theatre: Theatre, look: Look
) -> None:
    tab = look(scenes.paused(theatre))
    expect(tab.step("Score churn risk")).to_contain_text("Stopped by the pause")
    tab.turn_to(scenes.cancelling(theatre))
    receipt = tab.page.get_by_role("region", name="Receipt")
    expect(receipt.locator("h2")).to_have_text("To be undone")  # which is not: not undone


def test_what_could_not_be_undone_says_what_to_do_until_somebody_has(
    theatre: Theatre, look: Look
) -> None:
    stage = scenes.undo_broken_off(theatre)
    tab = look(stage)
    tab.step("Write memo").get_by_text("What to do").click()
    details = tab.step("Write memo").locator(".step-details")
    details.get_by_text("mark it as handled in the receipt").wait_for()

    line = tab.page.get_by_role("region", name="Receipt").locator("li", has_text="memo:")
    line.get_by_role("button", name="Mark as handled").click()
    line.get_by_text("could not be undone").and_(tab.page.locator(":not(.bad)")).wait_for()
    tab.page.reload()
    line.get_by_text(", handled (noted in this browser only)").wait_for()  # also tomorrow
    elsewhere = (
        look(stage).page.get_by_role("region", name="Receipt").locator("li", has_text="memo:")
    )
    expect(elsewhere.get_by_role("button", name="Mark as handled")).to_be_visible()  # it is so

    stage.give("undo")
    line.get_by_role("button", name="Try again memo").click()
    tab.step_is("Write memo", "Undone")
