"""Background runs: begun in one decision with their parent, and one effect of it.

The parent's driver notices when a child has ended. A child counts at its spawn: when the parent is
cancelled, one that lives is cancelled and compensated to its end, and one that has ended is undone
like any effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, cast

import anyio
from anyio.lowlevel import checkpoint
from msgspec import Raw

from midflight.agents import Agent
from midflight.errors import JournalNotFound, Refused, StepFailed
from midflight.journal import events as e
from midflight.journal.facts import claim, record
from midflight.journal.fold import advance
from midflight.journal.limits import allotment, at_cap, committed
from midflight.journal.phases import ENDS, Mode, Phase
from midflight.journal.record import Actor, Limits, Recorded, Usage
from midflight.journal.requests import Known, decide, scopes
from midflight.journal.state import RunState
from midflight.journal.status import receipt
from midflight.journal.threads.thread import Said
from midflight.run import ChildOutcome
from midflight.runtime import values
from midflight.runtime.foreign import text
from midflight.runtime.host import Host
from midflight.runtime.in_flight import Waiting
from midflight.runtime.signals import still_moves
from midflight.runtime.steps.budget import within_caps
from midflight.stores.lookup import end_of, result_of
from midflight.stores.protocol import RUN_PREFIX, Draft, Submit, View, Watch
from midflight.tasks import owned_tasks

WAS_PURGED: Final = "its journal was purged, and with it what it did"
UNDO_S: Final = 600.0  # seconds for a child to end and undo its effects, before the parent gives up


class Child:
    """A background run, as the function that spawned it sees it. See ``run.Child``."""

    def __init__(self, host: Host, run: str) -> None:
        self.id = run
        self._host = host

    @property
    def outcome(self) -> ChildOutcome:
        """The child's outcome as the function last learnt it, so that a replay sees the same."""
        at, outcome = self._host.history.children_ended.get(self.id, (math.inf, ""))
        return cast("ChildOutcome", outcome) if at <= self._host.history.now else ""

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
    journal, run = host.journal, host.journal.run
    child = f"{RUN_PREFIX}{values.digest(f'{run}:{step}'.encode(), values.RUN_BYTES)}"
    wanted = limits or (agent.limits if isinstance(agent, Agent) else Limits())
    name = agent.name if isinstance(agent, Agent) else agent

    def decided(view: View) -> Draft:
        mine = view.states[run]
        assert isinstance(mine, RunState)
        now = journal.clock.in_motion()  # as `within_caps` counts, or nobody would be asked
        full = at_cap(mine, now, steps=1, tool_calls=1) is not None
        if full or not still_moves(mine, journal.epoch):  # layer child-begins-under-same-lock-under
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
            epoch=journal.epoch, child=child, agent=name, brief=brief, allotment=granted, step=step
        )
        return Draft({run: (*journal.wait_over(mine), spawned), child: verdict})

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
        host.journal.watch_also(child, 0, partial(_hear, host))
        await host.ensure(child)
    else:
        await adopt(host, child)
    return Child(host, child)


async def adopt(host: Host, child: str) -> None:
    """A fork waits for a child of the run before it, and answers for nothing that it does."""
    if child not in host.history.children_ended and child not in host.journal.state.children:
        row = await host.journal.client.row(child)
        host.journal.watch_also(child, row.head, partial(_hear, host))
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
        host.journal.watch_also(child, row.head, partial(_hear, host))
        if row.phase in ENDS:
            await settle(host, child)


def _hear(host: Host, record: Recorded) -> None:
    if isinstance(record.event, e.RunFinished | e.Killed):
        host.tasks.begin(settle, host, record.journal)


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


