"""Cancel, to the end: abort, settle, undo, save; and only then say that it is cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from midflight.executor.undo import compensate
from midflight.kernel import events as e
from midflight.kernel.phases import Phase
from midflight.kernel.record import Event
from midflight.kernel.state import RunState
from midflight.kernel.thread import Said
from midflight.run import Stopped
from midflight.stores.base import Draft, Submit, View

if TYPE_CHECKING:
    from midflight.executor.drive import Driver


async def cancel(driver: Driver) -> None:
    """See the module. Comes back early when the run is not ours any more."""
    driver.tell(Stopped("the run was cancelled"))
    await _settle(driver)
    if driver.lost:
        return
    await driver.function.unwind()
    await compensate(driver)
    await _save(driver)

    def cancelled(state: RunState) -> list[Event]:
        if state.phase is not Phase.CANCELLING or driver.lost:
            return []
        return [
            e.RunFinished(epoch=driver.epoch, outcome="cancelled"),
            e.DriverReleased(epoch=driver.epoch, why="cancelled"),
        ]

    if await driver.log.decide(cancelled):
        driver.over = True


async def _settle(driver: Driver) -> None:
    """Everything in flight has an outcome on record, however long that takes."""
    while (driver.steps or not driver.quiet) and not driver.lost:
        now = driver.log.state.cancel_now
        if driver.agent.mode == "immediate" or now:
            driver.abort("cancelled", effects=True)
        await driver.log.until(_changed(driver, len(driver.steps), now))


def _changed(driver: Driver, steps: int, now: bool) -> Callable[[], bool]:
    def changed() -> bool:
        escalated = driver.log.state.cancel_now != now
        return len(driver.steps) != steps or escalated or driver.lost

    return changed


async def _save(driver: Driver) -> None:
    """Put what was done so far into the thread, in one append with the run's own note."""
    state, run = driver.log.state, driver.run
    if state.saved:
        return
    done = [record.name for record in driver.replay.records.values() if not record.error]
    what = (f"results of {len(done)} steps: {', '.join(done)}",) if done else ()
    if not what:
        return

    def saved(view: View) -> Draft:
        mine = view.states[run]
        assert isinstance(mine, RunState)
        if mine.epoch != driver.epoch or mine.phase is not Phase.CANCELLING:
            return Draft()
        said = Said(run=run, text=f"Cancelled. Kept: {what[0]}.", kind="partial")
        note = e.WorkSaved(epoch=driver.epoch, what=what)
        thread = {state.thread: (said,)} if view.states[state.thread].head else {}
        return Draft({run: (note,), **thread})

    both = (run, state.thread)
    await driver.store.submit(Submit(driver.ids(), both, saved, new=(state.thread,)))
    driver.look_again()
