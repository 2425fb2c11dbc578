"""The words of a journal: phases, causes of a hold, effect classes, outcomes, roles."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """The phases of a run. No two of them look alike to a person."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    WAITING = "waiting"
    CANCELLING = "cancelling"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    KILLED = "killed"


ENDS: Final = frozenset({Phase.DONE, Phase.FAILED, Phase.CANCELLED, Phase.KILLED})
LIVE: Final = tuple(phase for phase in Phase if phase not in ENDS)

IN_MOTION: Final = frozenset({Phase.RUNNING, Phase.PAUSING, Phase.CANCELLING})
"""Something may be in flight: a kill ends these at once, the others keep their phase."""


class Cause(StrEnum):
    """The reasons why a run is held. Each is lifted only by its owner."""

    USER = "user"  # by resume
    PARKED = "parked"  # by the todo scheduler
    CAP = "cap"  # by raising the cap
    STALE = "stale"  # by the answer to its question
    DRAIN = "drain"  # by the next start
    HUMAN = "human"  # by handing back


class Effect(StrEnum):
    """The effect of a step on the world, which decides what may be done to the step."""

    READ = "read"
    MODEL = "model"
    WRITE = "write"
    ONCE = "once"

    touches_world: bool
    """True if an attempt must be accounted for in the receipt."""

    def __init__(self, name: str) -> None:
        self.touches_world = name in {"write", "once"}


class Outcome(StrEnum):
    """The end of an attempt. For an effect, a plain exception is never more than ``unknown``."""

    DONE = "done"
    NOT_DONE = "not_done"  # proven: the tool raised NotDone, or its check said so
    NOT_STARTED = "not_started"  # a stop came between the record and the first line
    ABORTED = "aborted"  # reads and model calls only
    FAILED = "failed"  # reads and model calls only
    UNKNOWN = "unknown"


class Role(StrEnum):
    """The rights of a person or program: to look, to steer, or to answer for everything."""

    VIEWER = "viewer"
    CONTROLLER = "controller"
    OPERATOR = "operator"

    @property
    def steers(self) -> bool:
        """True if words under this role may change what is done; a viewer's are only read."""
        return self is not Role.VIEWER


def rank(role: Role) -> int:
    """Return the place of a role in their order: each may do all that a lower one may."""
    return list(Role).index(role)


class Mode(StrEnum):
    """The moment at which a stop is heard: between steps, or also in the middle of one."""

    BOUNDARY = "boundary"
    IMMEDIATE = "immediate"
