"""The clock of the store, as the driver of a run knows it."""

from __future__ import annotations

from collections.abc import Awaitable

from midflight.inputs import steady
from midflight.runtime.replay.step_records import Moment
from midflight.stores.protocol import JournalClock


class StoreClock:
    """The clock of the store, as far as a driver can know it: its own may be wrong.

    The time that other drivers still have must not depend on the clock of this machine.
    """

    __slots__ = ("_heard_at", "_moving", "_read_at", "_then")

    def __init__(self, stamped: float) -> None:
        self._moving: Moment | None = None  # when the run began to move as it does now
        self._then = JournalClock()
        self._read_at = self._heard_at = (stamped, steady())

    async def set(self, stamped: float, read: Awaitable[JournalClock]) -> None:
        """Take the stamp of the last event, and what the store knows of its clock by then."""
        self._heard_at = (stamped, steady())
        self._then = then = await read
        self._read_at = (stamped if then.now is None else then.now, steady())

    def hear(self, stamped: float, position: int, moving_since: float | None) -> None:
        """Note the stamp of an event, and since when the run moves."""
        self._heard_at = (stamped, steady())
        if moving_since is None:
            self._moving = None
        elif self._moving is None or self._moving.at != moving_since:
            self._moving = Moment(moving_since, steady(), position)

    def now(self) -> float:
        """Return the time that the store's clock shows at least.

        The store stamped the event that was heard last before this driver heard of it.
        """
        stamped, heard = self._heard_at
        return stamped + steady() - heard

    def age(self, moment: Moment) -> float:
        """Return how many seconds ago something came on record, however clocks were set since.

        An event that this driver heard as it happened is measured by the steady clock. An event
        from before is as old as the store's clock says, less the steps of that clock which were
        seen since.
        """
        stamped, read = self._read_at
        if moment.heard > read:
            return steady() - moment.heard
        moved = self._then.moved(moment.position)
        return steady() - moment.heard + max(0.0, stamped - moment.at - moved)

    def left_of(self, moment: Moment, until: float) -> float:
        """Return the seconds left of a wait that was put on record then, to last ``until``."""
        return until - moment.at - self.age(moment)

    def in_motion(self) -> float:
        """Return the time for a cap on seconds: it counts those passed since the run moves."""
        moment = self._moving
        return self.now() if moment is None else moment.at + self.age(moment)
