"""What a command prints: one JSON document, or lines for a person."""

from __future__ import annotations

import builtins
import sys
from typing import IO, TYPE_CHECKING, Any

import msgspec

from midflight.terminal.visible import visible

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


def print(
    *words: object, end: str = "\n", file: IO[str] | None = None, flush: bool = False
) -> None:
    """As everybody knows it, for text of others too: nothing in it steers the terminal."""
    shown = (visible(str(word)) for word in words)
    builtins.print(*shown, end=end, file=file, flush=flush)


def console() -> Console:
    """For people: in colour where that is wanted, unwrapped where a program reads it."""
    from midflight.cli.screen import Screen

    return Screen()
