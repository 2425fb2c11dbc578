"""Cancels runs at chosen moments, and tells the ledger when the answer is there and when the end.

    python torture_cancel.py STORE < PLANS

As a program it does so from a process of its own, which only controls and never drives.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
from msgspec import Struct
from typing_extensions import override

from midflight.control import Control
from midflight.errors import IllegalSignal
from midflight.kernel import events as e
from midflight.kernel.record import Who
from midflight.stores.base import Append, Committed, Submit
from midflight.stores.opening import open_store
from midflight.stores.sqlite import SqliteStore
from scenarios.ledger import SOCKET, Ledger

PATIENCE_S = 0.1
CANCEL_FIRST = 0.2
OUTSIDE = Who(by="outside")
MOMENTS = {
    "entered": (e.RunEntered,),
    "starting": (e.AttemptStarted,),  # from outside it is seen no sooner
    "started": (e.AttemptStarted,),
    "settled": (e.AttemptSettled, e.StepSettled),
    "window": (e.WindowOpened, e.AttemptStarted),
    "undo": (e.UndoStarted, e.RunFinished),
}


class Meeting:
    """A start and a cancel that are to come to the disk together."""

    def __init__(self, n: int) -> None:
        self.left = n  # starts until it is held
        self.starting, self.asked, self.go = anyio.Event(), anyio.Event(), anyio.Event()


class Matchmaker(SqliteStore):
    """Holds the n-th start of a run until its cancel is there, then lets both go at once."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._meetings: dict[str, Meeting] = {}
        self._chance = random.Random(1)

    async def starting(self, run: str, n: int) -> None:
        meeting = self._meetings[run] = Meeting(n)
        await meeting.starting.wait()

    @override
    async def append(self, decision: Append) -> Committed:
        for entry in decision.entries:
            meeting = self._meetings.get(entry.journal)
            if meeting and any(isinstance(event, e.AttemptStarted) for event in entry.events):
                meeting.left -= 1
                if meeting.left == 0:
                    await self._meet(meeting)
        return await super().append(decision)

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
        meeting = self._meetings.get(request.journals[0])
        if meeting and meeting.starting.is_set():
            meeting.asked.set()
            with anyio.move_on_after(PATIENCE_S):
                await meeting.go.wait()
        return await super().submit(request)


class Plan(Struct, frozen=True):
    """Cancel a run at the n-th event of a kind, or a little later."""

    run: str
    moment: str
    n: int = 1
    wait: float = 0.0
    turns: int = 0  # of the event loop: how far the next step is when the cancel comes
    now: bool = False
    again: bool = False  # a second cancel, with ``now``, when undoing begins


async def reached(control: Control, run: str, moment: str, n: int) -> None:
    if moment == "starting" and isinstance(control.store, Matchmaker):
        await control.store.starting(run, n)
        return
    async with control.watch(run) as news:
        async for record in news:
            n -= isinstance(record.event, MOMENTS[moment])
            if n <= 0 or isinstance(record.event, e.RunFinished):
                break


async def carry_out(control: Control, ledger: Ledger, plan: Plan) -> None:
    await reached(control, plan.run, plan.moment, plan.n)
    if plan.wait:
        await anyio.sleep(plan.wait)
    for _ in range(plan.turns):
        await anyio.lowlevel.checkpoint()
    await control.cancel(plan.run, now=plan.now)
    ledger.tell("acked", plan.run)
    if plan.again:
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