class ChildTime:
    """The rest of the time that children have to end and to undo.

    Only waiting for a child counts. Waiting for a store that is away does not: the child may not
    even have been asked yet.
    """

    def __init__(self) -> None:
        self._left = UNDO_S

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the time inside the block. Raises TimeoutError when nothing is left."""
        began = anyio.current_time()
        try:
            with anyio.fail_after(self._left):
                yield
        finally:
            self._left -= anyio.current_time() - began


async def undo_child(host: Host, child: str) -> tuple[bool, str]:
    """Cancel it if it lives, undo what it did if it has ended; return whether all is undone."""
    who = host.journal.state.ended_by or Actor(by=host.journal.run)
    key = f"undo:{host.journal.run}"
    time = ChildTime()
    try:
        state = await load_run(host, child)
        if state.alive:
            state = await _ask(host, child, e.CancelRequested(who=who, key=key))
            state = await _until(host, await _end_unborn(host, state), time, ended=True)
        elif any(effect.can_be_undone for effect in state.effects.values()):
            state = await _ask(host, child, e.UndoRequested(who=who, key=f"{key}:{state.head}"))
        state = await _until(host, state, time, ended=False)
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


async def _end_unborn(host: Host, child: RunState) -> RunState:
    """End a child whose function was never called: it has nothing to undo, so anybody may."""

    def decided(view: View) -> Draft:
        state = view.states[child.journal]
        assert isinstance(state, RunState)
        if state.phase is not Phase.CANCELLING or state.entered or state.driver:
            return Draft()
        claimed = claim(state, host.lease.driver, lease_gone=True)
        epoch = state.epoch + 1
        ended = e.RunFinished(epoch=epoch, outcome="cancelled")
        left = e.DriverReleased(epoch=epoch, why="never begun")
        return Draft({child.journal: (*claimed, ended, left)})

    await _submit(host, Submit(host.ids(), (child.journal,), decided))
    return await load_run(host, child.journal)


async def await_turn(host: Host) -> None:
    """Wait, in a cancelled child, until what its parent did after the spawn is undone."""
    child, state = await _above(host)
    if state is None:
        return

    def goes_first() -> bool:
        mine = next((x for x in state.effects.values() if x.child == child), None)
        covers = state.phase is Phase.CANCELLING and state.cancel_tree and not state.cancel_now
        return covers and mine is not None and not mine.undo and mine.undone is None

    def its_turn() -> bool:
        return host.journal.lost or host.journal.state.cancel_now or not goes_first()

    async def listen(news: Watch) -> None:
        async for told in news:
            advance(state, told)
            host.journal.stir()

    async with (
        host.journal.client.watch({state.journal: state.head}) as news,
        owned_tasks() as tasks,
    ):
        tasks.start_soon(listen, news)
        await host.journal.until(its_turn)


async def _above(host: Host) -> tuple[str, RunState | None]:
    """Return the nearest run above that lives, and which of its children leads to this one."""
    child, parent = host.journal.run, host.journal.state.parent
    try:
        while parent:
            state = await load_run(host, parent)
            if state.alive:
                return child, state
            child, parent = parent, state.parent
    except JournalNotFound:
        pass  # it has ended long ago, and was purged
    return child, None


async def await_all(host: Host) -> None:
    """Wait until no run below acts any more. Those cancelled in a hurry end by themselves.

    Runs below a child that has ended count, too: it may have left them at work.
    """
    state = host.journal.state
    effects = state.effects.values() if state.cancel_tree else ()
    unseen = [effect.child for effect in effects if effect.child and effect.undone is None]
    time = ChildTime()
    with suppress(TimeoutError):
        while unseen and not host.journal.lost:
            with suppress(JournalNotFound):  # it has ended long ago, and was purged
                below = await _end_unborn(host, await load_run(host, unseen.pop()))
                # layer cancel-waits-for-those-whom-child
                unseen += (await _until(host, below, time, ended=True)).children


async def _ask(host: Host, child: str, request: e.CancelRequested | e.UndoRequested) -> RunState:
    def decided(view: View) -> Draft:
        state = view.states[child]
        try:
            verdict = decide(state, request)
        except Refused:
            return Draft()  # it is there already
        return Draft() if isinstance(verdict, Known) else Draft({child: verdict})

    await _submit(host, Submit(host.ids(), (child,), decided))
    await host.ensure(child)
    return await load_run(host, child)


async def _submit(host: Host, request: Submit) -> None:
    await host.journal.client.submit(request, unless=lambda: host.journal.lost)


async def _until(host: Host, state: RunState, time: ChildTime, *, ended: bool) -> RunState:
    """Wait until it has ended, or until nothing more of it is to be undone."""

    def there() -> bool:
        return not state.alive if ended else not (state.undos or state.still_to_undo)

    with time.counted():
        async with host.journal.client.watch({state.journal: state.head}) as news:
            if not there():
                async for told in news:
                    advance(state, told)
                    if there():
                        break
    return state
