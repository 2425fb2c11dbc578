"""The answer to one AG-UI request: one story, or one after another where it follows a thread.

A story is one AG-UI run, told by ``agui_stream``. A client that follows gets the next one as soon
as somebody does something in the thread: lifts a pause, answers, says something, begins a run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

import anyio
from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
)
from msgspec.structs import replace

from midflight.control import Control
from midflight.kernel import events as e
from midflight.kernel.phases import ENDS, Cause
from midflight.server.agui_stream import Story, Turn
from midflight.stores.lookup import thread_if_any
from midflight.stores.protocol import Query

REST_S: Final = 600.0  # a thread in which nothing happens is followed for so long; then come again
LOOK_S: Final = 2.0  # between two looks for a run that the thread does not name
REFUSED: Final = "history_changed"
UNHEARD: Final = (
    e.DriverClaimed,
    e.DriverReleased,
    e.DriverRevoked,
    e.TimerSet,
    e.TimerCleared,
    e.UsageSpent,
)
"""Events that happen in a run at rest without anybody having done anything."""


class Following:
    """All that one stream tells, story after story."""

    def __init__(
        self, control: Control, turn: Turn, *, heartbeat_s: float, rest_s: float = REST_S
    ) -> None:
        self._control = control
        self._turn = turn
        self._heartbeat_s = heartbeat_s
        self._rest_s = rest_s
        self._story = Story(control, turn, heartbeat_s=heartbeat_s)
        self.in_motion = True  # an AG-UI run is open: its terminal event was not told yet

    @property
    def run(self) -> str:
        """The run that is followed now."""
        return self._story.run

    def close(self) -> list[BaseEvent]:
        """End what the reader has as open."""
        return self._story.close()

    def ended_by(self, ending: BaseEvent) -> tuple[BaseEvent, ...]:
        """Return the events that end the stream; nothing where no AG-UI run is open."""
        return self._story.ended_by(ending) if self.in_motion else ()

    async def told(self) -> AsyncGenerator[BaseEvent | None]:
        """Yield all events, to the last terminal one; None where nothing has happened."""
        count = 1
        while True:
            async with aclosing(self._story.told()) as told:
                async for event in told:
                    for shown in self._as_it_ends(event):
                        yield shown
            if not self._turn.follow or self._turn.refusal:
                return
            async with aclosing(self._rest()) as resting:
                stirred = False
                async for stirred in resting:
                    if not stirred:
                        yield None
            if not stirred:
                return
            count += 1
            self._turn = replace(self._turn, misfits={})  # they were told
            self._story = await self._next_story(count)
            self.in_motion = True

    def _as_it_ends(self, event: BaseEvent | None) -> tuple[BaseEvent | None, ...]:
        """Return what is told for an event: the end says also what the request came to."""
        if not isinstance(event, RunFinishedEvent | RunErrorEvent):
            return (event,)
        first, self.in_motion = self.in_motion, False
        if self._turn.refusal:
            refusal = RunErrorEvent(message=self._turn.refusal, code=REFUSED)
            return self._story.ended_by(refusal) if first else ()
        if isinstance(event, RunErrorEvent):
            return (event,)
        return (said_again(event, self._turn.misfits),)

    async def _rest(self) -> AsyncGenerator[bool]:
        """Wait until somebody does something: True then, at its last; False for a sign of life."""
        thread, heads = self._turn.thread, self._story.heads
        newest = await newest_of(self._control, thread)
        until = anyio.current_time() + self._rest_s
        alive_at = anyio.current_time() + self._heartbeat_s
        async with self._control.watch(heads) as news:
            while anyio.current_time() < until:
                with anyio.move_on_after(min(LOOK_S, self._heartbeat_s)):
                    async for record in news:
                        if not isinstance(record.event, UNHEARD):
                            yield True
                            return
                if await newest_of(self._control, thread) != newest:
                    yield True
                    return
                if anyio.current_time() >= alive_at:
                    alive_at = anyio.current_time() + self._heartbeat_s
                    yield False

    async def _next_story(self, count: int) -> Story:
        first, heads = self._turn, self._story.heads
        turn = replace(
            first,
            run_id=f"{first.run_id}:{count}",
            run=await self._next_run(),
            receipts=(),
            warnings=(),
            sent=(),
            since=heads,
            resumed=True,  # the client may have interrupts of the story before
        )
        return Story(self._control, turn, heartbeat_s=self._heartbeat_s)

    async def _next_run(self) -> str:
        """Return the run that is alive, or the one that has ended since the last story."""
        thread, heads = self._turn.thread, self._story.heads
        if front := await front_of(self._control, thread):
            return front
        newest = await newest_of(self._control, thread)
        return newest if newest in heads or newest not in self._story.runs else ""


async def front_of(control: Control, thread: str) -> str:
    """Return the run that a thread is about now; empty where none is alive.

    Looking begins nothing: also a viewer may do it.
    """
    rows = await control.store.rows(Query(thread=thread))
    talk = await thread_if_any(control.store, thread)
    named = talk.front if talk is not None else ""
    living = [row.journal for row in rows if not row.parent and row.phase not in ENDS]
    for run in (named, *living):
        if run in living and Cause.PARKED not in (await control.state(run)).holds:
            return run
    return ""


async def newest_of(control: Control, thread: str) -> str:
    """Return the run of a thread that was begun last, whether it lives or not."""
    rows = await control.store.rows(Query(thread=thread))
    return next((row.journal for row in rows if not row.parent), "")


def said_again(event: RunFinishedEvent, misfits: Mapping[str, str]) -> RunFinishedEvent:
    """Return the end of a stream; interrupts that are open still say which answer did not fit."""
    outcome = event.outcome
    if not misfits or not isinstance(outcome, RunFinishedInterruptOutcome):
        return event
    general = misfits.get("", "")
    again = [
        _with_words(one, misfits.get(one.id) or (general if place == 0 else ""))
        for place, one in enumerate(outcome.interrupts)
    ]
    changed: dict[str, Any] = {"outcome": RunFinishedInterruptOutcome(interrupts=again)}
    return event.model_copy(update=changed)


def _with_words(interrupt: Interrupt, why: str) -> Interrupt:
    if not why:
        return interrupt
    words = f"{interrupt.message or ''}\n\nYour answer was not taken: {why}".strip()
    return interrupt.model_copy(update={"message": words})
