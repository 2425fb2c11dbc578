"""The gate: whether anything of a run may begin now, and the wait until it may.

Everything that starts passes here, a step as well as any other call of the function: nothing begins
while the run is held, belongs to somebody else, or is not yet where it was before a restart.
"""

from __future__ import annotations

from collections.abc import Callable

from midflight.executor.logbook import RunJournal
from midflight.executor.signals import Signals
from midflight.kernel.phases import Phase
from midflight.kernel.state import RunState
from midflight.stores.base import Lease


class Gate:
    """One run's gate. ``waiting`` counts the calls that want to begin something and may not yet."""

    __slots__ = ("_fresh", "_journal", "_lease", "_signals", "draining", "returns", "waiting")

    def __init__(self, journal: RunJournal, signals: Signals, lease: Lease) -> None:
        self._journal = journal
        self._signals = signals
        self._lease = lease
        self._fresh = False
        self.returns = 0  # how often the run has come back
        self.waiting = 0
        self.draining = False  # the process is about to end

    def drain(self) -> None:
        """Let the run come to rest: the process is about to end."""
        self.draining = True

    # ── the world ────────────────────────────────────────────────────────────────────────────

    @property
    def fresh(self) -> bool:
        """True if everything that the run relies on was looked at since it has come back."""
        return self._fresh or not self._journal.state.guards

    def look_again(self) -> None:
        """The run comes back: nothing is known of the world outside."""
        self._fresh = False
        self.returns += 1

    def be_fresh(self) -> None:
        """Everything that the run relies on is as it was."""
        self._fresh = True

    # ── starting ─────────────────────────────────────────────────────────────────────────────

    @property
    def moves(self) -> bool:
        """True while the run is driven here, and nothing holds it."""
        state = self._journal.state
        return (
            not self._journal.lost
            and self._lease.held
            and (state.phase is Phase.RUNNING or state.phase is Phase.WAITING)
            and not state.pending
        )

    def _moves(self, course: int) -> bool:
        """Return whether the run moves, and a call on this course has nothing to be told."""
        return not self._signals.is_told(course) and self.moves

    def may_start(self, course: int, *, replaying: bool = False) -> bool:
        """Return whether something may begin now; a repeated read waits for no other record."""
        there = replaying or (not self._journal.history.unfinished and self.fresh)
        return there and self._moves(course)

    def may_ask(self, course: int) -> bool:
        """Return whether a new question may be asked: the function is where it was, and moves."""
        return self._moves(course) and not self._journal.history.unfinished

    def movable(self, course: int, *, replaying: bool = False) -> bool:
        """Return whether a call at the gate has something to do: start, or be told."""
        return self._signals.is_told(course) or self.may_start(course, replaying=replaying)

    async def wait(self, course: int) -> None:
        """Wait until something may begin. Raises what the function has to be told."""
        await self.wait_until(lambda: self.movable(course))
        self._signals.raise_if_told(course)

    async def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait here, where the pilot sees that somebody wants to go on."""
        if ready():
            return
        self.waiting += 1
        self._journal.stir()
        try:
            await self._journal.until(ready)
        finally:
            self.waiting -= 1


def still_moves(state: RunState, epoch: int) -> bool:
    """For a decision inside the store: whether the run, as it is there, is ours and moves.

    It needs no gate: a store that has taken a decision makes it, also when its driver has left.
    """
    moving = state.phase in {Phase.RUNNING, Phase.WAITING} and not state.pending
    return moving and state.epoch == epoch
