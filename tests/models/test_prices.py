"""Money by a list that came with the package; what is not on it has no price."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midflight.models.model import Spent
from midflight.models.wire import priced
from models.test_opening import python

AT = 1_770_000_000.0
CLAUDE = "https://api.anthropic.com"
OPENAI = "https://api.openai.com/v1/"
USED = Spent(1_000_000, 1_000_000, 0, None, "claude-sonnet-4-5")


def usd(spent: Spent, url: str = CLAUDE) -> float | None:
    return priced(spent, url=url, at=AT).usd


def test_a_known_model_of_a_known_server_has_its_price() -> None:
    small = replace(USED, input_tokens=1000, output_tokens=1000)

    assert usd(small) == pytest.approx(0.003 + 0.015)
    assert usd(replace(small, model="gpt-4o"), "https://api.openai.com/v1/") == pytest.approx(
        0.0125
    )


def test_what_came_from_the_cache_costs_less_and_what_went_into_it_more() -> None:
    plain = replace(USED, input_tokens=1000, output_tokens=0)

    read = usd(replace(plain, cached_tokens=1000))
    written = usd(replace(plain, cache_write_tokens=1000))

    assert read == pytest.approx(0.0003)
    assert written == pytest.approx(0.00375)


@pytest.mark.parametrize(
    ("model", "url"),
    [
        ("claude-unheard-of", CLAUDE),
        ("claude-sonnet-4-5", "http://localhost:11434/v1"),
        ("gpt-4o", "http://localhost:11434/v1"),
        ("gpt-4o", "https://models.example.org/v1"),
        ("", CLAUDE),
    ],
)
def test_what_is_not_on_the_list_has_no_price(model: str, url: str) -> None:
    assert usd(replace(USED, model=model), url) is None


def test_figures_that_are_estimated_have_no_price() -> None:
    assert usd(replace(USED, estimated=True)) is None


def test_figures_that_cannot_be_right_have_no_price() -> None:
    assert usd(replace(USED, input_tokens=10, cached_tokens=20)) is None
    assert usd(replace(USED, input_tokens=-1)) is None


def test_nothing_is_downloaded_and_without_the_list_there_are_no_prices() -> None:
    told = python(
        "import sys",
        "def refuse(event, args):",
        "    if event.startswith('socket.'): raise RuntimeError(event)",
        "sys.addaudithook(refuse)",
        "from midflight.models.model import Spent",
        "from midflight.models.wire import priced",
        "spent = Spent(1000, 0, 0, None, 'claude-sonnet-4-5')",
        f"print(priced(spent, url={CLAUDE!r}, at={AT}).usd)",
        "sys.modules['genai_prices'] = None",
        f"print(priced(spent, url={CLAUDE!r}, at={AT}).usd)",
    )

    assert told.split() == ["0.003", "None"]
