"""Alt+Enter, as terminals without a newer keyboard protocol send it: Escape and Return together."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

ALT_ENTER: Final = "\x1b\r"


class Extra(Enum):
    """Keys that Textual's table lacks."""

    ALT_ENTER = "alt+enter"


def know_alt_enter() -> None:
    """Teach it to Textual; otherwise the Alt is lost, and Alt+Enter is a plain Enter."""
    try:
        from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
    except ImportError:  # moved: a plain Enter sends, which loses nothing
        return
    table: Any = ANSI_SEQUENCES_KEYS
    table.setdefault(ALT_ENTER, (Extra.ALT_ENTER,))
