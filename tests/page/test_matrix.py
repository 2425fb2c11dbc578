"""Every control in every state: what the bar offers there, and what a press of it does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, expect

from midflight.journal.phases import Cause, Phase
from midflight.journal.transition_table import VERBS
from page import test_acts, test_cards
from page.conftest import DESK
from page.glass import MEANT_MS, WAIT_MS, Glass
from page.scenes import SCENES
from page.sizes import size
from page.theatre import Stage, Theatre

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]
Pressed = Callable[[Glass, Stage], None]
NEVER_SHOWN: Final = {Cause.DRAIN: "held while its server leaves, and with it the page"}
ELSEWHERE: Final[dict[str, Callable[..., None]]] = {
    "answer": test_cards.test_approve,
    "stop effect": test_acts.test_a_step_alone_is_stopped,
    "take over": test_acts.test_a_run_is_taken_over_and_handed_back,
}
"""Verbs of the kernel that have no slot of their own, and the test that presses each."""
SLOT_OF: Final = {
    "pause": ("Pause",),
    "resume": ("Resume", "Keep running"),
    "redirect": ("Redirect",),
    "cancel": ("Cancel", "Stop now"),
    "raise limits": ("Raise cap",),
    "hand back": ("Hand back",),
    "undo": ("Undo",),
    "recover": ("Recover",),
}
"""The labels under which a verb of the kernel stands in the bar."""
OWN_WORDS: Final = {
    ("failed", "Redirect"): "a fork, which is no verb of the run",
    ("stale", "Review"): "counts in words, and the time that is left",
    ("waiting", "Review"): "counts in words, and the time that is left",
    ("cancelling", "Stop now"): "says first when it will be offered",
}
"""Slots that say something else than the server's sentence for their verb, and why."""


@pytest.fixture(scope="module")
def tab(browser: Browser, known: Any, theatre: Theatre) -> Iterator[Glass]:
    """One for all of them: what is looked at changes, as by links in the rail."""
    yield from opened(browser.new_context(storage_state=known, **DESK), theatre)


@pytest.fixture(scope="module")
def phone(browser: Browser, known: Any, theatre: Theatre) -> Iterator[Glass]:
    """The same in a hand."""
    yield from opened(browser.new_context(storage_state=known, **DESK | size(390)), theatre)


def opened(context: BrowserContext, theatre: Theatre) -> Iterator[Glass]:
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(theatre.url)
    yield Glass(page, theatre.url)
    context.close()


def now(word: str, detail: str = "") -> Pressed:
    """The press is all, and the bar says so afterwards."""
    return lambda tab, _: tab.says(word, detail)


def home(tab: Glass, _: Stage) -> None:
    expect(tab.page).to_have_url(f"{tab.url}/")
    expect(tab.page.get_by_label("What should the agent do?")).to_be_focused()


def rewritten(word: str = "", button: str = "Redirect") -> Pressed:
    """A new brief is on record, the line says what changed, and the run is as it should be."""

    def press(tab: Glass, stage: Stage) -> None:
        tab.rewrite.fill(f"Churn of May {stage.name}")
        tab.page.locator(".layer").get_by_role("button", name=button, exact=True).click()
        expect(tab.changed.locator("ins")).to_contain_text("May", timeout=WAIT_MS)
        if word:
            tab.says(word)
        expect(tab.rewrite).to_have_count(0)

    return press


def forked(word: str) -> Pressed:
    """Another run goes on from there, and this one stays as it was."""

    def press(tab: Glass, stage: Stage) -> None:
        stage.give("well", "all")
        expect(tab.page).not_to_have_url(re.compile(stage.run), timeout=WAIT_MS)
        expect(tab.page.get_by_text("A fork of")).to_be_visible(timeout=WAIT_MS)
        tab.says(word)

    return press


def forked_with_another_brief(tab: Glass, stage: Stage) -> None:
    tab.rewrite.fill(f"Churn of May {stage.name}")
    expect(tab.page.locator(".layer")).to_contain_text("this one stays as it is")
    tab.page.locator(".layer").get_by_role("button", name="Redirect", exact=True).click()
    forked("Done")(tab, stage)
    expect(tab.page.get_by_role("heading", level=1)).to_contain_text("Churn of May")


def reviewed(tab: Glass, _: Stage) -> None:
    expect(tab.page.locator(".card-title")).to_be_focused()


def raised(tab: Glass, stage: Stage) -> None:
    tab.page.get_by_label("Money, $").fill("2")
    tab.page.locator(".layer").get_by_role("button", name="Raise cap").click()
    tab.says("Running")
    assert stage.view["limits"]["usd"] == 2


def handed_back(tab: Glass, _: Stage) -> None:
    tab.note.fill("It was the wrong table")
    tab.page.locator(".layer").get_by_role("button", name="Hand back").click()
    tab.says("Running")


def result_opened(tab: Glass, _: Stage) -> None:
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("The report is done")
    tab.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def undone(tab: Glass, _: Stage) -> None:
    receipt = tab.page.get_by_role("region", name="Receipt")
    for noun in ("memo", "follow-up task"):
        line = receipt.locator("div", has_text=re.compile("^Undone"))
        expect(line).to_contain_text(noun, timeout=WAIT_MS)


def stays_off(tab: Glass, stage: Stage) -> None:
    assert stage.view["phase"] == "cancelling"
    tab.says("Cancelling")
    expect(tab.rewrite).to_have_count(0)


