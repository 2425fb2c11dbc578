"""A record of the audit: actor, deed, target and outcome, and where the caller came from.

Anybody can send requests that are refused. So of one source only the first few refusals in a window
are recorded; the rest are counted, and the count is recorded once when the window is over. The
number of sources that are remembered is bounded.

Records are chained: each holds a digest of the one before it, so that a change can be found.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from hashlib import sha256
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw, Struct


class Visit:
    """One caller at one front door.

    ``door`` and ``by`` are empty where the verb itself names them; where it does not, the door is
    ``home``. ``records`` counts what was
    recorded for this visit, so that a front door does not record the same control again. ``why``
    is the reason that the front door gave for a refusal.
    """

    __slots__ = ("address", "by", "door", "home", "records", "role", "why")

    def __init__(
        self,
        door: str = "",
        address: str = "",
        *,
        by: str = "",
        role: str = "",
        home: str = "library",
    ) -> None:
        self.door, self.address, self.home = door, address, home
        self.by, self.role = by, role
        self.records = 0
        self.why = ""


_visit: Final[ContextVar[Visit | None]] = ContextVar("midflight_visit", default=None)


def current_visit() -> Visit:
    """Return the visit of this moment; one of this process where no front door has begun one."""
    return _visit.get() or Visit(address=this_process())


@contextmanager
def visiting(visit: Visit) -> Iterator[Visit]:
    """Have everything in the block come from this visit."""
    before = _visit.set(visit)
    try:
        yield visit
    finally:
        _visit.reset(before)


@contextmanager
def nobody() -> Iterator[None]:
    """Have tasks that are begun in the block act for nobody who is visiting."""
    before = _visit.set(None)
    try:
        yield
    finally:
        _visit.reset(before)


def begin_visit(visit: Visit) -> None:
    """Have everything from here on come from this visit, as in a command of a terminal."""
    _visit.set(visit)


def this_process() -> str:
    """Return the name of this machine and the number of this process."""
    return _named(os.getpid())


@cache
def _named(process: int) -> str:
    return f"{socket.gethostname()}, process {process}"


DONE: Final = "done"
NOTHING: Final = "nothing"  # there was nothing to stop, to release or to remove
REPEATED: Final = "repeated"  # it was done before under this key; nothing was changed
REFUSED: Final = "refused"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"  # whether it was done could not be learned
OUTCOMES: Final = (DONE, NOTHING, REPEATED, REFUSED, FAILED, UNKNOWN)

LONGEST: Final = 200  # characters of a name; what is longer is cut, and ends with …

Fact = str | int | float | bool


class Named(Protocol):
    """The caller as a verb names it: see ``Actor``."""

    @property
    def by(self) -> str:
        """Their name."""

    @property
    def role(self) -> str:
        """Their role, which says what they may do."""

    @property
    def channel(self) -> str:
        """The front door that they use."""


class Deed(Struct, frozen=True, kw_only=True):
    """Something to be recorded. No two have the same ``id``: a repeated one is recorded once."""

    id: str
    action: str
    target: str = ""
    by: str = ""
    role: str = ""
    door: str = ""
    address: str = ""
    outcome: str = DONE
    why: str = ""
    about: Mapping[str, Fact] = {}


def deed(
    action: str,
    target: str = "",
    *,
    id: str,  # noqa: A002 - the name that it has in a Deed
    who: Named | None = None,
    **more: Any,
) -> Deed:
    """Return a deed of the caller of this moment, or of ``who`` where a verb names somebody."""
    visit = current_visit()
    return Deed(
        id=id,
        action=action,
        target=target,
        by=who.by if who is not None else visit.by,
        role=str(who.role) if who is not None else visit.role,
        door=visit.door or (who.channel if who is not None else visit.home),
        address=visit.address,
        **more,
    )


def body_of(done: Deed, at: float) -> bytes:
    """Return the bytes of a record: ASCII, JSON with its keys in order and no spaces."""
    fields: dict[str, Any] = msgspec.structs.asdict(done)
    about = {_short(name): _fact(value) for name, value in fields.pop("about").items()}
    named = {name: _short(value) for name, value in fields.items()}
    fields = {"at": at, "about": about, **named}
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def _fact(value: Any) -> Fact:
    return value if isinstance(value, bool | int | float) else _short(value)


def _short(value: object) -> str:
    text = str(value).encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


EACH: Final = 10  # records of one source in a window
IN_ALL: Final = 100  # of all sources together: of strangers, and again of callers that are known
WINDOW_S: Final = 60.0
SOURCES_MAX: Final = 1_000
COUNTED_MAX: Final = 50  # counts that are recorded at the end of a window; others are added up
OTHERS: Final = "other addresses"
"""The source of what comes when too many are remembered."""


class _Window(Struct):
    since: float
    until: float
    recorded: int = 0
    more: int = 0


class Counted(Struct, frozen=True):
    """So many refusals of a source were counted and not recorded one by one."""

    source: str
    more: int
    since: float
    until: float


class Flood:
    """Decides which refusals are recorded."""

    def __init__(
        self, clock: Callable[[], float], *, each: int = EACH, in_all: int = IN_ALL
    ) -> None:
        self._clock = clock
        self._each, self._in_all = each, in_all
        self._windows: dict[str, _Window] = {}
        self._all = _Window(0.0, 0.0)

    def __len__(self) -> int:
        """Return the number of sources that are remembered."""
        return len(self._windows)

    def admits(self, source: str) -> bool:
        """Return whether this refusal is to be recorded; if not, it is counted."""
        now = self._clock()
        if now - self._all.since >= WINDOW_S:
            self._all = _Window(now, now)
        if source not in self._windows and len(self._windows) >= SOURCES_MAX:
            source = OTHERS
        window = self._windows.setdefault(source, _Window(now, now))
        window.until = now
        if window.recorded < self._each and self._all.recorded < self._in_all:
            window.recorded += 1
            self._all.recorded += 1
            return True
        window.more += 1
        return False

    def over(self, *, all_of_them: bool = False) -> list[Counted]:
        """Return what was counted in windows that are over, and begin these anew."""
        now = self._clock()
        found: list[Counted] = []
        for source, window in list(self._windows.items()):
            if all_of_them or now - window.since >= WINDOW_S:
                del self._windows[source]
                if window.more:
                    found.append(Counted(source, window.more, window.since, window.until))
        return _added_up(found)


def _added_up(found: list[Counted]) -> list[Counted]:
    """Return the largest counts, and the rest as one."""
    found.sort(key=lambda counted: counted.more, reverse=True)
    kept, rest = found[:COUNTED_MAX], found[COUNTED_MAX:]
    if not rest:
        return kept
    more = sum(counted.more for counted in rest)
    since, until = min(c.since for c in rest), max(c.until for c in rest)
    return [*kept, Counted(OTHERS, more, since, until)]


BEFORE_ALL: Final = "0" * 64
"""The digest before the first record."""


class Head(Struct, frozen=True):
    """Where a chain ends; its ``text`` is ``NUMBER:DIGEST``."""

    number: int = 0
    digest: str = BEFORE_ALL

    @property
    def text(self) -> str:
        """The head as people write it down: ``NUMBER:DIGEST``."""
        return f"{self.number}:{self.digest}"


class Link(Struct, frozen=True):
    """A record at its place in the chain; ``record`` are its bytes as they are stored."""

    number: int
    previous: str
    digest: str
    record: bytes


class Fault(Struct, frozen=True):
    """A fault in a chain: its kind, the number of the record, and a sentence about it."""

    kind: str
    number: int
    says: str


CHANGED: Final = "changed"
GAP: Final = "gap"
ORDER: Final = "order"
CUT: Final = "cut"
OTHER_CHAIN: Final = "other chain"


def digest_of(previous: str, number: int, record: bytes) -> str:
    """Return the digest of a record at its place."""
    return sha256(f"{previous}\n{number}\n".encode() + record).hexdigest()


def linked(head: Head, record: bytes) -> Link:
    """Return the link that comes after ``head``."""
    number = head.number + 1
    return Link(number, head.digest, digest_of(head.digest, number, record), record)


def parse_head(text: str) -> Head | None:
    """Read a head that somebody has written down; return None if the text is not a head."""
    number, colon, digest = text.strip().partition(":")
    known = set(digest) <= set("0123456789abcdef") and len(digest) == len(BEFORE_ALL)
    if not colon or not known or not (number.isascii() and number.isdigit()):
        return None
    return Head(int(number), digest)


class Checker:
    """Takes the links of a chain one by one, and says what is wrong with each.

    ``anchor`` is a head that was kept elsewhere; the chain must lead to it or past it. ``start`` is
    where a chain is taken up that is looked at only from there on.
    """

    def __init__(self, anchor: Head | None = None, *, start: Head | None = None) -> None:
        self.head = start or Head()
        self.records = 0
        self._anchor = anchor

    def take(self, link: Link) -> list[Fault]:
        """Look at the next link."""
        before, self.head = self.head, Head(link.number, link.digest)
        self.records += 1
        return [*self._place(before, link), *self._contents(link), *self._anchored(link)]

    def _place(self, before: Head, link: Link) -> list[Fault]:
        at = link.number
        if at > before.number + 1:
            first, last = before.number + 1, at - 1
            missing = f"record {first} is" if first == last else f"records {first} to {last} are"
            return [Fault(GAP, first, f"{missing} missing")]
        if at <= before.number:
            return [Fault(ORDER, at, f"record {at} comes after record {before.number}")]
        if link.previous != before.digest:
            says = f"record {at} does not follow the record {before.number} that is there"
            return [Fault(ORDER, at, says)]
        return []

    def _contents(self, link: Link) -> list[Fault]:
        # layer changed-record-found
        if digest_of(link.previous, link.number, link.record) == link.digest:
            return []
        return [Fault(CHANGED, link.number, f"record {link.number} was changed")]

    def _anchored(self, link: Link) -> list[Fault]:
        anchor = self._anchor
        if anchor is None or anchor.number != link.number or anchor.digest == link.digest:
            return []
        says = f"record {link.number} is not the one of the head: the chain was written anew"
        return [Fault(OTHER_CHAIN, link.number, says)]

    def end(self) -> list[Fault]:
        """Say what is wrong when no link is left."""
        if self._anchor is None or self._anchor.number <= self.head.number:
            return []
        first, last = self.head.number + 1, self._anchor.number
        missing = f"record {first} is" if first == last else f"records {first} to {last} are"
        return [Fault(CUT, first, f"the end was cut off: {missing} missing")]


class _Line(Struct):
    """A link as it is exported."""

    number: int
    previous: str
    digest: str
    record: Raw


def exported(link: Link) -> bytes:
    """Return a link as a line of JSON, in which the record stands byte for byte."""
    return msgspec.json.encode(_Line(link.number, link.previous, link.digest, Raw(link.record)))


def imported(line: bytes) -> Link:
    """Return the link of an exported line; raise ``msgspec.MsgspecError`` for any other line."""
    found = msgspec.json.decode(line, type=_Line)
    return Link(found.number, found.previous, found.digest, bytes(found.record))
