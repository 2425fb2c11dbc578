"""The gate: whether anything of a run may begin now, and the wait until it may.

Everything that starts passes here, a step as well as any other call of the function: nothing begins
while the run is held, belongs to somebody else, or is not yet where it was before a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from midflight.kernel.phases import Phase
from midflight.kernel.state import RunState

if TYPE_CHECKING:
    from midflight.executor.drive import Driver


class Gate:
    """One run's gate. ``waiting`` counts the calls that want to begin something and may not yet."""

    __slots__ = ("_driver", "waiting")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.waiting = 0

    @property
    def moves(self) -> bool:
        """True while the run is driven here, and nothing holds it."""
        driver = self._driver
        state = driver.log.state
        return (
            not driver.lost
            and driver.lease.held
            and (state.phase is Phase.RUNNING or state.phase is Phase.WAITING)
            and not state.pending
        )

    def _moves(self, course: int) -> bool:
        """Return whether the run moves, and a call on this course has nothing to be told."""
        return not self._driver.course.is_told(course) and self.moves

    def may_start(self, course: int, *, replaying: bool = False) -> bool:
        """Return whether something may begin now; a repeated read waits for no other record."""
        driver = self._driver
        there = replaying or (not driver.replay.unfinished and driver.guards.fresh)
        return there and self._moves(course)

    def may_ask(self, course: int) -> bool:
        """Return whether a new question may be asked: the function is where it was, and moves."""
        return self._moves(course) and not self._driver.replay.unfinished

    def movable(self, course: int, *, replaying: bool = False) -> bool:
        """Return whether a call at the gate has something to do: start, or be told."""
        told = self._driver.course.is_told(course)
        return told or self.may_start(course, replaying=replaying)

    async def wait(self, course: int) -> None:
        """Wait until something may begin. Raises what the function has to be told."""
        await self.wait_until(lambda: self.movable(course))
        self._driver.course.raise_if_told(course)

    async def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait here, where the pilot sees that somebody wants to go on."""
        if ready():
            return
        log = self._driver.log
        self.waiting += 1
        log.stir()
        try:
            await log.until(ready)
        finally:
            self.waiting -= 1

    def let_go(self) -> None:
        """The driver is done: it is not to be kept in memory from here."""
        del self._driver


def still_moves(state: RunState, epoch: int) -> bool:
    """For a decision inside the store: whether the run, as it is there, is ours and moves.

    It needs no gate: a store that has taken a decision makes it, also when its driver has left.
    """
    moving = state.phase in {Phase.RUNNING, Phase.WAITING} and not state.pending
    return moving and state.epoch == epoch
