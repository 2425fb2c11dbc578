"""The browser that most tests look through: each finds it as if nobody had been there before."""

from __future__ import annotations

import pytest

from page.conftest import Desks, Look
from page.sizes import LETTERS, enlarge_text
from page.theatre import Theatre

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]
KEPT = "[localStorage.length, sessionStorage.length, document.documentElement.dataset.theme ?? '']"


def test_nothing_is_left_at_the_desk_by_who_was_there_before(
    theatre: Theatre, desks: Desks, look: Look
) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running")
    fresh, letters = tab.page.evaluate(KEPT), tab.page.evaluate(LETTERS)
    tab.page.get_by_role("button", name="Settings").click()
    tab.page.get_by_role("dialog", name="Settings").get_by_label("Dark").check()
    tab.page.evaluate("sessionStorage.setItem('midflight-draft', 'half a word')")
    assert tab.page.evaluate(KEPT) != fresh
    enlarge_text(tab)
    tab.page.context.set_offline(True)
    desks.tidy()

    assert desks.tabs == []
    again = look(stage)
    again.says("Running")
    assert again.page.context is tab.page.context
    assert again.page.evaluate(KEPT) == fresh
    assert again.page.evaluate(LETTERS) == letters
    again.page.context.clear_cookies()
    desks.tidy()
    look(stage).says("Running")  # somebody has come in again
