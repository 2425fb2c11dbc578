"""The output of a command: a JSON document or lines for a person, its log, and its exit status."""

from __future__ import annotations

import builtins
import errno
import getpass
import json
import logging
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec
from typing_extensions import override

from midflight import errors
from midflight.interfaces.terminal.safe_text import escaped, visible
from midflight.journal.phases import Phase
from midflight.tools.secret import hide

if TYPE_CHECKING:
    from midflight.interfaces.cli.rich_console import Screen


def person() -> str:
    """Return the name of this user, without characters that cannot stand in a name."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = ""
    return "".join(char for char in name if char.isascii() and char.isalnum()) or "operator"


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
    shown = (visible(str(word)) for word in words)  # layer command-prints-steers-nothing
    with _beside() if file is sys.stderr else answering():
        builtins.print(*shown, end=end, file=file, flush=flush)


def console() -> Screen:
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
        told = (
            f"this is a fault of Midflight itself: {what}. It is not known whether anything was "
            "changed: look before you repeat it. MIDFLIGHT_TRACEBACK=1 shows where it happened."
        )
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


OFTEN: Final = 20  # of one kind, in ...
WITHIN_S: Final = 60.0
KINDS_MAX: Final = 1_000
AUDIT: Final = "midflight.audit"


class Repeats(logging.Filter):
    """Lets through so many records of one place in a minute, and says how many it kept back."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}  # since when, how many

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record: always if it is of the audit, or below a warning."""
        if record.levelno < logging.WARNING or record.name == AUDIT:
            return True
        kind, now = (record.name, str(record.msg)[:200]), time.monotonic()
        since, count = self._seen.get(kind, (now, 0))
        if now - since >= WITHIN_S:
            if count > OFTEN:
                record.not_logged_before = count - OFTEN
            since, count = now, 0
        if len(self._seen) > KINDS_MAX:
            self._seen.clear()
        self._seen[kind] = (since, count + 1)
        return count < OFTEN


USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogLines(logging.Formatter):
    """One line a record, with everything it was given."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """See ``logging.Formatter``."""
        line: dict[str, Any] = {
            "at": record.created,
            "level": record.levelname.lower(),
            "log": record.name,
            "message": hide(record.getMessage()),
        }
        line |= {key: value for key, value in vars(record).items() if key not in USUAL}
        if record.exc_info or record.exc_text:
            told = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type]
            line["exception"] = hide(told)
        return escaped(msgspec.json.encode(line, enc_hook=str).decode())  # layer what-logged-steers


class LogWords(logging.Formatter):
    """For a person who runs an agent: the message alone, and nothing in it steers the terminal."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """See ``logging.Formatter``."""
        return visible(hide(super().format(record)))


def log_to_stderr() -> None:
    """Write what this package logs to standard error, and of others only their trouble."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogLines())
    handler.addFilter(Repeats())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("midflight").setLevel(logging.INFO)


def keep_tracebacks_off_the_screen() -> None:
    """Have an agent's failure told in one line; its traceback only if the environment asks."""
    if logging.lastResort is not None:  # for records that no handler takes
        logging.lastResort.setFormatter(LogWords())
    if not os.environ.get("MIDFLIGHT_TRACEBACK"):
        for name in ("midflight.runtime.run_session", "midflight.runtime.steps.step_recovery"):
            logging.getLogger(name).addFilter(_has_no_traceback)


def _has_no_traceback(record: logging.LogRecord) -> bool:
    return getattr(record, "action", "") not in {"agent_failed", "tool_raised"}
