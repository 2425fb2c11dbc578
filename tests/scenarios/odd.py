"""Odd things that code of others raises, returns and says: what no journal can take as it is."""

from __future__ import annotations

import asyncio
import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec
from typing_extensions import override

from midflight.errors import CorruptEntry, IllegalEvent, StoreBusy
from midflight.run import Stopped

MEGABYTE = 1_000_000
HALF = "caf\ud800"  # half of a character: a lone surrogate


class TextOfItsOwn(str):
    """Text that fails at whatever is done with it."""

    __slots__ = ()

    @override
    def __len__(self) -> int:
        raise RuntimeError("no length")

    @override
    def replace(self, *_: Any) -> NoReturn:
        raise RuntimeError("no replacing")

    @override
    def encode(self, *_: Any) -> NoReturn:
        raise RuntimeError("no encoding")


class NumberOfItsOwn(int):
    """A number that is of another class."""


class DictOfItsOwn(dict[str, int]):
    """A dict that fails when it is asked for what it holds."""

    @override
    def items(self) -> NoReturn:
        raise RuntimeError("no items")


class Broken(Exception):
    """An error that cannot be shown."""

    @override
    def __str__(self) -> str:
        raise ValueError("and its text fails too")

    __repr__ = __str__


class Numb(Exception):
    """An error whose text is no text."""

    @override
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307 - that is what is odd


class Interrupting(Exception):
    """An error whose text interrupts the process."""

    @override
    def __str__(self) -> str:
        raise KeyboardInterrupt


class Worded(Exception):
    """An error whose text is of a class of its own."""

    @override
    def __str__(self) -> str:
        return TextOfItsOwn("worded")


class Insistent(Exception):
    """An error that says nonsense about another try."""

    retry_after = "soon"

    @property
    def retryable(self) -> bool:
        raise RuntimeError("who knows")


class Patient(Exception):
    """An error that says nonsense about when to try again."""

    retry_after = math.nan


class Masked(Exception):
    """An error that does not say what it is."""

    @property  # type: ignore[misc]
    @override
    def __class__(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("no class")


class Colour(enum.Enum):
    NONE = math.nan


@dataclass
class Holder:
    held: object


class Unclassed:
    @property  # type: ignore[misc]
    @override
    def __class__(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("no class")


def _recurse() -> NoReturn:
    _recurse()


def recursion() -> RecursionError:
    """A real one, with the thousand places that it has passed."""
    try:
        _recurse()
    except RecursionError as error:
        return error


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def circle() -> list[Any]:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


def groups() -> BaseExceptionGroup[BaseException]:
    inner = BaseExceptionGroup("inner", [KeyboardInterrupt(), ValueError(HALF)])
    return BaseExceptionGroup("outer", [inner, SystemExit(3)])


RAISED: dict[str, Callable[[], BaseException]] = {
    "half of a character": lambda: ValueError(HALF),
    "a NUL": lambda: ValueError("a\0b"),
    "2 MB": lambda: ValueError("x" * 2 * MEGABYTE),
    "20 MB": lambda: ValueError("ü" * 20 * MEGABYTE),
    "10,000 arguments": lambda: ValueError(*range(10_000)),
    "no text that can be had": Broken,
    "a text that is none": Numb,
    "a text that interrupts": Interrupting,
    "a text of its own class": Worded,
    "a class name of 2 MB": type("x" * 2 * MEGABYTE, (Exception,), {}),
    "nonsense about another try": Insistent,
    "no number of seconds": Patient,
    "no class": Masked,
    "GeneratorExit": GeneratorExit,
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "CancelledError": asyncio.CancelledError,
    "StopIteration": lambda: StopIteration(HALF),
    "StopAsyncIteration": StopAsyncIteration,
    "a group": lambda: ExceptionGroup("several", [ValueError(HALF), OSError()]),
    "a group of the worst": groups,
    "RecursionError": recursion,
    "MemoryError": MemoryError,
    "a signal of ours": lambda: Stopped(HALF),
    "an error of our stores": lambda: StoreBusy(HALF),
    "an error of our drivers": lambda: IllegalEvent("r-1", "x", HALF),
    "an error of our journals": lambda: CorruptEntry("r-1", 1, HALF),
}

OF_STORES = ("half of a character", "a NUL", "20 MB", "no class", "GeneratorExit", "a group")
"""Of those the ones that a store may trip over, or a driver on it."""

RETURNED: dict[str, Callable[[], Any]] = {
    "half of a character": lambda: HALF,
    "half of a character as a key": lambda: {HALF: 1},
    "NaN": lambda: math.nan,
    "Infinity": lambda: [1.0, {"a": (math.inf, None)}],
    "an enum of NaN": lambda: Colour.NONE,
    "a dataclass of NaN": lambda: Holder([math.nan]),
    "20 MB": lambda: "x" * 20 * MEGABYTE,
    "a circle": circle,
    "nesting of 100,000": lambda: nested(100_000),
    "nesting of 600": lambda: nested(600),
    "text of its own class": lambda: TextOfItsOwn("x"),
    "a number of its own class": lambda: NumberOfItsOwn(5),
    "a number of 5,000 digits": lambda: 10**5000,
    "keys that are numbers": lambda: {"prices": [{5: "tea"}]},
    "a set of all kinds": lambda: {1, "a", None},
    "a generator": lambda: (number for number in range(3)),
    "what is no JSON": lambda: {"a": msgspec.Raw(b"{nonsense")},
    "an object": object,
    "a class": lambda: Holder,
    "no class": Unclassed,
    "an error": lambda: ValueError(HALF),
}
"""None of these can be stored as it is."""

SENT = ("half of a character", "Infinity", "20 MB", "nesting of 600", "what is no JSON")
"""Of those the ones that come as far as a store, where nobody looks before."""

KEPT: dict[str, Callable[[], Any]] = {
    "a NUL": lambda: {"a\0b": "\0"},
    "bytes": lambda: b"\xff\x00",
    "a set": lambda: {3, 1, 2},
    "a dict of its own class": lambda: DictOfItsOwn(a=1),
    "a number of 400 digits": lambda: 10**400,
    "nesting of 100": lambda: nested(100),
}
"""These look odd and can be."""

SAID: dict[str, Callable[[], Any]] = {
    "half of a character": lambda: HALF,
    "a NUL": lambda: "a\0b",
    "2 MB": lambda: "x" * 2 * MEGABYTE,
    "20 MB": lambda: "ü" * 20 * MEGABYTE,
    "text of its own class": lambda: TextOfItsOwn("x"),
    "nothing": lambda: None,
    "a number": lambda: 5,
    "bytes": lambda: b"x",
    "NaN": lambda: math.nan,
    "a dict": lambda: {"a": HALF},
    "a circle": circle,
    "an object": object,
}

DEEP_JSON = b"[" * 5000 + b"]" * 5000
"""JSON that Python does not read."""
