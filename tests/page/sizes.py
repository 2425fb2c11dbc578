"""The sizes at which everything must work, and what must hold at each."""

from __future__ import annotations

from typing import Any

from page.glass import Glass
from page.theatre import soon

WIDTHS = {1280: 800, 820: 1100, 390: 844, 320: 640}


def size(width: int) -> dict[str, Any]:
    more = {"is_mobile": True, "has_touch": True} if width < 700 else {}
    return {"viewport": {"width": width, "height": WIDTHS[width]}, **more}


LETTERS = "parseFloat(getComputedStyle(document.querySelector('.status')).fontSize)"


def enlarge_text(tab: Glass) -> None:
    """Letters twice as large, as set in the browser."""
    was = tab.page.evaluate(LETTERS)
    devtools = tab.page.context.new_cdp_session(tab.page)
    devtools.send("Page.enable")
    devtools.send("Page.setFontSizes", {"fontSizes": {"standard": 32, "fixed": 26}})
    soon(lambda: tab.page.evaluate(LETTERS) == 2 * was, "letters twice as large")


LEGIBLE_MIN = 12  # letters of what a press would do, where there is no room for all of it
READ = """(slots) => slots.map((slot) => {
    const outer = slot.getBoundingClientRect();
    const lettersOf = (part) => {
        const box = part.getBoundingClientRect(), range = document.createRange();
        const text = part.firstChild, seen = [];
        for (let at = 0; at < text.length; at++) {
            range.setStart(text, at);
            range.setEnd(text, at + 1);
            const one = range.getBoundingClientRect();
            const within = (edge) => one.left >= edge.left - 1 && one.right <= edge.right + 1
                && one.top >= edge.top - 1 && one.bottom <= edge.bottom + 1;
            const over = document.elementFromPoint(one.x + one.width / 2, one.y + one.height / 2);
            if (within(box) && within(outer) && slot.contains(over)) seen.push(text.data[at]);
        }
        return [text.data, seen.join("")];
    };
    const letters = [".label", ".cost"].flatMap((part) => lettersOf(slot.querySelector(part)));
    return [...letters, slot.getAttribute("aria-label") ?? ""];  // all in one look: it counts down
})"""


def assert_slots_can_be_read(tab: Glass, about: object) -> None:
    """Of each the whole label and the beginning of what a press would do, and nothing over them."""
    assert not tab.overflows(), about
    read = tab.slots.evaluate_all(READ)
    assert read, about
    for label, label_seen, cost, cost_seen, said in read:
        assert label_seen == label, (about, label, label_seen)
        assert cost.startswith(cost_seen), (about, cost, cost_seen)
        assert len(cost_seen) >= min(len(cost), LEGIBLE_MIN), (about, cost, cost_seen)
        assert cost in said, about  # and all of it is said
