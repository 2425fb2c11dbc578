"""The design's colours: neutral surfaces, one accent, states in words and signs first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from textual.theme import Theme

Tones = Mapping[str, str]
DARK: Final = Theme(
    name="midflight-dark",
    primary="#8fb0ff",
    secondary="#b8b4ab",
    accent="#8fb0ff",
    foreground="#f0eee9",
    background="#151412",
    surface="#1d1c19",
    panel="#24221f",
    success="#7cc79a",
    warning="#e6b65c",
    error="#f0948a",
    dark=True,
    variables={"quiet": "#989389", "soft": "#b8b4ab", "line": "#302e2a"},
)
LIGHT: Final = Theme(
    name="midflight-light",
    primary="#2f5fd0",
    secondary="#56534d",
    accent="#2f5fd0",
    foreground="#1d1c1a",
    background="#f7f6f3",
    surface="#fffefc",
    panel="#f0eeea",
    success="#2b7a4b",
    warning="#8f5b00",
    error="#b3372b",
    dark=False,
    variables={"quiet": "#6f6b64", "soft": "#56534d", "line": "#e4e1da"},
)


def tones(theme: Theme) -> Tones:
    """The tones of ``looks`` in the colours of a theme."""
    return {
        "quiet": theme.variables["quiet"],
        "soft": theme.variables["soft"],
        "accent": str(theme.accent),
        "warn": str(theme.warning),
        "ok": str(theme.success),
        "bad": str(theme.error),
        "ink": str(theme.foreground),
    }


STYLE: Final = """
Screen { background: $background; color: $foreground; layers: base; }
#head { height: 2; padding: 0 1; }
#middle { height: 1fr; }
#rail { width: 28; height: 1fr; border: none; border-right: solid $line; display: none;
        background: $background; padding: 0 1; scrollbar-size-vertical: 1; }
#rail:focus { border: none; border-right: solid $accent; }
.narrow #rail.shown { width: 34; }
.narrow.railed #talk { display: none; }
#rail.shown { display: block; }
#rail > .option-list--option-highlighted { background: $panel; color: $foreground; }
#steps { width: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
#talk { width: 1fr; max-width: 60; padding: 0 1; border-left: solid $line;
        scrollbar-size-vertical: 1; }
.narrow #talk { width: 36; }
#card { height: auto; max-height: 18; overflow-y: auto; display: none; border-top: solid $warning;
        padding: 0 1; background: $surface; }
#card.shown { display: block; }
#card Static { height: auto; }
#card-details { height: auto; max-height: 6; }
#card OptionList { height: auto; max-height: 5; border: none; background: $surface; padding: 0; }
#card Input, #layer Input, #composer { border: none; height: 1; padding: 0; background: $surface; }
#card .field { height: 1; }
#card .field Static { width: 18; color: $quiet; }
#layer { height: auto; display: none; border-top: solid $accent; padding: 0 1;
         background: $surface; }
#layer.shown { display: block; }
.layered #card.shown { display: none; }
#layer Static { height: auto; }
#layer-title { text-style: bold; }
#layer-hint { color: $quiet; }
#say { height: 2; border-top: solid $line; padding: 0 1; background: $surface; }
#say Static { width: 2; color: $quiet; }
#composer { width: 1fr; }
#bar { height: auto; min-height: 5; padding: 0 1; background: $surface; }
#status { height: 1; }
#slots { height: 3; }
Slotted { width: 1fr; height: 3; margin-right: 2; }
Slotted:focus { background: $panel; }
#notice { height: auto; min-height: 1; max-height: 4; color: $quiet; }
"""
