"""Records as they come over HTTP: the events that the journal holds, and newer ones as they are."""

from __future__ import annotations

from typing import Any, Final, Union

import msgspec
from msgspec import Raw, Struct

from midflight.journal.event_types import EVENTS
from midflight.journal.record import Recorded, Unknown

_events: Final = msgspec.json.Decoder(Union[tuple(EVENTS.values())])  # noqa: UP007 - built at run time
_unknown: Final = msgspec.json.Decoder(Unknown)


class Wired(Struct):
    """A record whose event is still to be read."""

    journal: str
    position: int
    at: float
    event: Raw

    def record(self) -> Recorded:
        """Return the record with its event; an unknown event is kept for the table to judge."""
        return Recorded(self.journal, self.position, self.at, _event(self.event))


class Stretch(Struct):
    """A stretch of a journal, as the server answers it."""

    records: list[Wired]
    next: int | None = None


def _event(raw: Raw) -> Any:
    try:
        return _events.decode(raw)
    except msgspec.ValidationError:
        pass
    try:
        return _unknown.decode(raw)  # the server did not know it either
    except msgspec.ValidationError:
        name = msgspec.json.decode(raw).get("event", "")
        return Unknown(str(name), 0, True, bytes(raw))
