"""Waiting until a run is as somebody wants it, wherever its journal can be read."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from midflight.errors import JournalNotFound
from midflight.kernel.fold import advance
from midflight.kernel.machine import State
from midflight.kernel.record import Recorded
from midflight.kernel.state import RunState
from midflight.stores.base import Query, Row


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


async def run_state(journals: Journals, run: str) -> RunState:
    """A run as it is now; JournalNotFound for what is none."""
    state = await journals.load(run)
    if not isinstance(state, RunState):
        raise JournalNotFound(run)
    return state


async def until(journals: Journals, run: str, ready: Callable[[RunState], bool]) -> RunState:
    """Wait until the run's state is as wanted, and give it."""
    state = await run_state(journals, run)
    if ready(state):
        return state
    async with journals.watch({run: state.head}) as news:
        async for record in news:
            advance(state, record)
            if ready(state):
                break
    return state
