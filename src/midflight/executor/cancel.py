"""Cancels a run to its end: abort, settle, undo, save; only then it is called cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from midflight.executor import foreign, values
from midflight.executor.cuts import Cut
from midflight.executor.front import end
from midflight.executor.heard import Record
from midflight.executor.undo import compensate
from midflight.executor.undo_child import await_all, await_turn
from midflight.kernel import events as e
from midflight.kernel.phases import Effect, Outcome, Phase
from midflight.kernel.record import NULL, Event
from midflight.kernel.state import RunState
from midflight.kernel.thread import Said
from midflight.run import Stopped
from midflight.stores.protocol import Draft, Submit, View

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

FEW: Final = 8  # names in a line that a person reads
RESULTS_MAX: Final = 20  # results that are shown in the thread
RESULT_MAX: Final = 500  # characters of each
WORK_MAX: Final = 200  # lines about what was kept
SAVED_MAX: Final = 150_000  # characters of the message: an event holds a megabyte
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
    found = () if state.saved else islice(_partial_work(driver), WORK_MAX)
    what = tuple(foreign.text(one, RESULT_MAX) for one in found)
    if not what:
        return

    def saved(view: View) -> Draft:
        mine = view.states[run]
        assert isinstance(mine, RunState)
        if mine.epoch != driver.epoch or mine.phase is not Phase.CANCELLING:
            return Draft()
        text, untrusted = _told(driver, what), mine.untrusted
        said = Said(run=run, text=text, kind="partial", untrusted=untrusted)
        note = e.WorkSaved(epoch=driver.epoch, what=what)
        thread = {state.thread: (said,)} if view.states[state.thread].head else {}
        return Draft({run: (note,), **thread})

    both = (run, state.thread)
    await driver.log.submit(Submit(driver.ids(), both, saved, new=(state.thread,)))


def _partial_work(driver: Driver) -> Iterator[str]:
    """Yield words for the work that a person would miss: results, unfinished text, files."""
    records = driver.replay.records.items()
    done = [
        record.name
        for step, record in records
        if record.name and not record.error and not _said_nothing(driver, step, record)
    ]
    if done:
        yield f"results of {len(done)} step{'s' * (len(done) > 1)}: {_few(done)}"
    for step, text in driver.replay.texts.items():
        yield f"text so far of {step.partition(':')[0]} ({len(text)} characters)"
    for begun, cut in _cuts(driver):
        if not cut.text:
            yield f"that {begun.name} was stopped in the middle"
    files = [path.name for path in driver.workdir.glob("*")] if driver.workdir.is_dir() else []
    if files:
        yield f"file{'s' * (len(files) > 1)} in its folder: {_few(sorted(files))}"


def _cuts(driver: Driver) -> Iterator[tuple[e.AttemptStarted, Cut]]:
    """Give the attempts that a person has stopped, unless it became known how they ended."""
    effects = driver.log.state.effects
    for attempt, cut in driver.replay.cuts.items():
        if attempt in effects and effects[attempt].outcome is Outcome.UNKNOWN:
            yield driver.replay.begun(attempt).event, cut


def _said_nothing(driver: Driver, step: str, record: Record) -> bool:
    """Return whether a step was a model call that only called tools: nobody would miss it."""
    if record.blob is not None or not _is_thought(driver, step):
        return False
    return not _spoken(values.decode(bytes(record.result)))


def _told(driver: Driver, what: tuple[str, ...]) -> str:
    """The message in the thread: what was kept, the results and the texts themselves."""
    parts = [f"Cancelled. Kept: {'; '.join(what)}."]
    if driver.workdir.is_dir() and any(driver.workdir.glob("*")):
        parts.append(f"The folder is {driver.workdir}.")
    parts += islice(_results(driver), RESULTS_MAX)
    parts += _cut_short(driver)
    return foreign.text("\n\n".join(parts), SAVED_MAX)


def _cut_short(driver: Driver) -> Iterator[str]:
    """Yield what was stopped in the middle: effects that may have partly happened, and words."""
    cut_steps = set()
    for begun, cut in _cuts(driver):
        cut_steps.add(begun.step)
        yield f"{begun.name}: {cut.words()}"
    for step, text in driver.replay.texts.items():
        if step not in cut_steps:
            yield f"{step.partition(':')[0]}, so far:\n{text[-TEXT_MAX:]}"


def _results(driver: Driver) -> Iterator[str]:
    """Newest first, short: the whole of each is in the run's journal."""
    for step, record in reversed(driver.replay.records.items()):
        if not record.name or record.error or bytes(record.result) == bytes(NULL):
            continue
        value = values.decode(bytes(record.result))
        result = _spoken(value) if _is_thought(driver, step) else _in_words(value)
        short = result if len(result) <= RESULT_MAX else f"{result[:RESULT_MAX]}…"
        if short:
            yield f"{record.name}: {short}"


def _is_thought(driver: Driver, step: str) -> bool:
    """Return whether a step was a model call: only what it said is for people, and for models."""
    begun = driver.replay.attempts_of(step)
    return bool(begun) and begun[-1].event.effect is Effect.MODEL


def _spoken(value: Any) -> str:
    """Return the words of a model, wherever in its answer; empty if it only called tools."""
    match value:
        case str(text) | {"text": str(text)}:
            return text.strip()
        case dict():
            return next(filter(None, map(_spoken, filter(_is_dict, value.values()))), "")
        case _:
            return ""


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


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
            said = {name: one for name, one in value.items() if one != ""}
            return ", ".join(f"{name} {_in_words(one)}" for name, one in said.items())
        case list():
            return "; ".join(map(_in_words, value))
        case _:
            return str(value)


def _few(names: list[str]) -> str:
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + more
