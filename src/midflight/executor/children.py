"""Background runs: begun in one decision with their parent, and one effect of it.

The parent's driver notices when a child has ended. What a cancel does to one is in ``undo_child``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from anyio.lowlevel import checkpoint
from msgspec import Raw

from midflight.errors import JournalNotFound, StepFailed
from midflight.executor import values
from midflight.executor.caps import within_caps
from midflight.executor.foreign import text
from midflight.executor.gate import still_moves
from midflight.executor.replay import Waiting
from midflight.kernel import events as e
from midflight.kernel.decide import Known, decide, scopes
from midflight.kernel.facts import record
from midflight.kernel.limits import allotment, at_cap, committed
from midflight.kernel.phases import ENDS, Mode, Phase
from midflight.kernel.record import Actor, Limits, Usage
from midflight.kernel.state import RunState
from midflight.kernel.thread import Said
from midflight.run import Agent
from midflight.stores.lookup import end_of, result_of
from midflight.stores.protocol import RUN_PREFIX, Draft, Submit, View

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

WAS_PURGED: Final = "its journal was purged, and with it what it did"


class Child:
    """A background run, as the function that spawned it sees it. See ``run.Child``."""

    def __init__(self, driver: Driver, run: str) -> None:
        self.id = run
        self._driver = driver

    @property
    def outcome(self) -> str:
        """The child's outcome as the function last learnt it, so that a replay sees the same."""
        at, outcome = self._driver.replay.children_ended.get(self.id, (math.inf, ""))
        return outcome if at <= self._driver.replay.now else ""

    async def result(self) -> Any:
        """Wait for its end and give what its function returned."""
        driver, call = self._driver, f"result:{self.id}"
        ends = driver.replay.children_ended
        await driver.course.note_call()
        course = driver.course.heard
        driver.working.waiting[call] = Waiting(call, f"the result of {self.id}", course)
        try:
            with driver.working.expecting():
                await driver.log.until(
                    lambda: (
                        (self.id in ends and not driver.replay.is_told(call))
                        or driver.course.is_told(course)
                    )
                )
        finally:
            driver.working.waiting.pop(call, None)
        driver.course.raise_if_told(course)
        driver.replay.learn(ends[self.id][0])
        try:
            state = await load_run(driver, self.id)
        except JournalNotFound:
            raise StepFailed(f"background run {self.id}", WAS_PURGED) from None
        if self.outcome != "done":
            raise StepFailed(f"background run {self.id}", state.error or self.outcome)
        ended = await end_of(driver.journals, state)
        return values.decode(await result_of(driver.journals, ended))


async def load_run(driver: Driver, run: str) -> RunState:
    """Another run, as it stands."""
    state = await driver.journals.load(run)
    assert isinstance(state, RunState)
    return state


async def spawn(
    driver: Driver,
    step: str,
    agent: Agent | str,
    brief: str,
    *,
    given: Raw,
    limits: Limits | None,
    course: int,
) -> Child:
    """Begin a background run, or find the one that this step has begun before."""
    child = f"{RUN_PREFIX}{values.digest(f'{driver.run}:{step}'.encode(), values.RUN_BYTES)}"
    wanted = limits or (agent.limits if isinstance(agent, Agent) else Limits())
    name = agent.name if isinstance(agent, Agent) else agent
    run = driver.run

    def decided(view: View) -> Draft:
        mine = view.states[run]
        assert isinstance(mine, RunState)
        now = driver.now_in_motion()  # as `within_caps` counts, or nobody would be asked
        full = at_cap(mine, now, steps=1, tool_calls=1) is not None
        if full or not still_moves(mine, driver.epoch):
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
            epoch=driver.epoch, child=child, agent=name, brief=brief, allotment=granted, step=step
        )
        return Draft({run: (*driver.wait_over(mine), spawned), child: verdict})

    known = driver.replay.claim(step) is not None
    while not known and driver.replay.claim(step) is None:
        await driver.gate.wait(course)
        if await within_caps(driver):
            covered = scopes(name, driver.log.state.thread)
            request = Submit(driver.ids(), (run, child), decided, scopes=covered, new=(child,))
            await driver.log.submit(request, unless=driver.is_stopped)
            await checkpoint()  # a store in memory answers at once, and others have their turn
    child = driver.replay.spawned[step].child
    if not known:
        driver.watch_child(child, 0)
        await driver.ensure(child)
    else:
        await adopt(driver, child)
    return Child(driver, child)


async def adopt(driver: Driver, child: str) -> None:
    """A fork waits for a child of the run before it, and answers for nothing that it does."""
    if child not in driver.replay.children_ended and child not in driver.log.state.children:
        row = await driver.journals.row(child)
        driver.watch_child(child, row.head)
        if row.phase in ENDS:
            await settle(driver, child)


async def look_after(driver: Driver) -> None:
    """Settle children that have ended since, and watch the others; done at the start of driving."""
    for child, outcome in list(driver.log.state.children.items()):
        if outcome:
            continue
        try:
            row = await driver.journals.row(child)
        except JournalNotFound:  # it has ended while nobody looked, long ago
            purged = e.ChildSettled(epoch=driver.epoch, child=child, outcome="purged")
            await driver.log.settle(purged)
            continue
        driver.watch_child(child, row.head)
        if row.phase in ENDS:
            await settle(driver, child)


async def settle(driver: Driver, child: str) -> None:
    """Write down that a child has ended, and what it spent."""
    state = await load_run(driver, child)
    if child not in driver.log.state.children:  # of the run that this one was forked from
        driver.replay.children_ended[child] = (state.at, str(state.phase))
        driver.log.stir()
        return
    spent = committed(state)
    ended = e.ChildSettled(
        epoch=driver.epoch,
        child=child,
        outcome=str(state.phase),
        usage=Usage(tokens=spent.tokens, usd=spent.usd),
        steps=spent.steps,
        tool_calls=spent.tool_calls,
        unpriced=spent.unpriced,
    )
    if state.phase is Phase.KILLED:
        await _report_killed(driver, state, ended)
    else:
        await driver.log.settle(ended)


async def _report_killed(driver: Driver, child: RunState, ended: e.ChildSettled) -> None:
    """No code of a killed run runs again, so its parent says in the thread that it has ended."""
    run, thread = driver.run, child.thread

    def decided(view: View) -> Draft:
        mine = view.states[run]
        assert isinstance(mine, RunState)
        events = record(mine, ended)
        told = Said(
            run=child.journal, text=f"Killed: {text(child.brief)}.", kind="report", to=child.parent
        )
        there = bool(events) and view.states[thread].head
        return Draft({run: events, **({thread: (told,)} if there else {})})

    await driver.log.submit(Submit(driver.ids(), (run, thread), decided, new=(thread,)))
