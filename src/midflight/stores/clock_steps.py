"""Steps of the world's clock: somebody has set it while runs wait.

A deadline on record is a time of the clock that showed the time when the wait began. A process that
has a store open compares that clock with its steady one, which nobody can set, whenever it asks
what is due. If the two have moved apart it notes the step for every journal that waits for a time.
So no wait of a run that nobody drives becomes longer or shorter while a process lives that sweeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from midflight.inputs import Clock
from midflight.journal.record import Recorded
from midflight.stores.protocol import ClockStep, JournalClock, Row

STEP_MIN_S: Final = 0.1  # less than that is the slow correction of a clock, or a busy machine
READ_S: Final = 0.01  # the two clocks were read at the same time


class Noticed(Struct, frozen=True):
    """The clock was set by so many ``seconds``, ``within_s`` of now, which is ``now`` after it."""

    seconds: float
    within_s: float
    now: float

    def is_stamped_after(self, at: float) -> bool:
        """Return whether a time is one that the clock has shown since it was set."""
        return self.now - self.within_s <= at <= self.now


class ClockSteps:
    """The steps that one store has noticed. Without a steady clock it notices none."""

    def __init__(self, clock: Clock, steady: Clock | None) -> None:
        self._clock = clock
        self._steady = steady or clock
        self._ahead, self._looked = self._compare()
        self._noted: dict[str, tuple[ClockStep, ...]] = {}
        self._caught_up = float("-inf")  # when it shows again what it has shown before

    def _compare(self) -> tuple[float, float]:
        """Return by how much the clock is ahead of the steady one, and what that one shows."""
        while True:
            before, now, after = self._steady(), self._clock(), self._steady()
            if after - before < READ_S or self._steady is self._clock:
                return now - before, before

    def notice(self) -> Noticed | None:
        """Return the step of the clock since the last look, to be passed to ``note``."""
        if self._steady is self._clock:
            return None
        ahead, looked = self._compare()
        if abs(ahead - self._ahead) >= STEP_MIN_S:
            return Noticed(ahead - self._ahead, looked - self._looked + STEP_MIN_S, ahead + looked)
        self._looked = looked
        return None

    def note(self, step: Noticed, waiting: Sequence[tuple[Row, Sequence[Recorded]]]) -> None:
        """Note the step for the journals that wait, each with its last events."""
        noted = {}
        for row, last in waiting:
            since = _since(step, last)
            of_now = any(_sets(record, row.due_at) for record in since)
            due_at = None if of_now else row.due_at
            here = ClockStep(row.head - len(since), due_at, step.seconds)
            noted[row.journal] = (*self._noted.get(row.journal, ()), here)
        self._noted = noted
        self._caught_up = max(self._caught_up, step.now - step.seconds)
        self._ahead += step.seconds
        self._looked = step.now - self._ahead

    def is_behind(self) -> bool:
        """Return whether the clock was set back, and journals may be ahead of it."""
        return self._clock() < self._caught_up

    def note_ahead(self, rows: Iterable[Row]) -> None:
        """Note for new waits how far their journals are ahead of a clock that was set back.

        The times in a journal never go back. So what comes on record is stamped with the time of
        the event before, until the clock has caught up; and a deadline is counted from there.
        """
        now = self._clock()
        for row in rows:
            known = self.of(row.journal)
            ahead = row.updated_at - now
            if ahead < STEP_MIN_S or row.due_at in (None, *(step.due_at for step in known)):
                continue
            last = known[-1].head if known else 0
            before = ClockStep(last, None, ahead)  # for what is older this is no news
            self._noted[row.journal] = (*known, before, ClockStep(row.head, row.due_at, -ahead))

    def of(self, journal: str) -> tuple[ClockStep, ...]:
        """Return the steps since a wait of this journal came on record."""
        return self._noted.get(journal, ())

    def clock_of(self, journal: str) -> JournalClock:
        """Return what the clock shows, and the steps."""
        return JournalClock(self._clock(), self.of(journal))

    def latest(self, now: float) -> float:
        """Return a time by which every deadline is that is over now."""
        moved = (sum(min(0.0, step.seconds) for step in steps) for steps in self._noted.values())
        return now - min(moved, default=0.0) if self._noted else now

    def is_due(self, row: Row, now: float) -> bool:
        """Return whether the time of a journal has come."""
        return is_due(self.of(row.journal), row.due_at, row.head, now)


def is_due(steps: Sequence[ClockStep], due_at: float | None, head: int, now: float) -> bool:
    """Return whether the next deadline of a journal that ends at ``head`` has come."""
    if due_at is None:
        return False
    return due_at + sum(s.seconds for s in steps if head <= s.head or due_at == s.due_at) <= now


def _since(step: Noticed, last: Sequence[Recorded]) -> list[Recorded]:
    """Return those of the last events that came on record after the clock was set."""
    found: list[Recorded] = []
    for record in reversed(last):
        if not step.is_stamped_after(record.at):
            break
        found.append(record)
    return found


def _sets(record: Recorded, due_at: float | None) -> bool:
    """Return whether an event has put this deadline on record."""
    event = record.event
    return due_at in (record.at, *(getattr(event, name) for name in event.__struct_fields__))
