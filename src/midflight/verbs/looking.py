"""Looking at runs and waiting for them: what ``Control`` and ``RemoteControl`` have in common.

Whatever is shown is folded from the journal, here as on the server.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from midflight.errors import JournalNotFound
from midflight.kernel.fold import advance
from midflight.kernel.machine import State
from midflight.kernel.preview import Offer
from midflight.kernel.receipt import Receipt, receipt
from midflight.kernel.record import Recorded
from midflight.kernel.state import RunState
from midflight.stores.base import Query, Row
from midflight.verbs.covering import offers


class Journals(Protocol):
    """What has to be readable: a store, or that of a server."""

    async def load(self, journal: str) -> State:
        """A whole journal, folded."""

    async def rows(self, query: Query) -> list[Row]:
        """Look the read model up."""

    def watch(
        self, cursors: Mapping[str, int]
    ) -> AbstractAsyncContextManager[AsyncIterable[Recorded]]:
        """Events after the given positions, then live ones."""


class Looking:
    """The part of a control that changes nothing."""

    store: Journals

    async def state(self, run: str) -> RunState:
        """The run as it is now."""
        state = await self.store.load(run)
        if not isinstance(state, RunState):
            raise JournalNotFound(run)
        return state

    async def preview(self, run: str) -> dict[str, Offer]:
        """For each verb: whether it can be pressed, and what it would do now."""
        return offers(await self.state(run))

    async def receipt(self, run: str) -> Receipt:
        """What became of every effect of the run."""
        return receipt(await self.state(run))

    async def runs(self, query: Query | None = None) -> list[Row]:
        """The runs there are, newest first."""
        return await self.store.rows(query or Query())

    async def ended(self, run: str) -> RunState:
        """Wait for the end of a run."""
        return await self.until(run, lambda state: not state.alive)

    async def until(self, run: str, ready: Callable[[RunState], bool]) -> RunState:
        """Wait until the run's state is as wanted."""
        state = await self.state(run)
        if ready(state):
            return state
        async with self.store.watch({run: state.head}) as news:
            async for record in news:
                advance(state, record)
                if ready(state):
                    break
        return state
