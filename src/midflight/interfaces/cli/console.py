"""The output of a command: one JSON document or lines for a person; and its exit status."""

from __future__ import annotations

import builtins
import errno
import getpass
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import msgspec

from midflight.interfaces.terminal.safe_text import visible

if TYPE_CHECKING:
    from rich.console import Console
import json
from collections.abc import Callable
from typing import Final

from midflight import errors
from midflight.interfaces.terminal.safe_text import escaped
from midflight.journal.phases import Phase


def person() -> str:
    """Return the name of this user, without characters that cannot stand in a name."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = ""
    return "".join(char for char in name if char.isascii() and char.isalnum()) or "operator"


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
    from midflight.interfaces.cli.rich_console import Screen

    return Screen(answering)


DONE: Final = 0
REFUSED: Final = 1  # or failed; the line says whether anything was changed
USAGE: Final = 2
UNREACHABLE: Final = 3  # the store or the server
NOT_FOUND: Final = 4
EXTRA: Final = 5
BUG: Final = 70
CHAIN_BROKEN: Final = 20  # records of the audit are missing, changed or in another order
CHAIN_NOT_TO_HEAD: Final = 21  # it is whole in itself, and does not lead to the head given
ENDS: Final = {Phase.DONE: DONE, Phase.FAILED: 10, Phase.CANCELLED: 11, Phase.KILLED: 12}
DETACHED: Final = 130
TRACEBACK: Final = "MIDFLIGHT_TRACEBACK"  # of the environment

STATUS: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (errors.JournalNotFound, NOT_FOUND),
    (errors.UnknownAgent, NOT_FOUND),
    (errors.ModelNotInstalled, EXTRA),
    (errors.StoreUnavailable, UNREACHABLE),
    (errors.StoreReplaced, UNREACHABLE),
    (errors.StoreVersion, UNREACHABLE),
    (errors.StoreBusy, UNREACHABLE),
    (errors.RemoteError, UNREACHABLE),
    (errors.MidflightError, REFUSED),
    (ImportError, EXTRA),
    (AnswerLost, REFUSED),
    (OSError, UNREACHABLE),
)
"""The first that fits."""


class Unknown(errors.InvalidRequest):
    """There is no such run, thread, agent or module."""


def said(call: Callable[[], int], *, as_json: bool) -> int:
    """Make a call and return its exit status; tell of an error in one line."""
    from typer import Abort, TyperException

    try:
        return call()
    except TyperException as error:
        told = getattr(error, "format_message", error.__str__)()
        if type(error).__name__ == "NoArgsIsHelpError":
            print(told)
            return USAGE
        return tell("usage", f"{told.rstrip('.')}. See midflight --help.", USAGE, as_json)
    except (Abort, KeyboardInterrupt):
        print("midflight: stopped.", file=sys.stderr)
        return DETACHED
    except BrokenPipeError:
        raise  # of the answer; an OSError, but no trouble
    except Unknown as error:
        return tell("unknown", str(error), NOT_FOUND, as_json)
    except (errors.MidflightError, ImportError, OSError) as error:
        status = next(status for kind, status in STATUS if isinstance(error, kind))
        words = " ".join([_words(error), *getattr(error, "__notes__", ())])
        return tell(_named(error), words, status, as_json)
    except BaseExceptionGroup as group:
        return _first_of(group, as_json)
    except Exception as error:  # a bug of ours; nobody reads a traceback by choice
        if os.environ.get("MIDFLIGHT_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        told = f"something went wrong here: {what}. MIDFLIGHT_TRACEBACK=1 shows where."
        return tell("bug", told, BUG, as_json)


def _first_of(group: BaseExceptionGroup[BaseException], as_json: bool) -> int:
    """Tell of the error that a task group has wrapped."""
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]

    def again() -> int:
        raise inner

    return said(again, as_json=as_json)


def tell(kind: str, message: str, status: int, as_json: bool) -> int:
    """Print one line on standard error, and return the exit status."""
    line = " ".join(message.split())
    if as_json:
        told = {"error": kind, "message": line, "exit": status}
        print(escaped(json.dumps(told, ensure_ascii=False)), file=sys.stderr)
    else:
        print(f"midflight: {line}", file=sys.stderr)
    return status


def _named(error: BaseException) -> str:
    name = type(error).__name__
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _words(error: BaseException) -> str:
    if isinstance(error, AnswerLost):  # it may be the answer to a kill
        return (
            f"the answer could not be written: {error.strerror}. What was done before that stays "
            "done: look before you repeat it."
        )
    if isinstance(error, OSError) and not isinstance(error, errors.MidflightError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}."  # nobody knows how far it had come
    if isinstance(error, errors.ScopeStopped):
        return f"{error} An operator lets it move again with: midflight release {error.scope}"
    return str(error)
