"""Nobody is shut out: axe finds nothing in any state, nor in anything that opens beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from page.conftest import DESK, Look
from page.glass import WAIT_MS, Glass
from page.openings import OPENINGS
from page.scenes import SCENES
from page.sizes import size
from page.theatre import Stage, Theatre

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(180)]
LIGHT: dict[str, Any] = {"color_scheme": "light", "forced_colors": "none"}
SCHEMES = {
    "light": LIGHT,
    "dark": LIGHT | {"color_scheme": "dark"},
    "forced": LIGHT | {"forced_colors": "active"},
}


def wrong_in(tab: Glass) -> dict[str, list[str]]:
    """What axe finds in what is open, in each look; names and roles are the same in all of them."""
    found = {}
    for scheme, media in SCHEMES.items():
        tab.page.emulate_media(**media)
        found[scheme] = tab.violations(of_the_look=media is not LIGHT)
    tab.page.emulate_media(**LIGHT)
    return {scheme: wrong for scheme, wrong in found.items() if wrong}


@pytest.fixture(scope="module")
def tabs(browser: Browser, known: Any, theatre: Theatre) -> Iterator[dict[int, Glass]]:
    """One at a desk and one on a phone, for all that is opened."""
    made = {}
    for width in (1280, 390):
        context = browser.new_context(storage_state=known, **DESK | size(width))
        context.set_default_timeout(WAIT_MS)
        made[width] = Glass(context.new_page(), theatre.url)
    yield made
    for tab in made.values():
        tab.page.context.close()


@pytest.fixture
def width_of(request: pytest.FixtureRequest, tabs: dict[int, Glass]) -> Iterator[Glass]:
    """A tab as it was before anything was opened in it."""
    tab = tabs[request.param]
    yield tab
    tab.page.context.set_offline(False)
    tab.page.unroute_all()


@pytest.mark.parametrize("width_of", [1280, 390], indirect=True, ids=["desk", "phone"])
@pytest.mark.parametrize("opening", OPENINGS)
def test_axe_finds_nothing_in_what_opens(theatre: Theatre, width_of: Glass, opening: str) -> None:
    OPENINGS[opening](theatre, width_of)

    assert wrong_in(width_of) == {}


@pytest.mark.parametrize("width", [1280, 390], ids=["desk", "phone"])
def test_axe_finds_nothing_in_any_state(held: dict[str, Stage], look: Look, width: int) -> None:
    tab: Glass | None = None
    wrong: dict[str, dict[str, list[str]]] = {}
    for name, stage in held.items():
        tab = look(stage, **size(width)) if tab is None else tab.turn_to(stage)
        tab.says(SCENES[name].word)
        wrong[name] = wrong_in(tab)

    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize("width", [1280, 390], ids=["desk", "phone"])
def test_axe_sees_what_is_wrong(theatre: Theatre, look: Look, width: int) -> None:
    """The check itself can fail, also once it has been in the page for a while."""
    stage: Stage = theatre.begin()
    tab = look(stage, **size(width))
    tab.says("Running")
    assert tab.violations() == []
    tab.page.evaluate("document.querySelector('.status .what').style.color = '#ddd'")
    tab.page.evaluate("document.querySelector('.status .what b').style.color = '#ddd'")

    for of_the_look in (False, True):
        wrong = tab.violations(of_the_look=of_the_look)
        assert any(found.startswith("color-contrast") for found in wrong)
