"""One AG-UI run as a stream: a run of ours is followed until it rests, and the stream ends legally.

Who reads it decides nothing: leaving a stream cancels nothing, and what is missed is in the next.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

import anyio
import msgspec
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    MessagesSnapshotEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
)

from midflight.control import Control
from midflight.errors import JournalNotFound
from midflight.kernel import events as e
from midflight.kernel.fold import advance
from midflight.kernel.front import is_spoken_to
from midflight.kernel.phases import Cause, Phase
from midflight.kernel.record import Recorded, Who
from midflight.kernel.state import RunState
from midflight.kernel.thread import FrontChanged, ThreadState
from midflight.run import Agent
from midflight.server.agui_events import KEY, Narrator
from midflight.server.agui_resume import Receipt
from midflight.server.agui_state import ending, is_at_rest, patch, snapshot
from midflight.stores.base import Delta, LiveWatch, Query

PROTOCOL: Final = "1.0"
STATE_S: Final = 0.1  # a run may make a thousand steps a second; a person looks ten times
STIRRED_S: Final = 1.0  # what a run that waits has to go on with one of several answers
RUNS_SHOWN: Final = 50  # of a thread, newest first; of older ones only what was said
RECEIPT: Final = "midflight:receipt"
WARNING: Final = "midflight:warning"


class Turn(msgspec.Struct, frozen=True):
    """An AG-UI run: its names there, the thread and the run that it is about here.

    No run: there is nothing to do, and the stream only shows how the thread stands.
    """

    thread_id: str
    run_id: str
    thread: str
    run: str
    agent: Agent
    who: Who
    receipts: Sequence[Receipt] = ()
    warnings: Sequence[str] = ()
    sent: Sequence[int] = ()  # messages to a run that was at work already
    since: Mapping[str, int] = {}  # journal -> where it was when this turn was taken


class Story:
    """What one stream tells."""

    def __init__(self, control: Control, turn: Turn, *, heartbeat_s: float) -> None:
        self._control = control
        self._heartbeat_s = heartbeat_s
        self._turn = turn
        self._narrator = Narrator()
        self._talk: ThreadState | None = None
        self._runs: dict[str, RunState] = {}
        self._asked: dict[str, dict[int, e.QuestionOpened]] = {}
        self._shown: dict[str, Any] = {}
        self._shown_at = 0.0
        self._changed = False
        self._told = False  # whether the reader has what is open
        self._heard_at = anyio.current_time()
        self._ahead: dict[str, int] = {}  # what is on record, and may still have to be told
        self._run = turn.run
        self._takers: dict[int, str] = {}  # message -> the run that has read it
        self._delivered: dict[tuple[str, int], str] = {}

    def close(self) -> list[BaseEvent]:
        """End what the reader has as open."""
        return self._narrator.close() if self._told else []

    async def told(self) -> AsyncGenerator[BaseEvent | None]:
        """All events, from the first to the terminal one; None where nothing has happened."""
        turn = self._turn
        yield RunStartedEvent(
            thread_id=turn.thread_id, run_id=turn.run_id, protocol_version=PROTOCOL
        )
        for warning in turn.warnings:
            yield CustomEvent(name=WARNING, value=warning)
        for receipt in turn.receipts:
            yield CustomEvent(name=RECEIPT, value=msgspec.to_builtins(receipt))
        cursors = await self._look_back()
        yield self._messages()
        yield self._state()
        self._told = True
        for open_still in self._narrator.reopen():
            yield open_still
        async with self._control.watch_live(cursors) as news:
            while not self._rests() or await self._is_behind() or await self._goes_on(news):
                for event in await self._next(news):
                    yield event
        for last in (*self.close(), self._state(), self._messages(), await self._ending()):
            yield last

    # ── what was before ──────────────────────────────────────────────────────────────────────

    async def _look_back(self) -> dict[str, int]:
        """Read the thread and its runs, and give where each of them ended."""
        store, turn = self._control.store, self._turn
        rows = await store.rows(Query(thread=turn.thread, limit=RUNS_SHOWN))
        runs = [row.journal for row in rows if not row.parent]
        read = [r for journal in (turn.thread, *runs) for r in await self._read(journal)]
        self._ahead = {r.journal: r.position for r in read}
        records = [r for r in read if r.position <= turn.since.get(r.journal, r.position)]
        records.sort(key=lambda r: (r.at, r.journal != turn.thread, r.position))
        for record in records:
            self._fold(record)
            self._narrator.hear(record)
        living = [state for state in self._runs.values() if state.alive]
        cursors = {state.journal: state.head for state in living}
        self._receipts()  # what was delivered before is not told again
        return cursors | {turn.thread: self._talk.head if self._talk is not None else 0}

    async def _read(self, journal: str) -> list[Recorded]:
        found: list[Recorded] = []
        try:
            while page := await self._control.store.read(journal, after=len(found)):
                found += page
        except JournalNotFound:
            pass  # nothing was said here yet
        return found

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

    async def _next(self, news: LiveWatch) -> list[BaseEvent | None]:
        """Wait for one more thing and tell it; nothing but a sign of life if none comes."""
        longest = STIRRED_S if self._is_stirred else self._heartbeat_s
        with anyio.move_on_after(STATE_S if self._changed else longest):
            async for item in news:
                self._heard_at = anyio.current_time()
                return self._hear(item, news)
        return list(self._change()) if self._changed else [None]

    def _hear(self, item: Recorded | Delta, news: LiveWatch) -> list[BaseEvent | None]:
        if isinstance(item, Delta):
            return list(self._narrator.hear_live(item))
        self._fold(item)
        self._changed = True
        if isinstance(item.event, FrontChanged) and item.event.run:
            news.add(item.event.run, self._head(item.event.run))
        if (taker := self._taker()) != self._run:
            self._follow(taker, news)
        events = [*self._narrator.hear(item), *self._receipts()]
        if anyio.current_time() - self._shown_at >= STATE_S:
            events += self._change()
        return list(events)

    async def _is_behind(self) -> bool:
        """Whether something was said in the thread that has still to be told.

        A run may be heard to end before its last words: they stand in another journal.
        """
        thread, known = self._turn.thread, self._talk.head if self._talk is not None else 0
        try:
            head = (await self._control.store.row(thread)).head
        except JournalNotFound:
            return False
        if head > known:
            self._ahead[thread] = head
        return head > known

    async def _goes_on(self, news: LiveWatch) -> bool:
        """Whether what was said to a run that has ended meanwhile begins another one."""
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
        """The run that what was said here belongs to now."""
        takers = (self._takers[at] for at in self._turn.sent if at in self._takers)
        return next(takers, self._run)

    def _follow(self, run: str, news: LiveWatch) -> None:
        self._run = run
        self._runs.setdefault(run, RunState(run))
        self._asked.setdefault(run, {})
        news.add(run, self._head(run))

    def _head(self, run: str) -> int:
        return self._runs[run].head if run in self._runs else 0

    def _receipts(self) -> list[BaseEvent]:
        """What became of controls since the last look: accepted, applied, superseded."""
        told: list[BaseEvent] = []
        for run, state in self._runs.items():
            for position, delivery in state.deliveries.items():
                if self._delivered.get((run, position)) != delivery.status:
                    self._delivered[run, position] = delivery.status
                    told.append(
                        CustomEvent(
                            name=RECEIPT,
                            value={
                                "run": run,
                                "verb": delivery.verb,
                                "status": delivery.status,
                                "position": position,
                                "at": delivery.at,
                            },
                        )
                    )
        return told

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
        settled = not self._is_stirred or anyio.current_time() - self._heard_at >= STIRRED_S
        return front.alive and settled and is_at_rest(front, self._asked[front.journal])

    @property
    def _is_stirred(self) -> bool:
        """Whether it has one of the answers that it waits for, and may go on with that."""
        front = self._front
        return front is not None and front.phase is Phase.WAITING and front.stirred

    def _now(self) -> dict[str, Any]:
        last = max(self._runs.values(), key=lambda state: state.created_at, default=None)
        state = self._front or last
        return snapshot(state, self._talk, self._asked[state.journal] if state is not None else {})

    def _state(self) -> BaseEvent:
        self._shown, self._shown_at, self._changed = self._now(), anyio.current_time(), False
        return StateSnapshotEvent(snapshot=self._shown)

    def _change(self) -> list[BaseEvent]:
        now = self._now()
        changes = patch(self._shown, now)
        self._shown, self._shown_at, self._changed = now, anyio.current_time(), False
        return [StateDeltaEvent(delta=changes)] if changes else []

    def _messages(self) -> BaseEvent:
        return MessagesSnapshotEvent(messages=self._narrator.messages)

    async def _ending(self) -> BaseEvent:
        front, turn, result = self._front, self._turn, None
        if front is not None and front.phase is Phase.DONE:
            result = await self._control.result(front.journal)
        asked = self._asked[front.journal] if front is not None else {}
        return ending(turn.thread_id, turn.run_id, front, asked, result)
