"""The last entry of a run's function, and what has come to the function since.

Entering the function anew, after a redirect that it did not catch or from a snapshot, begins a new
entry, and nothing of the one before is left over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from msgspec import Struct

from midflight.kernel import events as e


class Told(Struct, frozen=True):
    """A redirect that was delivered to the calls that waited, or else to the next one."""

    position: int
    brief: str
    calls: frozenset[str] = frozenset()
    after: int = 0
    profile: str = ""
    doubts: frozenset[str] = frozenset()  # steps that had begun, with an outcome nobody knew


@dataclass(slots=True, eq=False)
class Entry:
    """One entry, with the brief, profile and time that the function begins with.

    What is on record after the position has to be asked for again.
    """

    position: int = 0
    brief: str = ""
    profile: str = ""
    at: float = 0.0
    redirects: list[Told] = field(default_factory=list)
    told: int = 0  # of the redirects, on the way that it goes now
    reused: dict[str, None] = field(default_factory=dict)
    excused: dict[str, None] = field(default_factory=dict)  # a person goes on without them
    counting: dict[str, None] = field(default_factory=dict)  # also for steps of another name
    carried: dict[str, None] = field(default_factory=dict)  # not asked for before a snapshot
    left: dict[str, e.StepLeft] = field(default_factory=dict)  # given up by the function
    guards: dict[str, int] = field(default_factory=dict)  # how often it has set each

    @property
    def tells(self) -> bool:
        """True if there is a redirect that the function has still to be told."""
        return self.told < len(self.redirects)

    @property
    def horizon(self) -> float:
        """The position of the next redirect: nothing after it is given out before it is told."""
        return self.redirects[self.told].position if self.tells else math.inf

    def excuse(self, steps: tuple[str, ...], *, take_over: bool = False) -> None:
        """A person goes on without these; what is still to be told waits for none of them.

        With ``take_over`` they count for steps of another name that would do the same.
        """
        for step in steps:
            self.excused[step] = None
            if take_over:
                self.counting[step] = None
            self.left.pop(step, None)
        self.redirects = [
            Told(told.position, told.brief, profile=told.profile, doubts=told.doubts)
            for told in self.redirects
        ]
