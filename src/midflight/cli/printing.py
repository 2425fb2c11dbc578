"""What a command prints: one JSON document, or lines for a person."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


class AnswerLost(OSError):
    """What a command has to say could not be written to where it should be; it was done before."""


class ReaderLeft(BrokenPipeError):
    """Who reads the answer has left, as ``head`` does: no trouble, but nobody is told any more."""


@contextmanager
def answering() -> Iterator[None]:
    """Tell trouble with the answer from trouble with the work."""
    try:
        yield
    except AnswerLost:
        raise  # it is told already
    except BrokenPipeError as error:
        raise ReaderLeft(error.errno, error.strerror) from None
    except OSError as error:
        let_go(sys.stdout)
        raise AnswerLost(error.errno, error.strerror or str(error)) from error


@contextmanager
def greeting() -> Iterator[None]:
    """What a server says first: it serves whether anybody reads that or not."""
    try:
        with answering():
            yield
            sys.stdout.flush()
    except ReaderLeft:
        let_go(sys.stdout)


@contextmanager
def _beside() -> Iterator[None]:
    """What is said on standard error changes nothing: not the answer, and not how it has ended."""
    try:
        yield
    except OSError:
        let_go(sys.stderr)


def let_go(stream: IO[str]) -> None:
    """Nothing is written to it any more; Python would try it again at its end, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_json(document: Any) -> None:
    """One document on one line, as every ``--json`` gives it."""
    encoded = msgspec.json.encode(document) + b"\n"
    with answering():
        sys.stdout.buffer.write(encoded)
        sys.stdout.flush()


def print(
    *words: object, end: str = "\n", file: IO[str] | None = None, flush: bool = False
) -> None:
    """As everybody knows it, for text of others too: nothing in it steers the terminal."""
    shown = (visible(str(word)) for word in words)
    with _beside() if file is sys.stderr else answering():
        builtins.print(*shown, end=end, file=file, flush=flush)


def console() -> Console:
    """For people: in colour where that is wanted, unwrapped where a program reads it."""
    from midflight.cli.screen import Screen

    return Screen()
