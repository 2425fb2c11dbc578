"""What a command prints: one JSON document, or lines for a person."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {
    "quiet": "dim",
    "soft": "default",
    "accent": "blue",
    "warn": "yellow",
    "ok": "green",
    "bad": "red",
}
"""Tones in the colours that a terminal's owner has chosen."""


def print_json(document: Any) -> None:
    """One document on one line, as every ``--json`` gives it."""
    sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")
    sys.stdout.flush()


def console() -> Console:
    """For people: in colour where that is wanted, unwrapped where a program reads it."""
    from rich.console import Console

    made = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    if not made.is_terminal:
        made.width = 1000
    return made
