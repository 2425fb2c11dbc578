"""Words as they are compared: without signs, and as patterns of several."""

from __future__ import annotations

import re
from typing import Final

SIGNS: Final = re.compile(r"[^\w\s']+")


def plain(text: str) -> str:
    """Small letters, no signs, single spaces; digits are words too."""
    return " ".join(SIGNS.sub(" ", text.casefold().replace("\u2019", "'")).split())


def any_of(*phrases: str) -> str:
    """A pattern for one of these, which may be patterns themselves."""
    return f"(?:{'|'.join(phrases)})"
