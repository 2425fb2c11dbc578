"""The sizes at which everything must work, and what must hold at each."""

from __future__ import annotations

from typing import Any

from page.glass import Glass

WIDTHS = {1280: 800, 820: 1100, 390: 844, 320: 640}


def size(width: int) -> dict[str, Any]:
    more = {"is_mobile": True, "has_touch": True} if width < 700 else {}
    return {"viewport": {"width": width, "height": WIDTHS[width]}, **more}


def enlarge_text(tab: Glass) -> None:
    """Letters twice as large, as set in the browser."""
    devtools = tab.page.context.new_cdp_session(tab.page)
    devtools.send("Page.enable")
    devtools.send("Page.setFontSizes", {"fontSizes": {"standard": 32, "fixed": 26}})
    tab.page.wait_for_timeout(200)


def assert_slots_can_be_read(tab: Glass, about: object) -> None:
    """Each has its label and, however short, what a press would do, and nothing lies over it."""
    assert not tab.overflows(), about
    for slot in tab.page.locator("#controls [data-slot]").all():
        label, cost = slot.locator(".label"), slot.locator(".cost")
        assert not tab.covered(slot), about
        assert not label.evaluate("(e) => e.scrollWidth > e.clientWidth"), about
        outer, inner = tab.box(slot), tab.box(cost)
        assert inner["height"] > 8, (about, inner)
        assert inner["width"] > 40, (about, inner)
        assert tab.box(label)["y"] >= outer["y"], (about, outer)
        assert inner["y"] + inner["height"] <= outer["y"] + outer["height"], (about, outer, inner)
