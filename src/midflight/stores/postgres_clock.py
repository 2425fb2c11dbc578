"""The server's clock, read from here without asking it.

An event's time is folded into the state before the event is written, so it must be known before the
server is asked. It is our own clock, moved by what the server's clock showed when its last answers
arrived. The estimate is late by the time such an answer travelled, and never early. The server
refuses a stamp that is far from its clock, and compares deadlines and leases with nothing else.
"""

from __future__ import annotations

from typing import Final

from midflight.inputs import Clock

KEPT_S: Final = 10.0  # clocks drift apart by less than a millisecond in this time


class ServerClock:
    """An estimate that each answer of the server corrects."""

    def __init__(self, local: Clock) -> None:
        self._local = local
        self._ahead = 0.0
        self._measured = float("-inf")

    def now(self) -> float:
        """The server's time, or a little less."""
        return self._local() + self._ahead

    def heard(self, at: float) -> None:
        """The server showed ``at`` in an answer that has just arrived."""
        here = self._local()
        ahead, age = at - here, here - self._measured
        if ahead >= self._ahead or not 0 <= age < KEPT_S:  # it travelled faster, or ours is old
            self._ahead, self._measured = ahead, here

    def mistrust(self) -> None:
        """Take the next answer whatever it says: the clocks have moved apart."""
        self._measured = float("-inf")
