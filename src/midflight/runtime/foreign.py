"""The edge to code of others: its errors and words become texts that every journal takes.

An error and a word of progress are texts for people. They are made storable here: a journal that
cannot take them would cost the run its host, again and again. The changes are small and visible:
half of a character becomes U+FFFD, a NUL becomes U+2400, a secret becomes dots, and a text that is
too long is cut and says how much is missing.

A *result* is data and is never changed: see ``values``.
"""

from __future__ import annotations

import asyncio
import dis
import functools
import math
import signal
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from types import CodeType, TracebackType
from typing import Any, Final, TypeVar

import anyio
import msgspec
from msgspec import Raw

from midflight.journal.record import NULL, Fact, Usage
from midflight.plain import HALVES
from midflight.tools.secret import hide, revealed

WORDS_MAX: Final = 20_000  # characters of an error: a page that a server sent back, and more
LINE_MAX: Final = 2_000  # characters of one entry of a traceback
MENDED_MAX: Final = 2_000  # characters of a text in a fact that a store has refused
RETRY_AFTER_MAX_S: Final = 3600.0  # longest wait that an error can ask for before another try
NAME_MAX: Final = 200  # characters of the name of an error's class
NO_TEXT: Final = "(its text cannot be shown)"

T = TypeVar("T")
_RAISE: Final = dis.opmap["RAISE_VARARGS"]


class Unknowable(Exception):
    """Stands for an error that fails even when it is asked of which class it is."""


# ── texts ────────────────────────────────────────────────────────────────────────────────────


def text(said: Any, most: int = WORDS_MAX) -> str:
    """Return it as text that every store takes, with at most ``most`` characters of it."""
    if type(said) is not str:
        said = str.__str__(said) if issubclass(type(said), str) else _shown(said)
    if revealed:
        said = hide(said)
    more = len(said) - most
    if more > 0:  # layer long-text-for-people-cut
        said = f"{said[:most]} … ({more:,} characters more)"
    if "\0" in said:
        said = said.replace("\0", "\u2400")
    return said if said.isascii() else HALVES.sub("\ufffd", said)  # layer half-of-character


def words(error: BaseException) -> str:
    """Return an error as it is recorded: its class, and its own words if it has any."""
    kind, said = text(type(error).__name__, NAME_MAX), words_of(error)
    return f"{kind}: {said}" if said else kind


def words_of(error: BaseException) -> str:
    """Return an error's own words alone; empty where it has none."""
    return text(error)


def _shown(value: Any) -> str:
    """Return ``str(value)``, whatever its class does there."""
    try:
        return str.__str__(str(value))
    except BaseException:  # noqa: BLE001 - it was raised by the text of an error, and says nothing
        return NO_TEXT


