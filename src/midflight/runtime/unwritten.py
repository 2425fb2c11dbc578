"""Outcomes that an agent's function knows already, and its journal does not yet.

A function gets the outcome of a plain write at once. The record of it travels in the same append as
the start of the next step, so that a step costs one commit and not two. Nothing of a run begins
before all that is known of the run is on record: see ``RunJournal``, which writes what is kept here
before any other decision, fact or request of the run. Where no append comes within a few turns of
the event loop, the flusher has the outcome written.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Final

from midflight.journal.facts import record
from midflight.journal.record import Event, Fact
from midflight.journal.state import RunState

TURNS: Final = 4  # of the event loop, in which a function may ask for its next step
KEPT_MAX: Final = 64  # outcomes of one run, of steps that it does at the same time


class Turn:
    """One at a time, in the order of their coming; while it is free, at no cost."""

    __slots__ = ("_queue", "taken")

    def __init__(self) -> None:
        self.taken = False
        self._queue: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> None:
        if not self.taken:
            self.taken = True
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # it was ours already
                self._pass_on()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        while self._queue:
            waiter = self._queue.pop(0)
            if not waiter.done():
                waiter.set_result(None)  # and it stays taken
                return
        self.taken = False


class Flusher:
    """Has outcomes written that no append has taken along. There is one for all runs of an engine.

    It counts turns of the loop and not time: beside many runs a turn takes long.
    """

    __slots__ = ("_context", "_due", "_loop", "_turn", "_turning")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context = contextvars.copy_context()  # not that of the code that keeps an outcome
        self._turn = 0
        self._turning: asyncio.Handle | None = None
        self._due: dict[Unwritten, int] = {}  # and at which turn

    def watch(self, kept: Unwritten) -> None:
        """Outcomes are kept there from now on."""
        self._due[kept] = self._turn + TURNS
        if self._turning is None:
            self._turning = self._loop.call_soon(self._look, context=self._context)

    def drop(self, kept: Unwritten) -> None:
        """They are on record."""
        self._due.pop(kept, None)

    def close(self) -> None:
        """Look no more."""
        self._due.clear()
        if self._turning is not None:
            self._turning.cancel()

    def _look(self) -> None:
        self._turn += 1
        self._turning = None
        for kept in [kept for kept, due in self._due.items() if due <= self._turn]:
            del self._due[kept]
            kept.flush_soon()
        if self._due:
            self._turning = self._loop.call_soon(self._look, context=self._context)


class Unwritten:
    """The outcomes of one run that are not on record yet, in the order in which they were told."""

    __slots__ = ("_begin_writing", "_flusher", "_turn", "facts")

    def __init__(self, turn: Turn) -> None:
        self.facts: list[Fact] = []
        self._turn = turn  # of those that write to the journal
        self._flusher: Flusher | None = None
        self._begin_writing: Callable[[], None] = _nobody

    def open(self, flusher: Flusher, begin_writing: Callable[[], None]) -> None:
        """Keep outcomes from now on. ``begin_writing`` begins a task that writes them."""
        self._flusher, self._begin_writing = flusher, begin_writing

    def close(self) -> None:
        """Keep nothing any more: nobody would write it."""
        self._flusher, self._begin_writing = None, _nobody

    def flush_soon(self) -> None:
        """Have them written now."""
        if self.facts:
            self._begin_writing()

    def keep(self, fact: Fact) -> bool:
        """Keep an outcome for the next append. False: it has to be written now.

        Nothing is kept while something is being written: a function that does two things at once
        learns how they ended in the order of the records, this time and at every replay.
        """
        if self._flusher is None or self._turn.taken or len(self.facts) >= KEPT_MAX:
            return False
        self.facts.append(fact)
        self._flusher.watch(self)
        return True

    def events(self, state: RunState) -> list[Event]:
        """Return what the journal takes of them, in its present state."""
        return [event for fact in self.facts for event in record(state, fact)]

    def take_along(self) -> tuple[Fact, ...]:
        """Return them for an append: until that has come to its end, nobody else writes them."""
        if self.facts and self._flusher is not None:
            self._flusher.drop(self)
        return tuple(self.facts)

    def are_written(self, facts: tuple[Fact, ...]) -> None:
        """Forget those that are on record: the oldest ones."""
        del self.facts[: len(facts)]

    def be_looked_after(self) -> None:
        """An append has come to its end; what it has not written is written soon."""
        if self.facts and self._flusher is not None:
            self._flusher.watch(self)


def _nobody() -> None:
    """Nothing is written where no driver is."""
