"""Checks the texts that an agent's function gives to its run: a journal has to hold them.

A text that cannot be stored is refused where it is given, before anything is recorded. Nothing is
mended here: the function can be told, and knows better what it meant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from midflight.errors import InvalidRequest
from midflight.plain import HALVES

TEXT_MAX: Final = 500_000  # characters of one text; an event holds a megabyte
NAME_MAX: Final = 10_000  # characters of a name or a key, which stand in many events
NOTHING: Final = "Nothing was recorded."


def text(call: str, what: str, value: Any, most: int = TEXT_MAX) -> None:
    """Raise ``InvalidRequest`` unless ``value`` is a text that every store takes."""
    if type(value) is not str and not isinstance(value, StrEnum):
        kind = type(value).__name__[:80]
        raise InvalidRequest(f"{call} takes a text as {what}, not {kind}. {NOTHING}")
    if len(value) > most:
        raise InvalidRequest(
            f"{call}: {what} has {len(value):,} characters, and at most {most:,} can be stored. "
            f"Save it to a file and say where it is. {NOTHING}"
        )
    if not value.isascii() and HALVES.search(value):
        raise InvalidRequest(
            f"{call}: {what} holds half of a character (a lone surrogate). {NOTHING}"
        )


def name(call: str, what: str, value: Any) -> None:
    """Raise ``InvalidRequest`` unless ``value`` can be a name: a text, and not as long as one."""
    text(call, what, value, NAME_MAX)
    if "\0" in value:
        raise InvalidRequest(f"{call}: {what} holds a NUL character. {NOTHING}")


def names(call: str, what: str, values: Any) -> None:
    """Raise ``InvalidRequest`` unless all of ``values`` can be names."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidRequest(f"{call} takes a list of texts as {what}. {NOTHING}")
    for value in values:
        name(call, what, value)


def seconds(call: str, what: str, value: Any) -> None:
    """Raise ``InvalidRequest`` unless ``value`` is a time that a person could wait, or None."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (number and 0 <= value < math.inf):
        raise InvalidRequest(f"{call}: {what} is a number of seconds, zero or more. {NOTHING}")
