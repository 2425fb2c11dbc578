"""Reads single facts of a journal, on a store or a server, and waits for the result of a run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final, Protocol

from midflight.errors import InvalidRequest, JournalNotFound, NeedsPerson
from midflight.journal.events import Killed, QuestionOpened, RunFinished
from midflight.journal.fold import advance, fold
from midflight.journal.record import Recorded
from midflight.journal.state import RunState
from midflight.journal.stored_fold import StoredFold, restore
from midflight.journal.threads.thread import ThreadState
from midflight.journal.transition_table import State
from midflight.stores.protocol import PAGE, Query, Read, Row, empty_state

ON_QUESTION: Final = ("wait", "raise")
ENDINGS: Final = frozenset({RunFinished, Killed})
"""The events with which a run ends."""


class Watching(Protocol):
    """The part of a watch that a store and a server have in common."""

    def __aiter__(self) -> AsyncIterator[Recorded]:
        """Yield for as long as the watch is open."""

    async def until(self, done: Callable[[Recorded], bool]) -> None:
        """See ``Watch.until``."""


class Journals(Protocol):
    """The readable part of a store, or of a server's store."""

    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        """Up to ``limit`` events after a position."""

    async def load(self, journal: str) -> State:
        """A whole journal, folded."""

    async def rows(self, query: Query) -> list[Row]:
        """Look the read model up."""

    async def row(self, journal: str) -> Row:
        """The read model of one journal."""

    async def now(self) -> float:
        """The store's clock."""

    def watch(self, cursors: Mapping[str, int]) -> AbstractAsyncContextManager[Watching]:
        """Events after the given positions, then live ones."""


class Blobs(Protocol):
    """A place from which large values are read."""

    async def blob(self, digest: str) -> bytes:
        """A value that was too large for a row."""


async def folded(
    read: Read, fold_of: Callable[[str], Awaitable[StoredFold | None]], journal: str
) -> State:
    """Fold a whole journal. Page by page, and the loop is given back in between.

    Of a long one only what follows its stored fold is read.
    """
    state = empty_state(journal)
    page = await read(journal)
    if len(page) == PAGE and isinstance(state, RunState):
        found = await fold_of(journal)
        if found is not None:
            restore(state, found)
            page = await read(journal, state.head)
    while True:
        fold(state, page)
        if len(page) < PAGE:
            return state
        page = await read(journal, state.head)


async def run_state(journals: Journals, run: str) -> RunState:
    """A run as it is now; JournalNotFound for a journal that is not a run's."""
    state = await journals.load(run)
    if not isinstance(state, RunState):
        raise JournalNotFound(run)
    return state


async def thread_state(journals: Journals, thread: str) -> ThreadState:
    """A thread as it is now; JournalNotFound for a journal that is not a thread's."""
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
    """Read the question at a position, if there is one; it never changes, so it is read apart."""
    for record in await journals.read(run, after=max(0, position - 1), limit=1):
        if isinstance(record.event, QuestionOpened):
            return record.event
    return None


async def end_of(journals: Journals, state: RunState) -> RunFinished:
    """Read the last event of a run that has ended: it has the result, or where that is kept."""
    (last,) = await journals.read(state.journal, after=state.finished - 1, limit=1)
    assert isinstance(last.event, RunFinished)
    return last.event


async def result_of(blobs: Blobs, ended: RunFinished) -> bytes:
    """Read the value that a run's function returned, as it is stored."""
    return await blobs.blob(ended.blob.hash) if ended.blob else bytes(ended.result)


async def without_person(
    ended: Callable[[str], Awaitable[RunState]],
    journals: Journals,
    run: str,
    on_question: str,
) -> RunState:
    """Wait for the end of a run; with ``on_question="raise"`` raise when it asks a person.

    A question of a background run below it counts: the run may wait for that one.
    """
    if on_question not in ON_QUESTION:
        words = " or ".join(repr(word) for word in ON_QUESTION)
        raise InvalidRequest(f"on_question= must be {words}, not {on_question!r:.40}.")
    if on_question == "wait":
        return await ended(run)
    while True:
        family = await _family(journals, run)
        if await _ended_or_grown(journals, run, family):
            return family[run]


async def _family(journals: Journals, run: str) -> dict[str, RunState]:
    """Return a run and those below it that have not ended, as far as their parents know."""
    family = {run: await run_state(journals, run)}
    waiting = _living_children(family[run])
    while waiting:
        child = waiting.pop()
        with suppress(JournalNotFound):  # it has ended long ago, and was purged
            family[child] = await run_state(journals, child)
            waiting += _living_children(family[child])
    return family


def _living_children(state: RunState) -> list[str]:
    return [child for child, outcome in state.children.items() if not outcome]


async def _ended_or_grown(journals: Journals, run: str, family: dict[str, RunState]) -> bool:
    """Wait until the run has ended (True), or one of the family has another child (False).

    Raises NeedsPerson as soon as one of them asks.
    """
    for state in family.values():
        _raise_if_asked(family[run], state)
    if not family[run].alive:
        return True
    async with journals.watch({each: state.head for each, state in family.items()}) as news:
        async for record in news:
            state = family[record.journal]
            advance(state, record)
            if not family[run].alive:
                return True
            _raise_if_asked(family[run], state)
            if any(child not in family for child in _living_children(state)):
                return False
    return False


def _raise_if_asked(top: RunState, state: RunState) -> None:
    if top.alive and state.alive and state.questions:
        asked = next(iter(state.questions.values()))
        raise NeedsPerson(state.journal, asked.position, asked.message, asked.kind)


async def until(journals: Journals, run: str, ready: Callable[[RunState], bool]) -> RunState:
    """Wait until the run's state is as wanted, and give it."""
    state = await run_state(journals, run)
    if ready(state):
        return state

    def is_ready(record: Recorded) -> bool:
        advance(state, record)
        return ready(state)

    async with journals.watch({run: state.head}) as news:
        await news.until(is_ready)
    return state


async def ended(journals: Journals, run: str) -> RunState:
    """Wait for the end of a run, and give the run as it was then; until then nothing is folded."""
    state, end = await run_state(journals, run), 0
    if not state.alive:
        return state

    def is_end(record: Recorded) -> bool:
        nonlocal end
        end = record.position if type(record.event) in ENDINGS else 0
        return end > 0

    async with journals.watch({run: state.head}) as news:
        await news.until(is_end)
    while state.head < end:
        fold(state, await journals.read(run, state.head, min(PAGE, end - state.head)))
    return state
