"""The stored form of a journal: turns events into rows and back, and reads the stores' SQL.

Newer events are accepted, and broken rows refused.

A row is the event as JSON that any SQL tool can show, its version, whether a reader must
understand it, and a checksum: a flipped bit inside a string would still be good JSON.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from importlib import resources
from typing import Any, Final, Union

import msgspec
from msgspec import Raw, Struct

from midflight.errors import (
    CorruptEntry,
    InvalidRequest,
    MidflightError,
    NotReadable,
    PayloadTooLarge,
)
from midflight.journal.event_types import EVENTS
from midflight.journal.record import Blob, Event, Recorded, Request, Unknown

INLINE_MAX: Final = 64 * 1024  # larger results go to the blobs table, once per content
EVENT_MAX: Final = 1024 * 1024  # what else an event carries: a brief, a question, a scrap of text
BLOB_MAX: Final = 16 * 1024 * 1024  # beyond this a value is a file, and should be one

_LARGE_FIELDS: Final = {
    kind: next(name for name in ("result", "state") if name in kind.__struct_fields__)
    for kind in EVENTS.values()
    if "blob" in kind.__struct_fields__
}
UNWRITABLE: Final = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
"""Errors for values such as half of a character, a number without end, or a circle."""

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Union[tuple(EVENTS.values())])  # noqa: UP007 - built at run time


class _Tag(Struct):
    event: str


_tag_decoder: Final = msgspec.json.Decoder(_Tag)


class Encoded(Struct, frozen=True, gc=False):
    """A row's content; the event as it is stored, and the blob that was taken out of it."""

    event: Event
    body: bytes
    checksum: int
    blob: tuple[str, bytes] | None


def encode(journal: str, event: Event, at_most: int | None = EVENT_MAX) -> Encoded:
    """Make a row of an event; large values become blobs, too large ones an error.

    An event that nobody could read again is refused: a caller's ``key=5`` would cost them their
    journal.
    """
    blob = None
    field = _LARGE_FIELDS.get(type(event))
    if field is not None and len(getattr(event, field)) > INLINE_MAX:
        value = bytes(getattr(event, field))
        if len(value) > BLOB_MAX:
            raise PayloadTooLarge(journal, event.stored_name(), len(value), BLOB_MAX)
        digest = blake2b(value, digest_size=20).hexdigest()
        blob = (digest, value)
        changes: dict[str, Any] = {field: Raw(b"null"), "blob": Blob(digest, len(value))}
        event = msgspec.structs.replace(event, **changes)
    try:
        body = _encoder.encode(event)
    except UNWRITABLE as error:
        raise _unreadable(journal, event, error) from None
    if at_most is not None and len(body) > at_most:
        raise PayloadTooLarge(journal, event.stored_name(), len(body), at_most)
    try:
        _decoder.decode(body)  # layer could-not-read-again
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _unreadable(journal, event, error) from None
    return Encoded(event, body, zlib.crc32(body), blob)


def check_readable(journal: str, request: Request) -> None:
    """Refuse what is not what it has to be, before anybody looks at it: text that is a number."""
    encode(journal, request, at_most=None)
    for name in _texts(type(request)):  # bytes and dates are written down as texts of another kind
        if not isinstance(given := getattr(request, name), str):
            told = TypeError(f"{name}= is {type(given).__name__} and no text")
            raise _unreadable(journal, request, told)


@cache
def _texts(kind: type[Request]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type is str)


def _unreadable(journal: str, event: Event, error: Exception) -> MidflightError:
    why = NotReadable(journal, event.stored_name(), str(error))
    return InvalidRequest(str(why)) if isinstance(event, Request) else why


def decode(
    journal: str,
    position: int,
    at: float,
    version: int,
    must_understand: bool,
    checksum: int,
    body: bytes,
) -> Recorded:
    """Read a row. An event newer than this code is kept as ``Unknown``; a broken one is named."""
    if zlib.crc32(body) != checksum:  # layer rows-carry-checksum
        raise CorruptEntry(journal, position, "its checksum does not fit its content")
    try:
        event: Event = _decoder.decode(body)
    except msgspec.DecodeError as error:
        unknown = _unknown(journal, position, version, must_understand, body, error)
        return Recorded(journal, position, at, unknown)
    if version > event.VERSION and must_understand:
        newer = Unknown(event.stored_name(), version, must_understand, bytes(body))
        return Recorded(journal, position, at, newer)
    return Recorded(journal, position, at, event)


def blob_missing(digest: str) -> CorruptEntry:
    """Return the error for a large value that is not where its event says."""
    missing = CorruptEntry("blobs", 0, f"there is no blob {digest}")
    missing.args = (
        f"the value {digest} is missing in the store: it was too large for its event and was kept "
        "apart, in the blobs. Other values are not affected; restore the store from a backup. "
        "Nothing was changed.",
    )
    return missing


def decode_page(journal: str, after: int, rows: Iterable[tuple[Any, ...]]) -> list[Recorded]:
    """Read rows that follow a position. A row that is not there is as bad as one that is broken."""
    page = []
    for position, at, version, must_understand, checksum, body in rows:
        after += 1
        if position != after:  # layer gap-noticed
            raise CorruptEntry(journal, after, "the entry is missing")
        page.append(decode(journal, position, at, version, bool(must_understand), checksum, body))
    return page


def _unknown(
    journal: str,
    position: int,
    version: int,
    must_understand: bool,
    body: bytes,
    error: msgspec.DecodeError,
) -> Unknown:
    try:
        name = _tag_decoder.decode(body).event
    except msgspec.DecodeError as inner:
        raise CorruptEntry(journal, position, f"it is not an event: {inner}") from None
    known = EVENTS.get(name)
    if known is not None and version <= known.VERSION:
        raise CorruptEntry(
            journal, position, f"the fields of this {name} are wrong: {error}"
        ) from None
    return Unknown(name, version, must_understand, bytes(body))


# ── SQL, which lies in files: each statement has a name and a sentence ───────────────────────────

_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def script(path: str) -> str:
    """Read a whole file of this package: a schema or a migration."""
    return (resources.files("midflight.stores") / path).read_text(encoding="utf-8")


def named(path: str) -> dict[str, str]:
    """Read the statements of a file, by their names."""
    _, *parts = _NAME.split(script(path))
    return dict(zip(parts[::2], (body.strip() for body in parts[1::2]), strict=True))
