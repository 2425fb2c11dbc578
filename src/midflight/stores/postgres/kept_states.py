"""Folded states of the journals in use here, each with one user at a time.

Two tasks of this process that change the same journal take turns before they go to the server: the
second would conflict with the first anyway, and would wait for it there with a lock in its hand.
The task that has the turn owns the state and may fold on before the commit; if the commit fails the
state is forgotten and folded anew from the rows. Other processes know nothing of turns: the server,
which compares heads, finds out that a state is stale.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

import anyio
from msgspec import Struct

from midflight.errors import StoreBusy
from midflight.journal.transition_table import State

STATES_KEPT: Final = 1024  # about 3 kB each; a journal that falls out is folded again when needed
TURN_S: Final = 30.0  # one turn waits for the server at most 10 s; a few may be before us


class Turn(Struct, eq=False):
    """The right to change some journals, in the order in which it was asked for."""

    journals: frozenset[str]
    waits_for: int = 0
    ready: anyio.Event | None = None


class States:
    """The states that are kept, and the turns of the tasks that may change them."""

    def __init__(self, kept: int = STATES_KEPT) -> None:
        self._kept = kept
        self._states: OrderedDict[str, State] = OrderedDict()
        self._turns: dict[str, deque[Turn]] = {}

    async def take(self, journals: Iterable[str]) -> Turn:
        """Wait until nobody here who asked before us uses any of these journals.

        We join all queues in one go, so a turn that is before us in one queue is before us in all
        that we share: no two turns can wait for each other.
        """
        turn = Turn(frozenset(journals))
        for journal in turn.journals:
            queue = self._turns.get(journal)
            if queue is None:
                self._turns[journal] = deque((turn,))
            else:
                queue.append(turn)
                turn.waits_for += 1
        if turn.waits_for:  # layer tasks-of-process-take-turns
            await self._wait(turn)
        return turn

    async def _wait(self, turn: Turn) -> None:
        turn.ready = anyio.Event()
        try:
            with anyio.fail_after(TURN_S):
                await turn.ready.wait()
        except BaseException as error:
            self.leave(turn)
            if isinstance(error, TimeoutError):
                names = ", ".join(sorted(turn.journals)[:3])
                raise StoreBusy(
                    f"other tasks of this process have been changing {names} for {TURN_S:g} s: try "
                    "again. Nothing was changed."
                ) from None
            raise

    def leave(self, turn: Turn) -> None:
        """Let the next ones in, and forget the states that nobody has used for longest."""
        for journal in turn.journals:
            queue = self._turns[journal]
            first = queue[0] is turn
            queue.remove(turn)
            if not queue:
                del self._turns[journal]
            elif first:
                self._come_nearer(queue[0])
        excess = len(self._states) - self._kept
        if excess > 0:
            for journal in list(islice(self._states, excess)):
                if journal not in self._turns:
                    del self._states[journal]

    def _come_nearer(self, turn: Turn) -> None:
        turn.waits_for -= 1
        if turn.waits_for == 0 and turn.ready is not None:
            turn.ready.set()

    def get(self, journal: str) -> State | None:
        """The state, if it is kept. Only the owner of the turn may change it."""
        state = self._states.get(journal)
        if state is not None:
            self._states.move_to_end(journal)
        return state

    def put(self, state: State) -> None:
        """Keep a state that was folded from the rows."""
        self._states[state.journal] = state

    def forget(self, journals: Collection[str]) -> None:
        """Fold these anew from the rows when they are needed next."""
        for journal in journals:
            self._states.pop(journal, None)
