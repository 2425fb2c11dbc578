"""Values that go into a journal and come out again: plain data, and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, get_type_hints

import msgspec
from msgspec import Raw

from midflight.errors import NotPlainData, PayloadTooLarge
from midflight.kernel.record import NULL
from midflight.stores.codec import BLOB_MAX
from midflight.tools.secret import hide, hide_within, known, to_stored

WORDS_MAX: Final = 20_000  # of an error: a page that a server sent back, and more than is read

_encoder = msgspec.json.Encoder(order="deterministic", enc_hook=to_stored)


def encode(step: str, what: str, value: Any) -> Raw:
    """Encode a value, or say which part of it cannot be."""
    try:
        return Raw(_encoder.encode(value))
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        path, part = next(_unplain(value, what), (what, value))
        raise NotPlainData(step, what, path, type(part).__name__) from None


def encode_result(step: str, value: Any) -> Raw:
    """Encode what a tool or an agent has returned, with dots where it holds a secret."""
    raw = encode(step, "its result", value)
    if len(raw) > BLOB_MAX:
        raise PayloadTooLarge(step, "its result", len(raw), BLOB_MAX)
    if any(msgspec.json.encode(secret)[1:-1] in bytes(raw) for secret in known()):
        return Raw(_encoder.encode(hide_within(msgspec.json.decode(raw))))
    return raw


def storable(step: str, value: Any) -> tuple[Raw, str]:
    """What it returned; or, if that cannot be stored, why. It happened all the same."""
    try:
        return encode_result(step, value), ""
    except NotPlainData as error:
        return NULL, f"{error.path} is a {error.kind}, which cannot be stored"
    except PayloadTooLarge as error:
        limit = f"has {error.size:,} bytes, and at most {error.limit:,} can be stored"
        return NULL, f"its result {limit}: save it to a file or a table and return where it is"


def words(error: BaseException) -> str:
    """An error as it is recorded."""
    said = hide(str(error))
    if len(said) > WORDS_MAX:
        said = f"{said[:WORDS_MAX]} … ({len(said):,} characters in all)"
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _unplain(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The innermost parts that cannot be stored, with the way to each."""
    try:
        _encoder.encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        if depth < 20:
            if isinstance(value, dict):
                for key, part in value.items():
                    yield from _unplain(part, f"{path}[{key!r}]", depth + 1)
            elif isinstance(value, list | tuple | set | frozenset):
                for number, part in enumerate(value):
                    yield from _unplain(part, f"{path}[{number}]", depth + 1)
        yield path, value


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
    """What a function says it returns, if msgspec can make that; otherwise plain data."""
    try:
        kind = get_type_hints(inspect.unwrap(function)).get("return", Any)
        msgspec.json.Decoder(kind)
    except Exception:  # noqa: BLE001 - any trouble with a hint means: do not use it
        return Any
    return Any if kind is type(None) else kind


def digest(raw: bytes) -> str:
    """A short name for what a step was called with."""
    return blake2b(raw, digest_size=6).hexdigest()
