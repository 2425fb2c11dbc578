"""The parts that every event is made of, and its place in a journal.

Three classes, told apart by their base:

* a ``Request`` comes from a person or another run and never loses a race;
* a ``Decision`` comes from the driver of an epoch and is appended only where nothing was added
  since the driver looked;
* a ``Fact`` tells how something ended and is accepted once, in any phase.

The stored name is the tag, not the class name, so that a rename orphans no journal. ``VERSION``
grows when a field changes its meaning. A reader that does not know an event skips it, unless the
event was stored with ``MUST_UNDERSTAND``: then it shows and stops the run but does not drive it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Raw, Struct

from midflight.journal.phases import Role

NULL: Final = Raw(b"null")


class Event(Struct, frozen=True, omit_defaults=True, tag_field="event", gc=False):
    """Something that happened. Immutable, and plain data all the way down.

    So it can be in no cycle, and the collector need not look at it (``gc=False``): ten thousand of
    them would otherwise hold a loop up for 20 ms when it does.
    """

    VERSION: ClassVar[int] = 1
    MUST_UNDERSTAND: ClassVar[bool] = True

    @classmethod
    def stored_name(cls) -> str:
        """The name on disk, which never changes."""
        return str(cls.__struct_config__.tag)


class Actor(Struct, frozen=True, omit_defaults=True, gc=False):
    """The actor of a request: its name, its role, and the channel that it came through."""

    by: str
    role: Role = Role.CONTROLLER
    channel: str = "library"


class Request(Event, frozen=True, kw_only=True):
    """A request by ``who``; repeated under the same ``key`` it is the same request."""

    who: Actor
    key: str = ""


class Decision(Event, frozen=True, kw_only=True):
    """A decision of the driver that holds ``epoch``."""

    epoch: int


class Fact(Event, frozen=True, kw_only=True):
    """The end of something, as the driver of ``epoch`` has seen it."""

    epoch: int


class Limits(Struct, frozen=True, omit_defaults=True):
    """Caps of a run; ``None`` means no cap. ``seconds`` counts running and pausing only."""

    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    usd: float | None = None
    tool_calls: int | None = None
    repeats: int | None = None

    def over(self, kept: Limits) -> Limits:
        """These caps, and those of ``kept`` that are not named here."""
        named = {n: c for n in self.__struct_fields__ if (c := getattr(self, n)) is not None}
        return msgspec.structs.replace(kept, **named)


class Usage(Struct, frozen=True, omit_defaults=True, gc=False):
    """The spending of one attempt. ``usd`` is None where the price is not known."""

    tokens: int = 0
    usd: float | None = None


class Blob(Struct, frozen=True):
    """A value too large for a row, kept once under the hash of its content."""

    hash: str
    size: int


class Earlier(Struct, frozen=True, omit_defaults=True, gc=False):
    """An effect on record: the attempt at ``position`` of ``run``, or of the same run if empty."""

    position: int
    run: str = ""
    label: str = ""


class Unknown(Struct, frozen=True):
    """An event of a later version, kept as it is."""

    name: str
    version: int
    must_understand: bool
    body: bytes


class Recorded(Struct, frozen=True, gc=False):
    """An event at its place in a journal, with the store's time."""

    journal: str
    position: int
    at: float
    event: Any  # Event | Unknown; Any keeps msgspec from validating what the codec has built


Keys = dict[tuple[str, str, str], tuple[int, bytes]]
"""(caller, verb, key) -> (position of the first request under it, digest of what it asked).

The verb is the name of the event on disk. Nobody's key stands for what somebody else asks.
"""


ADDED_BY_US: Final = {"in_flight": (), "diff": "", "kept": Limits(), "thread_at": 0}
"""Fields that ``requests`` fills in when a request is taken, from the state of that moment."""


def body_digest(event: Request) -> bytes:
    """Return a digest of what a request asks, without what the acknowledgement adds to it."""
    added = {name: ADDED_BY_US[name] for name in event.__struct_fields__ if name in ADDED_BY_US}
    asked = msgspec.structs.replace(event, **added) if added else event
    return blake2b(msgspec.json.encode(asked), digest_size=32).digest()


def remember_key(keys: Keys, event: Event, position: int) -> None:
    """Note under which key a request came, so that a repeat of it is recognised."""
    if isinstance(event, Request) and event.key:
        keys.setdefault(key_of(event), (position, body_digest(event)))


def size_of(event: Request) -> int:
    """Return how many bytes of a journal a request takes."""
    return len(msgspec.json.encode(event))


def key_of(event: Request) -> tuple[str, str, str]:
    """Return under what a request is remembered in a journal."""
    return event.who.by, event.stored_name(), event.key


def taken_under(keys: Keys, by: str, key: str) -> int | None:
    """Return where somebody's first request under a key is, whatever it asked for."""
    found = [at for (sender, _, given), (at, _) in keys.items() if (sender, given) == (by, key)]
    return min(found, default=None)
