"""Background runs: begun in one decision with their parent, and one effect of it.

The parent's driver notices when a child has ended. For a cancel a child counts at its spawn: one
that lives is cancelled and compensated to its end, one that has ended is undone like any effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
from msgspec import Raw

from midflight.errors import Refused, StepFailed
from midflight.executor import values
from midflight.kernel import events as e
from midflight.kernel.decide import Known, decide, scopes
from midflight.kernel.fold import advance
from midflight.kernel.limits import allotment
from midflight.kernel.phases import ENDS, Mode, Phase
from midflight.kernel.receipt import receipt
from midflight.kernel.record import Limits, Recorded, Usage, Who
from midflight.kernel.state import RunState
from midflight.run import Agent
from midflight.stores.base import RUN_PREFIX, Draft, Submit, View

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

UNDO_S = 600.0  # what a child has to end and to undo its effects, before that is given up


class Child:
    """A background run, as the function that spawned it sees it. See ``run.Child``."""

    def __init__(self, driver: Driver, run: str, course: int) -> None:
        self.id = run
        self._driver = driver
        self._course = course

    @property
    def outcome(self) -> str:
        """How it has ended: done, failed, cancelled, killed; empty while it lives."""
        driver = self._driver
        return driver.log.state.children.get(self.id) or driver.adopted.get(self.id, "")

    async def result(self) -> Any:
        """Wait for its end and give what its function returned."""
        driver = self._driver
        await driver.log.until(
            lambda: bool(self.outcome) or driver.told is not None or driver.course != self._course
        )
        driver.raise_if_told(self._course)
        for record in reversed(await _last(driver, self.id)):
            event = record.event
            if isinstance(event, e.RunFinished) and self.outcome == "done":
                blob = event.blob
                return values.decode(
                    await driver.store.blob(blob.hash) if blob else bytes(event.result)
                )
        state = await _load(driver, self.id)
        raise StepFailed(f"background run {self.id}", state.error or self.outcome)


async def _last(driver: Driver, run: str) -> list[Recorded]:
    row = await driver.store.row(run)
    return await driver.store.read(run, after=max(0, row.head - 50))


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
    if (before := driver.replay.spawned.get(step)) is not None:
        if before.child not in driver.log.state.children:
            await _adopt(driver, before.child)
        return Child(driver, before.child, course)
    child = f"{RUN_PREFIX}{values.digest(f'{driver.run}:{step}'.encode())}"
    wanted = limits or (agent.limits if isinstance(agent, Agent) else Limits())
    name = agent.name if isinstance(agent, Agent) else agent
    run = driver.run

    def decided(view: View) -> Draft:
        mine = view.states[run]
        assert isinstance(mine, RunState)
        stopped = mine.phase is not Phase.RUNNING or mine.pending or mine.epoch != driver.epoch
        if stopped:
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
        return Draft({run: (spawned,), child: verdict})

    while step not in driver.replay.spawned:
        await driver.gate(course)
        covered = scopes(name, driver.log.state.thread)
        await driver.store.submit(
            Submit(driver.ids(), (run, child), decided, scopes=covered, new=(child,))
        )
        await driver.log.catch_up()
    driver.watch_child(child, 0)
    await driver.ensure(child)
    return Child(driver, child, course)


async def _adopt(driver: Driver, child: str) -> None:
    """A fork waits for a child of the run before it, and answers for nothing that it does."""
    row = await driver.store.row(child)
    driver.adopted[child] = row.phase if row.phase in ENDS else ""
    if not driver.adopted[child]:
        driver.watch_child(child, row.head)


async def look_after(driver: Driver) -> None:
    """At the start of driving: children that have ended since, and those to be waited for."""
    for child, outcome in list(driver.log.state.children.items()):
        if not outcome:
            row = await driver.store.row(child)
            driver.watch_child(child, row.head)
            if row.phase in ENDS:
                await settle(driver, child)


async def settle(driver: Driver, child: str) -> None:
    """Write down that a child has ended, and what it spent."""
    state = await _load(driver, child)
    spent = state.spent
    if child in driver.adopted:
        driver.adopted[child] = str(state.phase)
        driver.log.stir()
        return
    await driver.log.settle(
        e.ChildSettled(
            epoch=driver.epoch,
            child=child,
            outcome=str(state.phase),
            usage=Usage(tokens=spent.tokens, usd=None if spent.unpriced else spent.usd),
            steps=spent.steps,
            tool_calls=spent.tool_calls,
        )
    )


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
                state = await _until(driver, state, ended=True)
            if any(effect.can_be_undone for effect in state.effects.values()):
                state = await _ask(
                    driver, child, e.UndoRequested(who=who, key=f"{key}:{state.head}")
                )
            state = await _until(driver, state, ended=False)
    except TimeoutError:
        return False, f"it did not end within {UNDO_S:g} s"
    left = [
        line.text
        for line in receipt(state).lines
        if line.word not in {"undone", "not started", "aborted"}
    ]
    return not left, "; ".join(left[:3])


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
            async for record in news:
                advance(state, record)
                if there():
                    break
    return state
