"""Every control in every state, pressed by a person in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from page.conftest import Look
from page.glass import WAIT_MS
from page.theatre import Theatre

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]


def test_pause_then_reload_then_resume(theatre: Theatre, look: Look) -> None:
    stage = theatre.begin()
    tab = look(stage)
    tab.says("Running", "Fetch customers")
    tab.slots_read("Pause", "Redirect", "Cancel")
    expect(tab.slot(1)).to_have_accessible_name(re.compile("Pause, Resume keeps context"))

    tab.press(1)
    tab.says("Paused", "Nothing is running or spending")
    tab.step_is("Fetch customers", "Paused")
    assert stage.view["phase"] == "paused"

    tab.page.reload()
    tab.says("Paused")
    tab.slots_read("Resume")
    tab.press(1)
    tab.says("Running")
    stage.give("fetch", "join")
    tab.step_is("Join revenue", "Done")
    stage.press("cancel")
