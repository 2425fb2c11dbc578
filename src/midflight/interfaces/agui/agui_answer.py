"""The answer to one AG-UI request, and what becomes of a run when the reader of its answer leaves.

It tells one story, or one after another where it follows a thread. It is bounded, and ends with a
terminal event wherever one can still be sent.

A client that leaves and one in which Stop is pressed both close the connection, and nothing tells
them apart. A client may come back within a grace time. The person counts, not the connection:
somebody who still reads the thread in another stream of this process has not left. When the server
itself shuts down, nothing is done to the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager, ExitStack, aclosing, contextmanager
from typing import Final

import anyio
from ag_ui.core import (
    BaseEvent,
    RunErrorEvent,
    RunFinishedEvent,
)
from ag_ui.encoder import EventEncoder
from msgspec import Struct
from msgspec.structs import replace
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from midflight.agents import Agent
from midflight.control import Control
from midflight.errors import MidflightError, Refused
from midflight.inputs import Clock
from midflight.interfaces.agui.agui_events import KEY
from midflight.interfaces.agui.agui_input import Input
from midflight.interfaces.agui.agui_state import said_again
from midflight.interfaces.agui.agui_stream import Story
from midflight.interfaces.agui.agui_turn import Turn, front_of, newest_of
from midflight.interfaces.http.event_streams import ALIVE, NOT_KNOWN, Stalled, Streamed, Streams
from midflight.journal import events as e
from midflight.journal.record import Actor
from midflight.tools.secret import clean_logger

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


AGAIN: Final = "The run goes on by itself; send the same runId to follow it again."
log: Final = clean_logger(__name__)


class EventAnswer(Streamed):
    """One AG-UI run, as it happens. ``slot`` is given back at its end."""

    def __init__(
        self, control: Control, turn: Turn, streams: Streams, slot: ExitStack, leaving: Leaving
    ) -> None:
        super().__init__(streams, {"cache-control": "no-cache"})
        self._slot = slot
        self._leaving = leaving
        self._left = False
        self._ended = False
        self._turn = turn
        self._story = Following(control, turn, heartbeat_s=streams.pace.heartbeat_s)
        self._encoder = EventEncoder()
        self._known = anyio.CancelScope()

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        with self._slot, self._leaving.is_reading():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._until_left, receive, tasks.cancel_scope)
                tasks.start_soon(self._streams.until_unknown, scope, self._known)
                try:
                    await self._tell(send)
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                except Stalled:
                    self._left = True
                    self._dropped(self._turn.who.by)
                tasks.cancel_scope.cancel()
        if self._left and self._story.in_motion and not self._ended:
            await self._leaving.left(self._story.run, self._streams)

    async def _until_left(self, receive: Receive, scope: anyio.CancelScope) -> None:
        await self._until_gone(receive, scope)
        self._left = True

    async def _tell(self, send: Send) -> None:
        """Send the stream; this is the edge at which a failure of it becomes an event."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        staying = anyio.CancelScope()
        self._streams.enter(staying)
        try:
            with staying, self._known:
                await self._events(send)
            if self._known.cancelled_caught:
                await self._end(send, f"{NOT_KNOWN} The run goes on by itself.", "not_known")
            elif staying.cancelled_caught:
                await self._end(send, f"this server is shutting down. {AGAIN}", "leaving")
        except Stalled:
            raise
        except Exception as error:
            about = {"action": "stream_failed", "run": self._turn.run, "error": str(error)}
            log.error("AG-UI stream failed", extra=about, exc_info=error)
            what = (
                str(error)
                if isinstance(error, MidflightError)
                else "this stream failed on the server."
            )
            await self._end(send, f"{what} {AGAIN}", "stream")
        finally:
            self._streams.exit(staying)

    async def _events(self, send: Send) -> None:
        async with aclosing(self._story.told()) as told:
            async for event in told:
                await self._put_event(send, event)

    async def _end(self, send: Send, words: str, code: str) -> None:
        """End the stream from here: whose stream was ended has not left it."""
        self._ended = True
        ended = self._story.ended_by(RunErrorEvent(message=words, code=code))
        for event in (*self._story.close(), *ended):
            await self._put_event(send, event)

    async def _put_event(self, send: Send, event: BaseEvent | None) -> None:
        await self._put(send, self._encoder.encode(event).encode() if event is not None else ALIVE)


