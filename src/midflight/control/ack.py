"""Acknowledgements: a verb is on record, and at which position of a journal."""

from __future__ import annotations

from msgspec import Struct


class Ack(Struct, frozen=True):
    """A verb is on record: at which position, and what was in flight at that moment.

    A message is answered with ``status``: how the run it goes to stands, in one line. A resume is,
    with what was changed meanwhile, and a stop that waits for the end of a step. ``did`` says what
    it has brought about at once, and ``target`` in which run: ``started``, ``paused`` or
    ``redirected``.

    What a front door needs to know of a message beyond those words is in fields of its own:
    ``phase`` of the run that it goes to, ``doing`` what that run is at, if it works, ``note`` what
    is said besides how the run stands, ``asks`` what is asked back, and ``kept`` why nothing was
    begun for it.
    """

    run: str
    verb: str
    position: int
    in_flight: tuple[str, ...] = ()
    status: str = ""
    did: str = ""
    target: str = ""
    phase: str = ""
    doing: str = ""
    note: str = ""
    asks: str = ""
    kept: str = ""


class Turn(Struct, frozen=True):
    """What somebody said is on record, and ``run`` is to answer it; empty when nothing was said."""

    run: str
    messages: tuple[Ack, ...] = ()
    started: bool = False
