"""Background runs: begun in one decision with their parent, and one effect of it.

The parent's driver notices when a child has ended. What a cancel does to one is in ``undo_child``.
"""

from __future__ import annotations

import math
from typing import Any, Final

from anyio.lowlevel import checkpoint
from msgspec import Raw

from midflight.errors import JournalNotFound, StepFailed
from midflight.executor import values
from midflight.executor.caps import within_caps
from midflight.executor.foreign import text
from midflight.executor.gate import still_moves
from midflight.executor.host import Host
from midflight.executor.in_flight import Waiting
from midflight.kernel import events as e
from midflight.kernel.decide import Known, decide, scopes
from midflight.kernel.facts import record
from midflight.kernel.limits import allotment, at_cap, committed
from midflight.kernel.phases import ENDS, Mode, Phase
from midflight.kernel.record import Actor, Limits, Usage
from midflight.kernel.state import RunState
from midflight.kernel.thread import Said
from midflight.run import Agent
from midflight.stores.base import RUN_PREFIX, Draft, Submit, View
from midflight.stores.waiting import end_of, result_of

WAS_PURGED: Final = "its journal was purged, and with it what it did"


class Child:
    """A background run, as the function that spawned it sees it. See ``run.Child``."""

    def __init__(self, host: Host, run: str) -> None:
        self.id = run
        self._host = host

    @property
    def outcome(self) -> str:
        """The child's outcome as the function last learnt it, so that a replay sees the same."""
        at, outcome = self._host.history.children_ended.get(self.id, (math.inf, ""))
        return outcome if at <= self._host.history.now else ""

    async def result(self) -> Any:
        """Wait for its end and give what its function returned."""
        host, call = self._host, f"result:{self.id}"
        ends = host.history.children_ended
        await host.signals.note_call()
        course = host.signals.heard
        waiting = Waiting(call, f"the result of {self.id}", course)
        with host.in_flight.call(waiting), host.in_flight.expecting():
            await host.journal.until(
                lambda: (
                    (self.id in ends and not host.history.is_told(call))
                    or host.signals.is_told(course)
                )
            )
        host.signals.raise_if_told(course)
        host.history.learn(ends[self.id][0])
        try:
            state = await load_run(host, self.id)
        except JournalNotFound:
            raise StepFailed(f"background run {self.id}", WAS_PURGED) from None
        if self.outcome != "done":
            raise StepFailed(f"background run {self.id}", state.error or self.outcome)
        ended = await end_of(host.journal.client, state)
        return values.decode(await result_of(host.journal.client, ended))


async def load_run(host: Host, run: str) -> RunState:
    """Another run, as it stands."""
    state = await host.journal.client.load(run)
    assert isinstance(state, RunState)
    return state


async def spawn(
    host: Host,
    step: str,
    agent: Agent | str,
    brief: str,
    *,
    given: Raw,
    limits: Limits | None,
    course: int,
) -> Child:
    """Begin a background run, or find the one that this step has begun before."""
    child = f"{RUN_PREFIX}{values.digest(f'{host.journal.run}:{step}'.encode(), values.RUN_BYTES)}"
    wanted = limits or (agent.limits if isinstance(agent, Agent) else Limits())
    name = agent.name if isinstance(agent, Agent) else agent
    run = host.journal.run

    def decided(view: View) -> Draft:
        mine = view.states[run]
        assert isinstance(mine, RunState)
        now = host.journal.clock.in_motion()  # as `within_caps` counts, or nobody would be asked
        full = at_cap(mine, now, steps=1, tool_calls=1) is not None
        if full or not still_moves(mine, host.journal.epoch):
            return Draft()
        granted = allotment(mine, now, wanted)
        created = e.RunCreated(
            who=Actor(by=run),
            agent=name,
            thread=mine.thread,
            brief=brief,
            input=given,
            mode=Mode(agent.mode) if isinstance(agent, Agent) else Mode.IMMEDIATE,
            limits=granted,
            parent=run,
        )
        verdict = decide(view.states[child], created, switches=view.switches)
        assert not isinstance(verdict, Known)
        spawned = e.ChildSpawned(
            epoch=host.journal.epoch,
            child=child,
            agent=name,
            brief=brief,
            allotment=granted,
            step=step,
        )
        return Draft({run: (*host.journal.wait_over(mine), spawned), child: verdict})

    known = host.history.claim(step) is not None
    while not known and host.history.claim(step) is None:
        await host.gate.wait(course)
        if await within_caps(host):
            covered = scopes(name, host.journal.state.thread)
            request = Submit(host.ids(), (run, child), decided, scopes=covered, new=(child,))
            await host.journal.submit(request, unless=host.signals.is_stopped)
            await checkpoint()  # a store in memory answers at once, and others have their turn
    child = host.history.spawned[step].child
    if not known:
        host.journal.watch_child(child, 0)
        await host.ensure(child)
    elif child not in host.journal.state.children:
        await _adopt(host, child)
    return Child(host, child)


async def _adopt(host: Host, child: str) -> None:
    """A fork waits for a child of the run before it, and answers for nothing that it does."""
    if child not in host.history.children_ended:
        row = await host.journal.client.row(child)
        host.journal.watch_child(child, row.head)
        if row.phase in ENDS:
            await settle(host, child)


async def look_after(host: Host) -> None:
    """Settle children that have ended since, and watch the others; done at the start of driving."""
    for child, outcome in list(host.journal.state.children.items()):
        if outcome:
            continue
        try:
            row = await host.journal.client.row(child)
        except JournalNotFound:  # it has ended while nobody looked, long ago
            purged = e.ChildSettled(epoch=host.journal.epoch, child=child, outcome="purged")
            await host.journal.settle(purged)
            continue
        host.journal.watch_child(child, row.head)
        if row.phase in ENDS:
            await settle(host, child)


async def settle(host: Host, child: str) -> None:
    """Write down that a child has ended, and what it spent."""
    state = await load_run(host, child)
    if child not in host.journal.state.children:  # of the run that this one was forked from
        host.history.child_ended(child, state.at, str(state.phase))
        host.journal.stir()
        return
    spent = committed(state)
    ended = e.ChildSettled(
        epoch=host.journal.epoch,
        child=child,
        outcome=str(state.phase),
        usage=Usage(tokens=spent.tokens, usd=spent.usd),
        steps=spent.steps,
        tool_calls=spent.tool_calls,
        unpriced=spent.unpriced,
    )
    if state.phase is Phase.KILLED:
        await _report_killed(host, state, ended)
    else:
        await host.journal.settle(ended)


async def _report_killed(host: Host, child: RunState, ended: e.ChildSettled) -> None:
    """No code of a killed run runs again, so its parent says in the thread that it has ended."""
    run, thread = host.journal.run, child.thread

    def decided(view: View) -> Draft:
        mine = view.states[run]
        assert isinstance(mine, RunState)
        events = record(mine, ended)
        told = Said(
            run=child.journal, text=f"Killed: {text(child.brief)}.", kind="report", to=child.parent
        )
        there = bool(events) and view.states[thread].head
        return Draft({run: events, **({thread: (told,)} if there else {})})

    await host.journal.submit(Submit(host.ids(), (run, thread), decided, new=(thread,)))
