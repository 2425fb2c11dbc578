"""Chains records of the audit, and finds what is wrong with a chain.

The digest of a record is the SHA-256 of the digest before it, its number and its bytes, with a line
feed between them. A record that was changed, removed, moved or put in between does not fit any
more. Somebody who can write to the whole store can compute a whole new chain. It ends in another
digest, so everybody who has kept the head of the old chain elsewhere finds out.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Raw, Struct

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
