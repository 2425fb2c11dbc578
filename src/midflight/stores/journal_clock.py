"""The store's clock as a journal that waits sees it."""

from __future__ import annotations

from msgspec import Struct


class ClockStep(Struct, frozen=True):
    """The store's clock was set by so many ``seconds`` while a journal waited for a time.

    The journal ended at ``head`` then, and its next deadline was ``due_at``; None if that deadline
    came on record after the clock was set.
    """

    head: int
    due_at: float | None
    seconds: float


class JournalClock(Struct, frozen=True):
    """The store's clock: its time ``now``, and how it was set while a journal waited.

    Without ``now`` nobody here knows it better than the last event of the journal does.
    """

    now: float | None = None
    steps: tuple[ClockStep, ...] = ()

    def moved(self, position: int) -> float:
        """Return by how much the clock was set since an event came on record."""
        return sum(step.seconds for step in self.steps if position <= step.head)
