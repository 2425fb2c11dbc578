"""A record of the audit: actor, deed, target and outcome, and where the caller came from."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct


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
