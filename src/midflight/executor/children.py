"""Background runs: begun in one decision with their parent, and one effect of it.

The parent's driver notices when a child has ended. For a cancel a child counts at its spawn: one
that lives is cancelled and compensated to its end, one that has ended is undone like any effect.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
from msgspec import Raw

from midflight.errors import JournalNotFound, Refused, StepFailed
from midflight.executor import values
from midflight.executor.caps import within_caps
from midflight.executor.replay import Waiting
from midflight.kernel import events as e
from midflight.kernel.decide import Known, decide, scopes
from midflight.kernel.facts import claim, record
from midflight.kernel.fold import advance
from midflight.kernel.limits import allotment, at_cap, committed
from midflight.kernel.phases import ENDS, Mode, Phase
from midflight.kernel.receipt import receipt
from midflight.kernel.record import Limits, Usage, Who
from midflight.kernel.state import RunState
from midflight.kernel.thread import Said
from midflight.run import Agent
from midflight.stores.base import RUN_PREFIX, Draft, Submit, View, Watch
from midflight.stores.waiting import end_of, result_of
from midflight.tasks import owned_tasks

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

UNDO_S: Final = 600.0  # what a child has to end and to undo its effects, before that is given up
WAS_PURGED: Final = "its journal was purged, and with it what it did"


class Child:
    """A background run, as the function that spawned it sees it. See ``run.Child``."""

    def __init__(self, driver: Driver, run: str) -> None:
        self.id = run
        self._driver = driver

    @property
    def outcome(self) -> str:
        """How it had ended when the function last learnt anything, so that replay sees the same."""
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
            state = await _load(driver, self.id)
        except JournalNotFound:
            raise StepFailed(f"background run {self.id}", WAS_PURGED) from None
        if self.outcome != "done":
            raise StepFailed(f"background run {self.id}", state.error or self.outcome)
        ended = await end_of(driver.store, state)
        return values.decode(await result_of(driver.store, ended))


async def _load(driver: Driver, run: str) -> RunState:
    state = await driver.store.load(run)
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
    child = f"{RUN_PREFIX}{values.digest(f'{driver.run}:{step}'.encode())}"
    wanted = limits or (agent.limits if isinstance(agent, Agent) else Limits())
    name = agent.name if isinstance(agent, Agent) else agent
    run = driver.run

    def decided(view: View) -> Draft:
        mine = view.states[run]
        assert isinstance(mine, RunState)
        full = at_cap(mine, view.now, steps=1, tool_calls=1) is not None
        if full or not driver.still_moves(mine):
            return Draft()
        granted = allotment(mine, view.now, wanted)
        created = e.RunCreated(
            who=Who(by=run),
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
        await driver.gate(course)
        if await within_caps(driver):
            covered = scopes(name, driver.log.state.thread)
            await driver.store.submit(
                Submit(driver.ids(), (run, child), decided, scopes=covered, new=(child,))
            )
            await driver.log.catch_up()
    child = driver.replay.spawned[step].child
    if not known:
        driver.watch_child(child, 0)
        await driver.ensure(child)
    elif child not in driver.log.state.children:
        await _adopt(driver, child)
    return Child(driver, child)


async def _adopt(driver: Driver, child: str) -> None:
    """A fork waits for a child of the run before it, and answers for nothing that it does."""
    if child not in driver.replay.children_ended:
        row = await driver.store.row(child)
        driver.watch_child(child, row.head)
        if row.phase in ENDS:
            await settle(driver, child)


async def look_after(driver: Driver) -> None:
    """At the start of driving: children that have ended since, and those to be waited for."""
    for child, outcome in list(driver.log.state.children.items()):
        if outcome:
            continue
        try:
            row = await driver.store.row(child)
        except JournalNotFound:  # it has ended while nobody looked, long ago
            purged = e.ChildSettled(epoch=driver.epoch, child=child, outcome="purged")
            await driver.log.settle(purged)
            continue
        driver.watch_child(child, row.head)
        if row.phase in ENDS:
            await settle(driver, child)


async def settle(driver: Driver, child: str) -> None:
    """Write down that a child has ended, and what it spent."""
    state = await _load(driver, child)
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
            run=child.journal, text=f"Killed: {child.brief}.", kind="report", to=child.parent
        )
        there = bool(events) and view.states[thread].head
        return Draft({run: events, **({thread: (told,)} if there else {})})

    await driver.store.submit(Submit(driver.ids(), (run, thread), decided, new=(thread,)))
    await driver.log.catch_up()


# ── undoing a child ──────────────────────────────────────────────────────────────────────────


async def undo_child(driver: Driver, child: str) -> tuple[bool, str]:
    """Cancel it if it lives, undo what it did if it has ended; whether all of it is undone."""
    who = driver.log.state.ended_by or Who(by=driver.run)
    key = f"undo:{driver.run}"
    try:
        with anyio.fail_after(UNDO_S):
            state = await _load(driver, child)
            if state.alive:
                state = await _ask(driver, child, e.CancelRequested(who=who, key=key))
                state = await _until(driver, await _end_unborn(driver, state), ended=True)
            elif any(effect.can_be_undone for effect in state.effects.values()):
                state = await _ask(
                    driver, child, e.UndoRequested(who=who, key=f"{key}:{state.head}")
                )
            state = await _until(driver, state, ended=False)
    except TimeoutError:
        return False, f"it did not end within {UNDO_S:g} s"
    except JournalNotFound:
        return False, WAS_PURGED
    left = [
        line.text
        for line in receipt(state).lines
        if line.word not in {"undone", "not started", "aborted"}
    ]
    return not left, "; ".join(left[:3])


async def _end_unborn(driver: Driver, child: RunState) -> RunState:
    """A child whose function was never called has nothing to undo, so anybody may end it."""

    def decided(view: View) -> Draft:
        state = view.states[child.journal]
        assert isinstance(state, RunState)
        if state.phase is not Phase.CANCELLING or state.entered or state.driver:
            return Draft()
        claimed = claim(state, driver.lease.driver, lease_gone=True)
        epoch = state.epoch + 1
        ended = e.RunFinished(epoch=epoch, outcome="cancelled")
        left = e.DriverReleased(epoch=epoch, why="never begun")
        return Draft({child.journal: (*claimed, ended, left)})

    await driver.store.submit(Submit(driver.ids(), (child.journal,), decided))
    return await _load(driver, child.journal)


async def await_turn(driver: Driver) -> None:
    """A cancelled child undoes nothing before what its parent did after the spawn is undone."""
    child, state = await _above(driver)
    if state is None:
        return

    def goes_first() -> bool:
        mine = next((x for x in state.effects.values() if x.child == child), None)
        covers = state.phase is Phase.CANCELLING and state.cancel_tree and not state.cancel_now
        return covers and mine is not None and not mine.undo and mine.undone is None

    def its_turn() -> bool:
        return driver.lost or driver.log.state.cancel_now or not goes_first()

    async def listen(news: Watch) -> None:
        async for told in news:
            advance(state, told)
            driver.log.stir()

    async with driver.store.watch({state.journal: state.head}) as news, owned_tasks() as tasks:
        tasks.start_soon(listen, news)
        await driver.log.until(its_turn)


async def _above(driver: Driver) -> tuple[str, RunState | None]:
    """The nearest run above that lives, and which of its children leads to this one."""
    child, parent = driver.run, driver.log.state.parent
    try:
        while parent:
            state = await _load(driver, parent)
            if state.alive:
                return child, state
            child, parent = parent, state.parent
    except JournalNotFound:
        pass  # it has ended long ago, and was purged
    return child, None


async def await_all(driver: Driver) -> None:
    """Nobody below acts any more. Those who were cancelled in a hurry end by themselves.

    Also those below a child that has ended: it may have left them at work.
    """
    state = driver.log.state
    effects = state.effects.values() if state.cancel_tree else ()
    unseen = [effect.child for effect in effects if effect.child and effect.undone is None]
    with anyio.move_on_after(UNDO_S):
        while unseen and not driver.lost:
            with suppress(JournalNotFound):  # it has ended long ago, and was purged
                below = await _end_unborn(driver, await _load(driver, unseen.pop()))
                unseen += (await _until(driver, below, ended=True)).children


async def _ask(
    driver: Driver, child: str, request: e.CancelRequested | e.UndoRequested
) -> RunState:
    def decided(view: View) -> Draft:
        state = view.states[child]
        try:
            verdict = decide(state, request)
        except Refused:
            return Draft()  # it is there already
        return Draft() if isinstance(verdict, Known) else Draft({child: verdict})

    await driver.store.submit(Submit(driver.ids(), (child,), decided))
    await driver.ensure(child)
    return await _load(driver, child)


async def _until(driver: Driver, state: RunState, *, ended: bool) -> RunState:
    """Wait until it has ended, or until nothing more of it is to be undone."""

    def there() -> bool:
        return not state.alive if ended else not (state.undo_wanted or state.undos)

    async with driver.store.watch({state.journal: state.head}) as news:
        if not there():
            async for told in news:
                advance(state, told)
                if there():
                    break
    return state
