"""The output of a command: one JSON document, or lines for a person."""

from __future__ import annotations

import builtins
import errno
import os
import stat
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
    """The answer of a command could not be written; the command itself was done before."""


class ReaderLeft(BrokenPipeError):
    """The reader of the answer has left: ``head`` has read enough, or the terminal was closed.

    It is no error, but no further output has a reader.
    """


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
        if _is_closed_terminal(error):
            raise ReaderLeft(error.errno, error.strerror) from None
        let_go(sys.stdout)
        raise AnswerLost(error.errno, error.strerror or str(error)) from error


def _is_closed_terminal(error: OSError) -> bool:
    """Return whether this comes of a terminal that was closed; it does not count as one then."""
    return error.errno == errno.EIO and stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode)


@contextmanager
def greeting() -> Iterator[None]:
    """Let a server print its greeting; it serves whether anybody reads that or not."""
    try:
        with answering():
            yield
            sys.stdout.flush()
    except ReaderLeft:
        let_go(sys.stdout)


@contextmanager
def _beside() -> Iterator[None]:
    """Ignore errors of standard error: they change neither the answer nor the exit status."""
    try:
        yield
    except OSError:
        let_go(sys.stderr)


def let_go(stream: IO[str]) -> None:
    """Point a broken stream at the null device, or Python would complain when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_json(document: Any) -> None:
    """Print one document on one line, as every ``--json`` does."""
    encoded = msgspec.json.encode(document) + b"\n"
    with answering():
        sys.stdout.buffer.write(encoded)
        sys.stdout.flush()


def print(
    *words: object, end: str = "\n", file: IO[str] | None = None, flush: bool = False
) -> None:
    """Print as the built-in does, but make visible what would steer the terminal."""
    shown = (visible(str(word)) for word in words)
    with _beside() if file is sys.stderr else answering():
        builtins.print(*shown, end=end, file=file, flush=flush)


def console() -> Console:
    """Return a console for people: coloured where wanted, unwrapped for a program."""
    from midflight.cli.screen import Screen

    return Screen(answering)
