"""The server's clock, read from here without asking it.

An event's time is folded into the state before the event is written, so it must be known before the
server is asked. It is our own clock, moved by what the server's clock showed when its last answers
arrived. The estimate is late by the time the fastest of them travelled, and early by no more than
the clocks have drifted since. It goes back only when answers of two stretches of time agree on it:
one that was slow to arrive would else stamp what is new before what is old. The server refuses a
stamp that is far from its clock, and compares deadlines and leases with nothing else.
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
        self._before = self._lately = float("-inf")  # the most in each of two stretches
        self._since = float("-inf")  # when the later one began

    def now(self) -> float:
        """The server's time, or a little less."""
        return self._local() + self._ahead

    def heard(self, at: float) -> None:
        """The server showed ``at`` in an answer that has just arrived."""
        here = self._local()
        if not 0 <= here - self._since < KEPT_S:
            self._before, self._lately, self._since = self._lately, float("-inf"), here
        self._lately = max(self._lately, at - here)  # the less it travelled, the more it shows
        self._ahead = max(self._before, self._lately)

    def mistrust(self) -> None:
        """Take the next answer whatever it says: the clocks have moved apart."""
        self._before = self._lately = float("-inf")
