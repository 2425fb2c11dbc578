"""Where the caller of this moment came from: through which front door, from which address."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Final


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