PRESSES: Final[dict[str, dict[str, Pressed]]] = {
    "queued": {
        "Pause": now("Paused"),
        "Redirect": rewritten("Queued"),
        "Cancel": now("Cancelled"),  # at once: it was never begun
    },
    "running": {
        "Pause": now("Paused", "Nothing is running or spending"),
        "Redirect": rewritten("Running"),
        "Cancel": now("Cancelled"),
    },
    "pausing": {
        "Keep running": now("Running"),
        "Redirect": rewritten("Pausing"),
        "Cancel": now("Cancelling"),
    },
    "paused": {
        "Resume": now("Running"),
        "Redirect": rewritten("Running", "Redirect and resume"),
        "Cancel": now("Cancelled"),
    },
    "at the cap": {
        "Raise cap": raised,
        "Redirect": rewritten("Paused at the cap"),
        "Cancel": now("Cancelled"),
    },
    "taken over": {
        "Hand back": handed_back,
        "Redirect": rewritten("robot has it"),
        "Cancel": now("Cancelled"),
    },
    "parked": {
        "Bring back": now("Running"),
        "Redirect": rewritten("Parked"),
        "Cancel": now("Cancelled"),
    },
    "stale": {
        "Review": reviewed,
        "Redirect": rewritten("Waiting for you"),
        "Cancel": now("Cancelled"),
    },
    "waiting": {
        "Review": reviewed,
        "Redirect": rewritten(),  # it runs, and soon asks again
        "Cancel": now("Cancelling"),
    },
    "cancelling": {
        "Pause": stays_off,
        "Redirect": stays_off,
        "Stop now": now("Cancelled"),
    },
    "done": {"Start another": home, "Open result": result_opened, "Undo": undone},
    "cancelled": {"Start again": forked("Waiting for you"), "New run": home},
    "cancelled at once": {
        "Start again": forked("Waiting for you"),
        "New run": home,
        "Undo": undone,
    },
    "failed": {
        "Try again": forked("Done"),
        "Redirect": forked_with_another_brief,
        "Close": home,
    },
    "killed": {"New run": home, "Recover": now("Paused")},
}


def test_there_is_a_scene_for_every_phase_and_every_cause_of_a_hold() -> None:
    assert {scene.phase for scene in SCENES.values()} == set(Phase)
    assert {scene.cause for scene in SCENES.values()} - {None} == set(Cause) - set(NEVER_SHOWN)


def test_every_control_of_every_scene_is_pressed_here() -> None:
    assert {name: tuple(controls) for name, controls in PRESSES.items()} == {
        name: scene.slots for name, scene in SCENES.items()
    }


def test_every_verb_of_the_kernel_has_a_press() -> None:
    labels = {label for row in PRESSES.values() for label in row}
    assert set(SLOT_OF) | set(ELSEWHERE) == set(VERBS)
    assert {label for found in SLOT_OF.values() for label in found} <= labels


@pytest.mark.parametrize("name", SCENES)
def test_the_bar_offers_what_the_design_says_in_the_words_of_the_server(
    held: dict[str, Stage], tab: Glass, name: str
) -> None:
    scene = SCENES[name]
    stage = held[name]
    view = stage.view
    assert view["phase"] == scene.phase
    assert scene.cause is None or scene.cause in view["holds"]

    tab.turn_to(stage).says(scene.word)
    tab.slots_are(*scene.slots)
    for number, label in enumerate(scene.slots, 1):
        verbs = [one for one in view["preview"].values() if one["label"] == label]
        for offer in (one for one in verbs if (name, label) not in OWN_WORDS):
            expect(tab.slot(number)).to_contain_text(offer["consequence"], timeout=WAIT_MS)


@pytest.mark.parametrize(
    ("name", "control"), [(name, control) for name, row in PRESSES.items() for control in row]
)
def test_a_press_does_what_it_says(theatre: Theatre, tab: Glass, name: str, control: str) -> None:
    stage = SCENES[name].begin(theatre)
    slot = found(tab.turn_to(stage), name, control)

    with tab.unheard() if PRESSES[name][control] is stays_off else nullcontext():
        slot.click(force=True)
    PRESSES[name][control](tab, stage)


def found(tab: Glass, name: str, control: str) -> Locator:
    """The slot of a control, once it is there, ready, and may be meant."""
    scene = SCENES[name]
    tab.says(scene.word)
    slot = tab.slot(scene.slots.index(control) + 1)
    expect(slot.locator(".label")).to_contain_text(control, timeout=WAIT_MS)
    if PRESSES[name][control] is not stays_off:
        expect(slot).to_have_attribute("aria-disabled", "false", timeout=WAIT_MS)
    tab.page.wait_for_timeout(MEANT_MS)
    return slot


@pytest.mark.parametrize(
    ("name", "control"),
    [
        ("running", "Pause"),
        ("running", "Redirect"),
        ("running", "Cancel"),
        ("paused", "Resume"),
        ("paused", "Redirect"),
        ("at the cap", "Raise cap"),
        ("waiting", "Review"),
    ],
)
def test_on_a_phone_a_tap_does_the_same(
    theatre: Theatre, phone: Glass, name: str, control: str
) -> None:
    stage = SCENES[name].begin(theatre)
    found(phone.turn_to(stage), name, control).tap()
    PRESSES[name][control](phone, stage)


def test_on_a_phone_a_question_is_answered_by_a_tap(theatre: Theatre, phone: Glass) -> None:
    approved = SCENES["waiting"].begin(theatre)
    phone.turn_to(approved).says("Waiting for you")
    phone.page.locator(".card").get_by_role("button", name=re.compile("^Approve")).tap()
    phone.says("Done", "sent to ana@example.com")

    given = {"schema": {"enum": ["ana", "bob"]}, "message": "Who?"}
    asked = theatre.begin("asker", input=given)
    phone.turn_to(asked).says("Waiting for you", "Who?")
    phone.page.get_by_role("group", name="Who?").get_by_role("button", name="Bob").tap()
    phone.says("Done")
    assert theatre.get(f"/v1/runs/{asked.run}/result")["result"]["answered"] == "bob"