# ── a reader who leaves ───────────────────────────────────────────────────────────────────────


CONTINUE: Final = "continue"
CHANNEL: Final = "agui:disconnect"
CLOCK_LOOK_S: Final = 0.05  # between two looks at the clock


class Presence:
    """Counts the streams in which each person reads each thread over AG-UI, in this process."""

    def __init__(self, clock: Clock, grace_s: float) -> None:
        self._clock = clock
        self._grace_s = grace_s
        self._reading: Counter[tuple[str, str]] = Counter()
        self._awaited: dict[tuple[str, str], set[anyio.Event]] = {}

    @contextmanager
    def reading(self, by: str, thread: str) -> Iterator[None]:
        """Count a reader of a thread while the block runs, and wake those who wait for them."""
        who = (by, thread)
        self._reading[who] += 1
        for back in self._awaited.get(who, ()):
            back.set()
        try:
            yield
        finally:
            self._reading[who] -= 1
            if not self._reading[who]:
                del self._reading[who]

    async def is_gone(self, by: str, thread: str) -> bool:
        """Wait for the grace time, and say whether they have not come back in it.

        What they read in another stream counts at the end of that time: a tab that is closed hangs
        up one of its streams before the other.
        """
        who, back = (by, thread), anyio.Event()
        until = self._clock() + self._grace_s
        self._awaited.setdefault(who, set()).add(back)
        try:
            while self._clock() < until and not back.is_set():
                with anyio.move_on_after(CLOCK_LOOK_S):
                    await back.wait()
        finally:
            self._awaited[who].discard(back)
            if not self._awaited[who]:
                del self._awaited[who]
        return not back.is_set() and who not in self._reading  # layer comes-back-in-time-has


class Leaving(Struct, frozen=True):
    """The choice that one request makes for the case that its client leaves.

    ``choice`` is empty where the agent decides, and then only the person who began the run counts.
    """

    control: Control
    presence: Presence
    who: Actor
    thread: str
    request: str
    agent: Agent
    choice: str = ""

    @classmethod
    def of(
        cls, control: Control, presence: Presence, agent: Agent, given: Input, who: Actor
    ) -> Leaving:
        """Take the choice from a request; a viewer may not steer, so their run goes on."""
        choice = (given.on_disconnect or "") if who.role.steers else CONTINUE
        return cls(control, presence, who, given.journal, given.run, agent, choice)

    def is_reading(self) -> AbstractContextManager[None]:
        """Say that the client reads, for as long as a block runs."""
        return self.presence.reading(self.who.by, self.thread)

    async def left(self, run: str, streams: Streams) -> None:
        """Do it, unless they come back in time or the server leaves meanwhile."""
        staying = anyio.CancelScope()
        streams.enter(staying)
        try:
            with staying:
                choice = await self._choice(run)
                if choice != CONTINUE and await self.presence.is_gone(self.who.by, self.thread):
                    await self._do(choice, run)
        except MidflightError as error:
            about = {"action": "left", "run": run, "by": self.who.by, "error": str(error)}
            words = "Run %s was left as it was when its reader had gone, because of an error: %s"
            log.error(words, run, error, extra=about)
        finally:
            streams.exit(staying)

    async def _choice(self, run: str) -> str:
        if not run or self.choice or self.agent.on_disconnect == CONTINUE:
            return self.choice if run and self.choice else CONTINUE
        (first,) = await self.control.store.read(run, limit=1)
        created = first.event
        began = isinstance(created, e.RunCreated) and created.who.by == self.who.by
        return self.agent.on_disconnect if began else CONTINUE

    async def _do(self, choice: str, run: str) -> None:
        who, key = replace(self.who, channel=CHANNEL), f"{KEY}left:{self.request}"
        verb = self.control.pause if choice == "pause" else self.control.cancel
        about = {"action": "left", "run": run, "by": who.by, "verb": choice}
        try:
            await verb(run, who=who, key=key)
        except Refused as refused:  # it has ended meanwhile, say
            log.info(
                "Run %s could not be told to %s when its reader had gone: %s",
                run,
                choice,
                refused,
                extra=about | {"why": str(refused)},
            )
        else:
            log.info("Run %s was told to %s: its reader had gone", run, choice, extra=about)