def traceback_of(error: BaseException) -> str:
    """Return where an error comes from, as a log shows it: from the first line of others on."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None and _is_ours(where):
        where = where.tb_next
    try:
        lines = traceback.format_exception(type(error), error, where)
    except BaseException:  # noqa: BLE001 - an odd error is no reason to fail
        return words(error)
    return text("".join(text(line, LINE_MAX) for line in lines), 2 * WORDS_MAX).rstrip()


def _is_ours(place: TracebackType) -> bool:
    return str(place.tb_frame.f_globals.get("__name__", "")).startswith("midflight.runtime.")


MENDED: Final = (
    "How something ended in run %s was recorded with its texts cut and its result left out, "
    "because it could not be stored as it was: %s"
)


def mended(fact: Fact, refused: Exception) -> Fact:
    """Return a fact that every store takes, in place of one that was refused.

    The second line of defence: a fact has happened, and a run whose facts are not recorded cannot
    end. Its texts are made storable. A value that cannot be is left out, and ``error`` says so.
    """
    kept: dict[str, Any] = {}
    lost = False
    for field in msgspec.structs.fields(type(fact)):
        value = getattr(fact, field.name)
        if isinstance(value, str):
            kept[field.name] = text(value, MENDED_MAX)  # layer fact-store-refuses-mended
        elif field.type is Raw:
            kept[field.name], lost = NULL, lost or bytes(value) != bytes(NULL)
        elif isinstance(value, Usage):
            kept[field.name] = Usage()
        elif isinstance(value, float):
            kept[field.name] = value if math.isfinite(value) else 0.0
    if lost and "error" in kept:
        why = f"what it returned could not be stored: {text(refused, MENDED_MAX)}"
        kept["error"] = f"{kept['error']} ({why})" if kept["error"] else why
    return msgspec.structs.replace(fact, **kept)


# ── errors ───────────────────────────────────────────────────────────────────────────────────


def tamed(error: BaseException) -> BaseException:
    """Return an error that can be asked of which class it is: almost always itself."""
    try:
        isinstance(error, Unknowable)
    except BaseException:  # noqa: BLE001 - its ``__class__`` is code of its own
        return Unknowable(words(error)).with_traceback(error.__traceback__)
    return error


async def ordinary(call: Awaitable[T]) -> T:
    """Await code of others beside a step; whatever it raises is an ordinary ``Exception``."""
    task = _current_task()
    try:
        return await call
    except asyncio.CancelledError as error:
        if being_ended() or (task is not None and task.cancelling()):
            raise  # ours
        raise Unknowable(words(error)) from error
    except BaseException as error:
        if ends_us(tamed(error), task):  # in no variable: it would keep this frame
            raise
        if isinstance(tamed(error), Exception):
            raise tamed(error) from None
        raise Unknowable(words(error)) from error


def answered(call: Callable[[], T]) -> T:
    """Call code of others that answers at once; whatever it raises is an ordinary ``Exception``.

    A cancel that it raises is its own: nobody can cancel us while it is at work.
    """
    try:
        return call()
    except BaseException as error:
        if ends_us(tamed(error), _current_task()):  # in no variable: it would keep this frame
            raise
        if isinstance(tamed(error), Exception):
            raise tamed(error) from None
        raise Unknowable(words(error)) from error


def being_ended() -> bool:
    """Return whether the driver around us is being ended, rather than the tool or function in it.

    A cancel may also be the tool's own: it has cancelled itself, or waited for something cancelled.
    """
    return anyio.current_effective_deadline() == -math.inf


def may_be_retried(error: BaseException | None) -> bool:
    """Return whether trying again may help: an error can say ``retryable = False``."""
    try:
        return bool(getattr(error, "retryable", True))
    except Exception:  # noqa: BLE001 - code of its own, which says nothing
        return True


def retry_after(error: BaseException | None) -> float:
    """Return how many seconds an error wants to be waited before another try; 0 if it says none.

    A date in place of a number of seconds would keep a run for years, so there is a bound.
    """
    try:
        wanted = getattr(error, "retry_after", 0.0)
        seconds = float(wanted) if isinstance(wanted, int | float) else 0.0
    except Exception:  # noqa: BLE001 - code of its own, or a number that is too large
        return 0.0
    return min(seconds, RETRY_AFTER_MAX_S) if 0.0 < seconds < math.inf else 0.0


def ends_us(
    error: BaseException, task: asyncio.Task[Any] | None, *, elsewhere: bool = False
) -> bool:
    """Return whether an error from code of others ends this process, or our own coroutine.

    ``GeneratorExit`` closes our own coroutine, unless ``task`` runs at this moment: then code
    inside it has raised it. ``KeyboardInterrupt`` and ``SystemExit`` end the process when a signal
    has brought them, and are a failure of that code when one of its lines has raised them. No
    signal is heard ``elsewhere``: in another thread or process.
    """
    if isinstance(error, GeneratorExit):
        return task is None or _current_task() is not task
    if elsewhere:
        return False
    if isinstance(error, KeyboardInterrupt):
        return not _raised_by_a_line(error) or _by_a_handler(error)  # layer line-of-tool
    return isinstance(error, SystemExit) and _by_a_handler(error)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs here: the collector closes what is left of one
        return None


def _places(error: BaseException) -> Iterator[TracebackType]:
    place = error.__traceback__
    while place is not None:
        yield place
        place = place.tb_next


def _raised_by_a_line(error: BaseException) -> bool:
    """Return whether the error began at a ``raise``: Python's own Ctrl-C comes between lines."""
    last = deque(_places(error), maxlen=1)
    return any(place.tb_frame.f_code.co_code[place.tb_lasti] == _RAISE for place in last)


def _by_a_handler(error: BaseException) -> bool:
    """Return whether a signal handler that is written in Python has raised the error."""
    codes = {code for number in signal.valid_signals() if (code := _code_of(number))}
    return any(place.tb_frame.f_code in codes for place in _places(error))


def _code_of(number: int) -> CodeType | None:
    handler: Any = signal.getsignal(number)
    while isinstance(handler, functools.partial):
        handler = handler.func
    code = getattr(getattr(handler, "__func__", handler), "__code__", None)
    return code if isinstance(code, CodeType) else None
