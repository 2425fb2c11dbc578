"""The browser that most tests look through: each finds it as if nobody had been there before."""

from __future__ import annotations

import pytest

from page.conftest import Desk, Look
from page.theatre import Theatre

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]
KEPT = "[localStorage.length, sessionStorage.length, document.documentElement.dataset.theme ?? '']"


def test_nothing_is_left_at_the_desk_by_who_was_there_before(
    theatre: Theatre, desk: Desk, look: Look
) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    fresh = tab.page.evaluate(KEPT)
    tab.page.get_by_role("button", name="Settings").click()
    tab.page.get_by_role("dialog", name="Settings").get_by_label("Dark").check()
    tab.page.evaluate("sessionStorage.setItem('midflight-draft', 'half a word')")
    assert tab.page.evaluate(KEPT) != fresh
    tab.page.context.set_offline(True)
    desk.tidy()

    assert desk.tabs == []
    again = look(stage)
    again.says("Running")
    assert again.page.context is desk.context
    assert again.page.evaluate(KEPT) == fresh
    again.page.context.clear_cookies()
    desk.tidy()
    look(stage).says("Running")  # somebody has come in again
