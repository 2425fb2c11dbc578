"""Cancels runs at chosen moments, and tells the ledger when the answer is there and when the end.

    python torture_cancel.py STORE < PLANS

As a program it does so from a process of its own, which only controls and never drives.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from typing import Any, Protocol, runtime_checkable

import anyio
import anyio.lowlevel
import msgspec
from msgspec import Struct
from typing_extensions import override

from midflight.control import Control
from midflight.errors import IllegalSignal
from midflight.journal import events as e
from midflight.journal.record import Actor
from midflight.stores import open_store
from midflight.stores.protocol import RUN_PREFIX, Append, Committed, Submit
from midflight.stores.sqlite import SqliteStore
from scenarios.ledger import SOCKET, Ledger

PATIENCE_S = 0.1
MOMENT_S = 5.0  # then it is cancelled all the same, at most
CANCEL_FIRST = 0.2
OUTSIDE = Actor(by="outside")
MOMENTS = {
    "entered": (e.RunEntered,),
    "starting": (e.AttemptStarted,),  # from outside it is seen no sooner
    "started": (e.AttemptStarted,),
    "spawning": (e.ChildSpawned,),
    "spawned": (e.ChildSpawned,),
    "grown": (e.ChildSettled,),
    "settled": (e.AttemptSettled, e.StepSettled),
    "window": (e.WindowOpened, e.AttemptStarted),
    "undo": (e.UndoStarted, e.RunFinished),
}


class Meeting:
    """A beginning and a cancel that are to come to the disk together."""

    def __init__(self, moment: str, n: int) -> None:
        self.moment = moment
        self.left = n  # beginnings until it is held
        self.starting, self.asked, self.go = anyio.Event(), anyio.Event(), anyio.Event()


@runtime_checkable
class Matchmaking(Protocol):
    """A store that knows when something is about to begin."""

    async def starting(self, run: str, moment: str, n: int) -> None:
        """Wait until the n-th start or spawn of a run is about to be written down."""


class Matchmaker(SqliteStore):
    """Holds the n-th start or spawn in a tree until the cancel is there; then both go at once."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._meetings: dict[str, Meeting] = {}
        self._roots: dict[str, str] = {}
        self._chance = random.Random(1)

    async def starting(self, run: str, moment: str, n: int) -> None:
        meeting = self._meetings[run] = Meeting(moment, n)
        await meeting.starting.wait()

    def _meeting(self, journal: str) -> Meeting | None:
        return self._meetings.get(self._roots.get(journal, journal))

    @override
    async def append(self, decision: Append) -> Committed:
        for entry in decision.entries:
            starts = any(isinstance(event, e.AttemptStarted) for event in entry.events)
            if starts:
                await self._begins(self._meeting(entry.journal), "starting")
        return await super().append(decision)

    async def _begins(self, meeting: Meeting | None, moment: str) -> None:
        if meeting and meeting.moment == moment:
            meeting.left -= 1
            if meeting.left == 0:
                await self._meet(meeting)

    async def _meet(self, meeting: Meeting) -> None:
        meeting.starting.set()
        with anyio.move_on_after(PATIENCE_S):
            await meeting.asked.wait()
        if self._chance.random() < CANCEL_FIRST:
            meeting.go.set()
            await anyio.lowlevel.checkpoint()
        else:
            asyncio.get_running_loop().call_soon(meeting.go.set)

    @override
    async def submit(self, request: Submit) -> Committed:
        journal, *others = request.journals
        meeting = self._meetings.get(journal)
        spawns = others and others[0].startswith(RUN_PREFIX) and request.new
        if spawns:
            self._roots[others[0]] = self._roots.get(journal, journal)
            await self._begins(self._meeting(journal), "spawning")
        elif meeting and meeting.starting.is_set():
            meeting.asked.set()
            with anyio.move_on_after(PATIENCE_S):
                await meeting.go.wait()
        return await super().submit(request)


class Plan(Struct, frozen=True):
    """Cancel a run at the n-th event of a kind in its tree, or a little later."""

    run: str
    moment: str
    n: int = 1
    wait: float = 0.0
    turns: int = 0  # of the event loop: how far the next step is when the cancel comes
    now: bool = False
    again: bool = False  # a second cancel, with ``now``, when undoing begins
    patience: float = MOMENT_S


async def reached(control: Control, run: str, moment: str, n: int) -> None:
    if moment in {"starting", "spawning"} and isinstance(control.store, Matchmaking):
        await control.store.starting(run, moment, n)
        return
    async with control.watch(run) as news:
        async for record in news:
            if isinstance(record.event, e.ChildSpawned):
                news.add(record.event.child, 0)
            n -= isinstance(record.event, MOMENTS[moment])
            ended = record.journal == run and isinstance(record.event, e.RunFinished)
            if n <= 0 or ended:
                break


async def carry_out(control: Control, ledger: Ledger, plan: Plan) -> None:
    with anyio.move_on_after(plan.patience):
        await reached(control, plan.run, plan.moment, plan.n)
    if plan.wait:
        await anyio.sleep(plan.wait)
    for _ in range(plan.turns):
        await anyio.lowlevel.checkpoint()
    await control.cancel(plan.run, now=plan.now)
    ledger.tell("acked", plan.run)
    if plan.again:
        with anyio.move_on_after(plan.patience):
            await reached(control, plan.run, "undo", 1)
        try:
            await control.cancel(plan.run, now=True)
        except IllegalSignal:
            ledger.tell("late", plan.run)  # it had ended
    await control.ended(plan.run)
    ledger.tell("ended", plan.run)


async def main(address: str) -> None:
    ledger = Ledger(os.environ[SOCKET])
    async with open_store(address) as store, anyio.create_task_group() as tasks:
        os.write(1, b"ready\n")
        plans = asyncio.StreamReader(limit=1 << 20)
        protocol = asyncio.StreamReaderProtocol(plans)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        while line := await plans.readline():
            plan = msgspec.json.decode(line, type=Plan)
            tasks.start_soon(carry_out, Control(store, who=OUTSIDE), ledger, plan)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
