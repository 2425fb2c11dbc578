"""Where a run's function was last entered, and what has come to it since.

Whoever enters it anew, after a redirect that it did not catch or from a snapshot, begins a new one,
and nothing of the one before is left over.
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
    """Brief, profile and time are those that the function begins with.

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
    left: dict[str, e.StepLeft] = field(default_factory=dict)  # given up by the function
    guards: dict[str, int] = field(default_factory=dict)  # how often it has set each

    @property
    def tells(self) -> bool:
        """Whether there is a redirect that the function has still to be told."""
        return self.told < len(self.redirects)

    @property
    def horizon(self) -> float:
        """Nothing beyond the next redirect is given out before it is told."""
        return self.redirects[self.told].position if self.tells else math.inf

    def excuse(self, steps: tuple[str, ...]) -> None:
        """A person goes on without these; what is still to be told waits for none of them."""
        for step in steps:
            self.excused[step] = None
            self.left.pop(step, None)
        self.redirects = [
            Told(told.position, told.brief, profile=told.profile, doubts=told.doubts)
            for told in self.redirects
        ]
