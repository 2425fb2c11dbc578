"""One AG-UI run as a stream: a run of ours is followed until it rests, and the stream ends legally.

Reading decides nothing: a reader that leaves cancels nothing here, and gets what it has missed
from the next stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from itertools import takewhile
from typing import Any, Final

import anyio
import msgspec
from ag_ui.core import BaseEvent, CustomEvent, RunStartedEvent, StateDeltaEvent, StateSnapshotEvent

from midflight.control import Control
from midflight.errors import JournalNotFound
from midflight.interfaces.agui import agui_turn
from midflight.interfaces.agui.agui_events import KEY, Narrator, people_by_snapshot
from midflight.interfaces.agui.agui_state import (
    CANCELLED,
    cancelled_words,
    ending,
    is_at_rest,
    old_endings,
    patch,
    snapshot,
    snapshot_of,
)
from midflight.interfaces.agui.agui_turn import PROTOCOL, RECEIPT, WARNING, Receipts, Turn
from midflight.journal import events as e
from midflight.journal.fold import advance
from midflight.journal.phases import ENDS, Cause, Phase
from midflight.journal.record import Recorded
from midflight.journal.state import RunState, needs_driver
from midflight.journal.threads.front import is_spoken_to
from midflight.journal.threads.thread import FrontChanged, Said, ThreadState
from midflight.stores.hints import Delta
from midflight.stores.protocol import LiveWatch, Query
from midflight.stores.subscription import weight

STATE_S: Final = 0.1  # a run may make a thousand steps a second; a person looks ten times
STIRRED_S: Final = 1.0  # what a run that waits has to go on with one of several answers
DRIVER_S: Final = 2.0  # between two looks at whether its driver lives, where nothing else happens
RUNS_SHOWN: Final = 50  # of a thread, newest first; of older ones only what was said


class Story:
    """The story that one stream tells: the events of a thread and its runs, from start to end."""

    def __init__(
        self,
        control: Control,
        turn: Turn,
        *,
        heartbeat_s: float,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._control = control
        self._clock = clock
        self._heartbeat_s = heartbeat_s
        self._turn = turn
        self._narrator = Narrator(turn.who.by)
        self._talk: ThreadState | None = None
        self._runs: dict[str, RunState] = {}
        self._asked: dict[str, dict[int, e.QuestionOpened]] = {}
        self._shown: dict[str, Any] = {}
        self._shown_at = 0.0
        self._undriven: tuple[float, float | None] = (0.0, None)  # when it was last driven, since
        self._changed = False
        self._began = False  # whether the reader knows that the AG-UI run has begun
        self._told = False  # whether the reader has what is open
        self._heard_at = self._clock()
        self._ahead: dict[str, int] = {}  # what is on record, and may still have to be told
        self._run = turn.run
        self._takers: dict[int, str] = {}  # message -> the run that has read it
        self._delivered = Receipts()
        self._left_out: list[str] = []  # what the reader is told about what is not told

    @property
    def run(self) -> str:
        """The run that is followed now."""
        return self._run

    @property
    def runs(self) -> Collection[str]:
        """The runs of the thread that were told of."""
        return self._runs.keys()

    @property
    def heads(self) -> dict[str, int]:
        """Up to where the thread and its living runs were told."""
        living = {state.journal: state.head for state in self._runs.values() if state.alive}
        return living | {self._turn.thread: self._head(self._turn.thread)}

    def close(self) -> list[BaseEvent]:
        """End what the reader has as open."""
        return self._narrator.close() if self._told else []

    async def told(self) -> AsyncGenerator[BaseEvent | None]:
        """Yield all events, from the first to the terminal one; None where nothing has happened."""
        turn = self._turn
        self._began = True
        yield RunStartedEvent(
            thread_id=turn.thread_id, run_id=turn.run_id, protocol_version=PROTOCOL
        )
        for warning in turn.warnings:
            yield CustomEvent(name=WARNING, value=warning)
        for receipt in turn.receipts:
            yield CustomEvent(name=RECEIPT, value=msgspec.to_builtins(receipt))
        cursors = await self._look_back()
        await self._look_at_driver()
        shown, open_still = self._opening()
        for left_out in self._left_out:
            yield CustomEvent(name=WARNING, value=left_out)
        yield shown
        yield self._state()
        self._told = True
        for going_on in open_still:
            yield going_on
        async with self._control.watch_live(cursors) as news:
            news.hear_calls()
            while not self._rests() or await self._is_behind() or await self._goes_on(news):
                for event in await self._next(news):
                    yield event
        ended = self.ended_by(await self._ending())
        for last in (*self.close(), self._state(), self._messages(), *ended):
            yield last

    def ended_by(self, ending: BaseEvent) -> tuple[BaseEvent, ...]:
        """Return the events that end the stream, as the version of the client takes them."""
        turn = self._turn
        if not turn.old or not self._began:
            return (ending,)
        return old_endings(turn.thread_id, turn.run_id, ending, resumed=turn.resumed)

    # ── what was before ──────────────────────────────────────────────────────────────────────

    async def _look_back(self) -> dict[str, int]:
        """Read the thread and its runs, and give where each of them ended."""
        store, turn = self._control.store, self._turn
        rows = await store.rows(Query(thread=turn.thread, limit=RUNS_SHOWN))
        runs = [row for row in rows if not row.parent]
        needed = {turn.run, *(row.journal for row in runs if row.phase not in ENDS)}
        needed |= {row.journal for row in runs[:1]}
        read: list[Recorded] = []
        for one in filter(None, (turn.thread, *needed)):
            read += await agui_turn.read_within(store, one)
        left = agui_turn.LOOK_BACK_BYTES_MAX
        for row in runs:
            if row.journal in needed:
                continue
            found = await agui_turn.read_within(store, row.journal, most=left)
            left -= sum(map(weight, found))
            if left < 0:
                self._left_out.append(agui_turn.RUNS_LEFT_OUT)
                break
            read += found
        self._ahead = {r.journal: r.position for r in read}
        records = [r for r in read if r.position <= turn.since.get(r.journal, r.position)]
        for record in agui_turn.in_order(records, turn.thread):
            self._fold(record)
            self._heard(record)
        self._delivered.told(self._runs)  # what was delivered before is not told again
        return self.heads

    def _fold(self, record: Recorded) -> None:
        journal, event = record.journal, record.event
        if self._ahead.get(journal) == record.position:
            del self._ahead[journal]
        if journal == self._turn.thread:
            if self._talk is None:
                self._talk = ThreadState(journal)
            advance(self._talk, record)
            if isinstance(event, e.MessagesTaken):
                self._takers |= dict.fromkeys(event.messages, event.run)
            return
        state = self._runs.get(journal)
        if state is None:
            state = self._runs[journal] = RunState(journal)
            self._asked[journal] = {}
        if isinstance(event, e.QuestionOpened):
            self._asked[journal][record.position] = event
        advance(state, record)

    # ── what happens ─────────────────────────────────────────────────────────────────────────

    async def _next(self, news: LiveWatch) -> Sequence[BaseEvent | None]:
        """Wait for one more thing and tell it; nothing but a sign of life if none comes."""
        longest = min(STIRRED_S if self._is_stirred else self._heartbeat_s, self._patience)
        item: Recorded | Delta | None = None
        with anyio.move_on_after(self._until_due if self._changed else longest):
            async for item in news:  # noqa: B007 - one is taken; all that follows is not cut short
                break
        if item is None:
            await self._look_at_driver()
            return [*self._change()] if self._changed else [None]
        self._heard_at = self._clock()
        events = [*await self._earlier(item, news), *self._hear(item, news)]
        # layer state-told-while-text-streams
        return events + self._change() if self._changed and not self._until_due else events

    @property
    def _until_due(self) -> float:
        """Return the seconds until a change of the state must be told, whatever else comes."""
        return max(0.0, self._shown_at + STATE_S - self._clock())

    @property
    def _patience(self) -> float:
        """Return the seconds until the driver is looked at: no record says that it has died."""
        front = self._front
        return DRIVER_S if front is not None and needs_driver(front) else float("inf")

    async def _look_at_driver(self) -> None:
        front = self._front
        if front is None:
            return
        before = self._undriven
        self._undriven = (front.driven_at, await self._control.undriven_since(front))
        self._changed |= before[1] != self._undriven[1]

    async def _earlier(self, item: Recorded | Delta, news: LiveWatch) -> list[BaseEvent]:
        """Tell what comes before a record, and stands in another journal than that.

        The thread and the run are two journals, and a watch may hear of either first. A client
        would then show calls that led to words as calls that came after them, or the end of a run
        before the work that it has saved. A reload gives the same order: see ``agui_turn``.
        """
        if not isinstance(item, Recorded):
            return []
        store, talk = self._control.store, self._talk
        match item.event:
            case Said(run=run) if run in self._runs:
                read = await agui_turn.read_within(store, run, after=self._head(run))
                found = agui_turn.led_to(read, item.at)
            case e.RunFinished() if talk is not None:
                read = await agui_turn.read_within(store, talk.journal, after=talk.head)
                found = [record for record in read if record.at <= item.at]
            case _:
                found = []
        told: list[BaseEvent] = []
        for record in found:
            told += self._hear(record, news)
        return told

    def _hear(self, item: Recorded | Delta, news: LiveWatch) -> list[BaseEvent]:
        if isinstance(item, Delta):
            return self._narrator.hear_live(item)
        if item.position <= self._head(item.journal):
            return []  # it was read ahead of the watch
        self._fold(item)
        self._changed = True
        if isinstance(item.event, FrontChanged) and item.event.run:
            news.add(item.event.run, self._head(item.event.run))
        if (taker := self._taker()) != self._run:
            self._follow(taker, news)
        return [*self._narrate(item), *self._delivered.told(self._runs)]

    def _narrate(self, record: Recorded) -> list[BaseEvent]:
        """Tell of a record, as it is told while it happens."""
        return people_by_snapshot(self._heard(record), self._messages)

    def _heard(self, record: Recorded) -> list[BaseEvent]:
        """Hear of a record; a client of version 0 is also told what its ending cannot tell."""
        events = self._narrator.hear(record)
        match record.event:
            case e.RunFinished(outcome=Phase.CANCELLED) if self._turn.old:
                run = record.journal
                words = cancelled_words(self._runs[run])
                events += self._narrator.say(f"{run}:cancelled", words)
                events.append(CustomEvent(name=CANCELLED, value={"run": run, "text": words}))
        return events

    async def _is_behind(self) -> bool:
        """Return whether the thread holds records that have not been told yet.

        A run may be heard to end before its last words: they stand in another journal.
        """
        thread = self._turn.thread
        known = self._head(thread)
        try:
            head = (await self._control.store.row(thread)).head
        except JournalNotFound:
            return False
        if head > known:
            self._ahead[thread] = head
        return head > known

    async def _goes_on(self, news: LiveWatch) -> bool:
        """Begin another run if ours has ended without reading the messages that were sent to it.

        Return whether there is another run; it is followed from now on.
        """
        mine, talk, turn = self._runs.get(self._run), self._talk, self._turn
        if mine is None or mine.alive or talk is None:
            return False
        if not any(at in talk.unread for at in turn.sent):
            return False
        key = f"{KEY}{turn.run_id}:{self._run}"
        control, agent, who = self._control, turn.agent, turn.who
        next_one = await control.converse(agent, turn.thread, (), key=key, who=who)
        if next_one.run:
            self._follow(next_one.run, news)
        return bool(next_one.run)

    def _taker(self) -> str:
        """Return the run that has read a message of this turn, or else the run that is followed."""
        takers = (self._takers[at] for at in self._turn.sent if at in self._takers)
        return next(takers, self._run)

    def _follow(self, run: str, news: LiveWatch) -> None:
        self._run = run
        self._runs.setdefault(run, RunState(run))
        self._asked.setdefault(run, {})
        news.add(run, self._head(run))

    def _head(self, journal: str) -> int:
        state = self._talk if journal == self._turn.thread else self._runs.get(journal)
        return state.head if state is not None else 0

    # ── how it stands ────────────────────────────────────────────────────────────────────────

    @property
    def _front(self) -> RunState | None:
        """The run that the stream is about; while it is parked, the one that it was parked for."""
        mine = self._runs.get(self._run)
        if mine is None or not mine.alive or Cause.PARKED not in mine.holds:
            return mine
        front = self._talk.front if self._talk is not None else ""
        return self._runs.get(front, mine)

    def _rests(self) -> bool:
        mine, front = self._runs.get(self._run), self._front
        if self._ahead:
            return False
        if mine is None or front is None or not mine.alive:
            return True
        if self._talk is not None and is_spoken_to(self._talk, front):
            return False  # it is about to say what it does about that
        settled = not self._is_stirred or self._clock() - self._heard_at >= STIRRED_S
        return front.alive and settled and is_at_rest(front, self._asked[front.journal])

    @property
    def _is_stirred(self) -> bool:
        """Return whether the run has an answer that it waits for, and so may go on."""
        front = self._front
        return front is not None and front.phase is Phase.WAITING and front.stirred

    def _now(self) -> dict[str, Any]:
        last = max(self._runs.values(), key=lambda state: state.created_at, default=None)
        state = self._front or last
        if state is None:
            return snapshot(None, self._talk, {})
        driven = state.driven_at > self._undriven[0] or not needs_driver(state)
        since = None if driven else self._undriven[1]
        return snapshot(state, self._talk, self._asked[state.journal], since)

    def _state(self) -> BaseEvent:
        self._shown, self._shown_at, self._changed = self._now(), self._clock(), False
        return StateSnapshotEvent(snapshot=self._shown)

    def _change(self) -> list[BaseEvent]:
        now = self._now()
        changes = patch(self._shown, now)
        self._shown, self._shown_at, self._changed = now, self._clock(), False
        return [StateDeltaEvent(delta=changes)] if changes else []

    def _opening(self) -> tuple[BaseEvent, list[BaseEvent]]:
        """Return the snapshot that the stream begins with, and what is told after it.

        A client that has nothing yet is told by events what is under way: assistant-ui offers no
        button for a call, and adds nothing to words, that it knows from a snapshot alone.
        """
        if not self._turn.fresh:
            return self._messages(), self._narrator.reopen()
        living = [state.journal for state in self._runs.values() if state.alive]
        held = self._narrator.under_way(living)
        before = list(takewhile(lambda one: one.id not in held, self._narrator.messages))
        again = self._narrator.reopen(held)
        return snapshot_of(before, self._left_out), [
            *again,
            self._messages(),
        ] if held else again

    def _messages(self) -> BaseEvent:
        return snapshot_of(self._narrator.messages, self._left_out)

    async def _ending(self) -> BaseEvent:
        front, turn, result = self._front, self._turn, None
        if front is not None and front.phase is Phase.DONE:
            result = await self._control.result(front.journal)
        asked = self._asked[front.journal] if front is not None else {}
        return ending(turn.thread_id, turn.run_id, front, asked, result)
