"""Cancel, to the end: abort, settle, undo, save; and only then say that it is cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from midflight.executor import values
from midflight.executor.front import end
from midflight.executor.undo import compensate
from midflight.executor.undo_child import await_all, await_turn
from midflight.kernel import events as e
from midflight.kernel.phases import Phase
from midflight.kernel.record import NULL, Event
from midflight.kernel.state import RunState
from midflight.kernel.thread import Said
from midflight.run import Stopped
from midflight.stores.base import Draft, Submit, View

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

FEW: Final = 8  # names in a line that a person reads
RESULTS_MAX: Final = 20  # results that are shown in the thread
RESULT_MAX: Final = 500  # characters of each
TEXT_MAX: Final = 32 * 1024  # characters of a step's text that go into the thread


async def cancel(driver: Driver) -> None:
    """See the module. Comes back early when the run is not ours any more."""
    driver.course.tell(Stopped("the run was cancelled"))
    await driver.attention.stop("cancelled")
    await _settle(driver)
    if driver.lost:
        return
    await driver.function.unwind()
    await await_turn(driver)
    await compensate(driver)
    await await_all(driver)
    await _save(driver)

    def cancelled(state: RunState) -> list[Event]:
        if state.phase is not Phase.CANCELLING or driver.lost:
            return []
        return [
            e.RunFinished(epoch=driver.epoch, outcome="cancelled"),
            e.DriverReleased(epoch=driver.epoch, why="cancelled"),
        ]

    if await end(driver, cancelled):
        driver.over = True


async def _settle(driver: Driver) -> None:
    """Everything in flight has an outcome on record, however long that takes.

    It was aborted, where it may be, as the driver heard of the cancel.
    """
    await driver.log.until(
        lambda: driver.lost or (driver.working.quiet and not driver.working.steps)
    )


async def _save(driver: Driver) -> None:
    """Put what was done so far into the thread, in one append with the run's own note."""
    state, run = driver.log.state, driver.run
    what = () if state.saved else tuple(_partial_work(driver))
    if not what:
        return

    def saved(view: View) -> Draft:
        mine = view.states[run]
        assert isinstance(mine, RunState)
        if mine.epoch != driver.epoch or mine.phase is not Phase.CANCELLING:
            return Draft()
        said = Said(run=run, text=_told(driver, what), kind="partial")
        note = e.WorkSaved(epoch=driver.epoch, what=what)
        thread = {state.thread: (said,)} if view.states[state.thread].head else {}
        return Draft({run: (note,), **thread})

    both = (run, state.thread)
    await driver.store.submit(Submit(driver.ids(), both, saved, new=(state.thread,)))
    await driver.log.catch_up()


def _partial_work(driver: Driver) -> Iterator[str]:
    """What a person would miss: results, text of steps that did not end, files."""
    records = driver.replay.records.values()
    done = [record.name for record in records if record.name and not record.error]
    if done:
        yield f"results of {len(done)} step{'s' * (len(done) > 1)}: {_few(done)}"
    for step, text in driver.replay.texts.items():
        yield f"text so far of {step.partition(':')[0]} ({len(text)} characters)"
    files = [path.name for path in driver.workdir.glob("*")] if driver.workdir.is_dir() else []
    if files:
        yield f"file{'s' * (len(files) > 1)} in its folder: {_few(sorted(files))}"


def _told(driver: Driver, what: tuple[str, ...]) -> str:
    """The message in the thread: what was kept, the results and the texts themselves."""
    parts = [f"Cancelled. Kept: {'; '.join(what)}."]
    if driver.workdir.is_dir() and any(driver.workdir.glob("*")):
        parts.append(f"The folder is {driver.workdir}.")
    parts += islice(_results(driver), RESULTS_MAX)
    parts += [
        f"{step.partition(':')[0]}, so far:\n{text[-TEXT_MAX:]}"
        for step, text in driver.replay.texts.items()
    ]
    return "\n\n".join(parts)


def _results(driver: Driver) -> Iterator[str]:
    """Newest first, short: the whole of each is in the run's journal."""
    for record in reversed(driver.replay.records.values()):
        if not record.name or record.error or bytes(record.result) == bytes(NULL):
            continue
        result = _in_words(values.decode(bytes(record.result)))
        short = result if len(result) <= RESULT_MAX else f"{result[:RESULT_MAX]}…"
        yield f"{record.name}: {short}"


def _in_words(value: Any) -> str:
    """As a person would write it; of something that has a text, the text."""
    match value:
        case str(text) | {"text": str(text)} if text.strip():
            return text
        case None:
            return "nothing"
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{name} {_in_words(one)}" for name, one in value.items())
        case list():
            return "; ".join(map(_in_words, value))
        case _:
            return str(value)


def _few(names: list[str]) -> str:
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + more
