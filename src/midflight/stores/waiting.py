"""One thing of a journal, wherever that can be read; and waiting until a run is as is wanted."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from midflight.errors import JournalNotFound
from midflight.kernel.events import QuestionOpened, RunFinished
from midflight.kernel.fold import advance
from midflight.kernel.machine import State
from midflight.kernel.record import Recorded
from midflight.kernel.state import RunState
from midflight.kernel.thread import ThreadState
from midflight.stores.base import PAGE, Query, Row, Store


class Journals(Protocol):
    """What has to be readable: a store, or that of a server."""

    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        """Up to ``limit`` events after a position."""

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


async def thread_state(journals: Journals, thread: str) -> ThreadState:
    """A thread as it is now; JournalNotFound for what is none."""
    talk = await journals.load(thread)
    if not isinstance(talk, ThreadState):
        raise JournalNotFound(thread)
    return talk


async def thread_if_any(journals: Journals, thread: str) -> ThreadState | None:
    """A thread as it is now; None where nothing was ever said or started."""
    try:
        return await thread_state(journals, thread)
    except JournalNotFound:
        return None


async def question_at(journals: Journals, run: str, position: int) -> QuestionOpened | None:
    """What was asked at a position; it never changes, so it can be read apart."""
    for record in await journals.read(run, after=max(0, position - 1), limit=1):
        if isinstance(record.event, QuestionOpened):
            return record.event
    return None


async def end_of(journals: Journals, state: RunState) -> RunFinished:
    """How a run has ended that has: with its result, or where that is kept."""
    (last,) = await journals.read(state.journal, after=state.finished - 1, limit=1)
    assert isinstance(last.event, RunFinished)
    return last.event


async def result_of(store: Store, ended: RunFinished) -> bytes:
    """What its function returned, as it is stored."""
    return await store.blob(ended.blob.hash) if ended.blob else bytes(ended.result)


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
