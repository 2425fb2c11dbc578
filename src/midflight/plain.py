"""Plain data: values that JSON holds and gives back as they were.

``encoded`` writes a value as JSON, or says in words which part of it cannot be stored and why. It
never changes a value silently: JSON has no NaN, and an encoder that writes ``null`` for it would
give back something else than was given.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw
from typing_extensions import override

NESTING: Final = 200
"""Levels of lists and dicts. Python reads far more than that only where its own stack is short."""

HALVES: Final = re.compile("[\ud800-\udfff]")
"""Half of a character, which no UTF-8 holds: what is left where a text was cut in two."""

ANYTHING: Final = (Exception, GeneratorExit, SystemExit)
"""Raised by code of a value's own class, which runs while the value is encoded."""

_PATH_MAX: Final = 200

EncodeHook = Callable[[Any], Any]


class NotPlain(Exception):
    """A part of a value cannot be stored. ``path`` leads to it; the text says what is wrong."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path if len(path) <= _PATH_MAX else f"{path[:_PATH_MAX]}…"
        self.why = why
        super().__init__(self.path, why)

    @override
    def __str__(self) -> str:
        """Return it as the beginning of a sentence."""
        return f"{self.path} {self.why}"


def no_hook(_value: Any) -> Any:
    """Encode nothing that msgspec does not encode by itself."""
    raise TypeError


def check(value: Any, what: str) -> None:
    """Raise ``NotPlain`` for a value that JSON does not give back as it was."""
    encoded(value, what, msgspec.json.Encoder())
    if found := _find(value, what, no_hook):  # a key that is no text, which this encoder takes
        raise found


def encoded(
    value: Any, what: str, encoder: msgspec.json.Encoder, *, hook: EncodeHook = no_hook
) -> bytes:
    """Return ``value`` as JSON that reads back as it was; raise ``NotPlain`` if there is none.

    ``what`` is what the value is called in that error. ``encoder`` has a deterministic order, so
    that it refuses keys that are no text, and encodes with ``hook`` what msgspec does not.
    """
    try:
        body = encoder.encode(value)
        read = msgspec.json.decode(body)
    except ANYTHING as error:
        raise _fault(value, what, hook, error) from None
    # layer result-of-nan-refused
    if b"null" in body and value is not None and (found := _find(value, what, hook)):
        raise found
    if body.count(b"[") + body.count(b"{") > NESTING and _is_too_deep(read):
        raise NotPlain(what, _TOO_DEEP)
    return body


_TOO_DEEP: Final = f"is nested more than {NESTING} levels deep"


def _is_too_deep(read: Any) -> bool:
    """Count the levels of what has enough brackets for too many of them."""
    level = [read]
    for _ in range(NESTING + 1):
        level = [
            part
            for outer in level
            for part in (outer.values() if type(outer) is dict else outer)
            if type(part) is dict or type(part) is list
        ]
        if not level:
            return False
    return True


def _fault(value: Any, what: str, hook: EncodeHook, error: BaseException) -> NotPlain:
    """Say what is wrong with a value that could not be encoded."""
    try:
        found = _find(value, what, hook)
    except ANYTHING:  # then the words of the encoder have to do
        found = None
    said = f": {error}" if type(error) in {TypeError, ValueError} and str(error) else ""
    return found or NotPlain(what, f"cannot be written as JSON ({type(error).__name__}{said})")


def _find(value: Any, path: str, hook: EncodeHook, above: tuple[int, ...] = ()) -> NotPlain | None:
    """Return the first part that cannot be stored as it is."""
    if value is None or value is True or value is False:
        return None
    if type(value) is str:
        return _of_text(value, path)
    if type(value) is float:
        return None if math.isfinite(value) else NotPlain(path, _no_number(value))
    parts = _parts(value)
    if parts is None:
        return _of_leaf(value, path, hook)
    if id(value) in above:
        return NotPlain(path, "contains itself")
    if len(above) > NESTING:
        return NotPlain(path.partition("[")[0], _TOO_DEEP)
    if isinstance(value, dict) and (found := _of_keys(value, path)):
        return found
    above = (*above, id(value))
    for place, part in parts:
        if found := _find(part, path + place, hook, above):
            return found
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]] | None:
    """Give what a value is made of, and where; None for what has no parts.

    Methods that its own class may have are not called: the encoder does not call them either.
    """
    if isinstance(value, dict):
        return ((f"[{key!r:.80}]", part) for key, part in dict.items(value))
    bases: tuple[Any, ...] = (list, tuple, set, frozenset)
    for base in bases:
        if isinstance(value, base):
            return ((f"[{n}]", part) for n, part in enumerate(base.__iter__(value)))
    if isinstance(value, enum.Enum):
        return iter([(".value", value.value)])
    names = _fields(value)
    return None if names is None else ((f".{name}", getattr(value, name)) for name in names)


def _fields(value: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a struct, a dataclass or an attrs object."""
    kind = type(value)
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    attributes = getattr(kind, "__attrs_attrs__", None)
    return None if attributes is None else tuple(one.name for one in attributes)


def _of_keys(value: dict[Any, Any], path: str) -> NotPlain | None:
    for key in dict.keys(value):
        if not isinstance(key, str):
            kind = type(key).__name__
            can_be_shown = isinstance(key, int | float | bytes)
            shown = f"the key {key!r:.40} ({kind})" if can_be_shown else f"a key of type {kind}"
            return NotPlain(path, f"has {shown}: keys must be text")
        if found := _of_text(str.__str__(key), f"a key of {path}"):
            return found
    return None


def _of_text(text: str, path: str) -> NotPlain | None:
    half = HALVES.search(text)
    if half is None:
        return None
    where = f"U+{ord(half[0]):04X} at position {half.start()}"
    return NotPlain(path, f"holds half of a character (a lone surrogate, {where})")


def _no_number(value: float) -> str:
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"is {name}, which JSON cannot hold: use None or a text"


def _of_leaf(value: Any, path: str, hook: EncodeHook) -> NotPlain | None:
    """Anything else is asked of the encoder."""
    kind = type(value).__name__[:80]
    if type(value) is int:
        return _of_number(value, path)
    try:
        msgspec.json.decode(msgspec.json.encode(value, enc_hook=hook))
    except ANYTHING:
        wrong = "is a msgspec.Raw that holds no JSON" if isinstance(value, Raw) else ""
        return NotPlain(path, wrong or f"is of type {kind}, which is not plain data")
    return None


def _of_number(value: int, path: str) -> NotPlain | None:
    try:
        msgspec.json.encode(value)
    except ValueError:
        return NotPlain(path, f"is a whole number of {value.bit_length():,} bits: too large")
    return None
