"""Words of others that are read from right to left turn none of ours beside them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from page.conftest import Look
from page.glass import WAIT_MS
from page.theatre import Theatre

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]

TRIES = 20
OVERRIDE = "\u202e"  # what comes after it is shown from right to left
LEFT_OF = """(element, words) => {
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const edges = words.map(() => null);
    for (let node = texts.nextNode(); node; node = texts.nextNode())
        words.forEach((word, at) => {
            const found = node.data.indexOf(word);
            if (found < 0 || edges[at] !== null) return;
            const range = document.createRange();
            range.setStart(node, found);
            range.setEnd(node, found + word.length);
            edges[at] = range.getBoundingClientRect().left;
        });
    return edges;
}"""


def in_sight(element: Locator, *words: str) -> list[str]:
    """These words as they stand in a line, from left to right."""
    edges: list[float] = []
    for _ in range(TRIES):  # an element that was just replaced by another stands nowhere
        expect(element).to_be_visible(timeout=WAIT_MS)
        edges = element.evaluate(LEFT_OF, list(words))
        if all(edges):
            break
    assert all(edges), f"{words} are not all there: {edges}"
    return [word for _, word in sorted(zip(edges, words, strict=True))]


def test_what_was_searched_for_does_not_turn_the_end_of_our_sentence(
    theatre: Theatre, look: Look
) -> None:
    tab = look(theatre.begin("clerk", "Look at churn {stage}"))
    tab.says("Running", "Look")
    tab.page.get_by_label("Search runs").fill(f"{OVERRIDE}whales")

    none = tab.page.locator(".runs .none")
    assert in_sight(none, "whales", "”.") == ["whales", "”."]


def test_a_run_that_was_parked_is_named_within_our_sentence(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin("clerk", f"{OVERRIDE}Look at churn {{stage}}")
    tab = look(stage)
    tab.says("Running", "Look")
    tab.page.get_by_label("Message the agent").fill("instead look at whales")
    tab.page.keyboard.press("Control+Enter")
    outcome = tab.page.locator(".outcome", has_text="Switched")

    assert in_sight(outcome, "to this now", "Look at churn", " parked") == [
        "to this now",
        "Look at churn",
        " parked",
    ]


def test_a_message_from_right_to_left_ends_on_the_left(theatre: Theatre, look: Look) -> None:
    tab = look(theatre.begin("clerk", "Look at churn {stage}"))
    tab.says("Running", "Look")
    tab.page.get_by_label("Message the agent").fill("שלום עולם!")
    tab.page.keyboard.press("Enter")

    message = tab.page.locator(".mine", has_text="שלום")
    assert in_sight(message, "!", "עולם", "שלום") == ["!", "עולם", "שלום"]


def test_a_title_shows_what_would_turn_it(theatre: Theatre, look: Look) -> None:
    tab = look(theatre.begin("clerk", f"Look at {OVERRIDE}churn {{stage}}"))
    tab.says("Running", "Look")

    title = tab.page.locator("h1")
    assert in_sight(title, "Look at", "\ufffdchurn") == ["Look at", "\ufffdchurn"]
