"""Values that go into a journal and come out again: plain data, and nothing else.

A value is data and is stored as it is or not at all. Texts for people, such as errors, are made
storable instead: see ``foreign``. A text that an agent's function gives to its run and that cannot
be stored is refused where it is given, before anything is recorded: the function can be told.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, get_type_hints

import msgspec
from msgspec import Raw

from midflight.errors import InvalidRequest, NotPlainData, PayloadTooLarge
from midflight.journal.record import NULL
from midflight.plain import HALVES, NotPlain, encoded
from midflight.runtime.foreign import text
from midflight.stores.codec import BLOB_MAX
from midflight.tools.labels import named
from midflight.tools.secret import (
    MARK,
    hide_within,
    known,
    refuse_forged,
    revealed,
    to_stored,
)

RESULT: Final = "its result"
RUN_BYTES: Final = 16  # of a digest that is the id of a run: people read and type ids
# layer they-bound-by-full-length-digest
DIGEST_BYTES: Final = 32  # a full-length digest: no two inputs with the same one can be found

_encoder = msgspec.json.Encoder(order="deterministic", enc_hook=to_stored)
TEXT_MAX: Final = 500_000  # characters of one text; an event holds a megabyte
NAME_MAX: Final = 10_000  # characters of a name or a key, which stand in many events
NOTHING_RECORDED: Final = "Nothing was recorded."


def encode(step: str, what: str, value: Any) -> Raw:
    """Encode a value, or say which part of it cannot be."""
    try:
        return Raw(encoded(value, what, _encoder, hook=to_stored))
    except NotPlain as error:
        raise NotPlainData(step, text(error), text(error.path)) from None


def encode_arguments(
    step: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    function: Callable[..., Any] | None = None,
    *,
    size: int = DIGEST_BYTES,
) -> tuple[Raw, str]:
    """Encode what a step is called with, and give a digest of it, of so many bytes.

    Data that look like a secret are refused. An argument that cannot be stored is named as the
    ``function`` names it.
    """
    given = {"args": args, "kwargs": kwargs}
    try:
        raw = encode(step, "its arguments", given)
    except NotPlainData:
        for name, value in named(function, args, kwargs).items():
            unnamed = name.startswith("argument ")  # its place: the function has no name for it
            encode(step, f"its {name}" if unnamed else f"its argument {name}", value)
        raise
    if MARK.encode() in bytes(raw):
        refuse_forged(given, f"step {step!r}: its arguments")
    return raw, blake2b(raw, digest_size=size).hexdigest()


def encode_result(step: str, value: Any) -> Raw:
    """Encode what a tool or an agent has returned, with dots where it holds a secret."""
    raw = encode(step, RESULT, value)
    if len(raw) > BLOB_MAX:  # layer result-larger-than-journal-takes
        raise PayloadTooLarge(step or "the run", RESULT, len(raw), BLOB_MAX)
    if revealed and any(msgspec.json.encode(one)[1:-1] in bytes(raw) for one in known()):
        return Raw(_encoder.encode(hide_within(msgspec.json.decode(raw))))
    return raw


def storable(step: str, value: Any, *, happened: bool = False) -> tuple[Raw, str]:
    """Return what a tool has returned as it is stored; or nothing, and why it cannot be stored.

    Nothing else is stored in place of a result. Of an effect the words say that it ``happened``.
    """
    try:
        return encode_result(step, value), ""
    except NotPlainData as error:
        why = error.why
    except PayloadTooLarge as error:
        limit = f"it has {error.size:,} bytes, and at most {error.limit:,} can be stored"
        why = f"{limit}. Save it to a file or a table and return where it is"
    return NULL, f"{'it was done, but ' * happened}its result cannot be stored: {why}"


def decode(raw: bytes, kind: Any = Any) -> Any:
    """Decode a stored value, into the function's declared type where it fits.

    It need not: a person who says that a step happened may not know what it would have returned.
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        return msgspec.json.decode(raw)


@lru_cache(maxsize=1024)
def result_type(function: Callable[..., Any]) -> Any:
    """Return the type that a function says it returns, if msgspec can make it; otherwise Any."""
    try:
        kind = get_type_hints(inspect.unwrap(function)).get("return", Any)
        msgspec.json.Decoder(kind)
    except Exception:  # noqa: BLE001 - any trouble with a hint means: do not use it
        return Any
    return Any if kind is type(None) else kind


def digest(raw: bytes, size: int = DIGEST_BYTES) -> str:
    """Return a name for what a step was called with: nobody can make two calls with the same name.

    The ``size`` is a smaller one only for runs that an earlier release has begun. Two calls with
    the same short digest can be found in minutes, so it decides nothing by itself.
    """
    return blake2b(raw, digest_size=size).hexdigest()


def check_text(call: str, what: str, value: Any, most: int = TEXT_MAX) -> None:
    """Raise ``InvalidRequest`` unless ``value`` is a text that every store takes."""
    if type(value) is not str and not isinstance(value, StrEnum):
        kind = type(value).__name__[:80]
        raise InvalidRequest(f"{call} takes a text as {what}, not {kind}. {NOTHING_RECORDED}")
    if len(value) > most:
        raise InvalidRequest(
            f"{call}: {what} has {len(value):,} characters, and at most {most:,} can be stored. "
            f"Save it to a file and say where it is. {NOTHING_RECORDED}"
        )
    if not value.isascii() and HALVES.search(value):
        raise InvalidRequest(
            f"{call}: {what} holds half of a character (a lone surrogate). {NOTHING_RECORDED}"
        )


def check_name(call: str, what: str, value: Any) -> None:
    """Raise ``InvalidRequest`` unless ``value`` can be a name: a text, and not as long as one."""
    check_text(call, what, value, NAME_MAX)
    if "\0" in value:
        raise InvalidRequest(f"{call}: {what} holds a NUL character. {NOTHING_RECORDED}")


def check_names(call: str, what: str, values: Any) -> None:
    """Raise ``InvalidRequest`` unless all of ``values`` can be names."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidRequest(f"{call} takes a list of texts as {what}. {NOTHING_RECORDED}")
    for value in values:
        check_name(call, what, value)


def check_seconds(call: str, what: str, value: Any) -> None:
    """Raise ``InvalidRequest`` unless ``value`` is a time that a person could wait, or None."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (number and 0 <= value < math.inf):
        raise InvalidRequest(
            f"{call}: {what} must be a number of seconds, zero or more. {NOTHING_RECORDED}"
        )
