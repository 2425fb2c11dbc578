"""Cancels and undoes the runs below a cancelled run, and waits for the runs above it.

A child counts at its spawn: one that lives is cancelled and compensated to its end, one that has
ended is undone like any effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import anyio

from midflight.errors import JournalNotFound, Refused
from midflight.executor.children import WAS_PURGED, load_run
from midflight.executor.host import Host
from midflight.kernel import events as e
from midflight.kernel.decide import Known, decide
from midflight.kernel.facts import claim
from midflight.kernel.fold import advance
from midflight.kernel.phases import Phase
from midflight.kernel.receipt import receipt
from midflight.kernel.record import Actor
from midflight.kernel.state import RunState
from midflight.stores.base import Draft, Submit, View, Watch
from midflight.tasks import owned_tasks

UNDO_S: Final = 600.0  # what a child has to end and to undo its effects, before that is given up


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
