"""Cancels a run to its end: abort, settle, undo, save. Only then is the run called cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from midflight.journal import events as e
from midflight.journal.phases import Effect, Outcome, Phase
from midflight.journal.record import NULL, Event
from midflight.journal.state import RunState
from midflight.journal.threads.thread import Said
from midflight.run import Stopped
from midflight.runtime import foreign, values
from midflight.runtime.children import await_all, await_turn
from midflight.runtime.replay.step_records import ABORTED, IN_JOURNAL, Cut, Record
from midflight.runtime.run_session import Session
from midflight.runtime.steps.undo import calls_for_more, compensate
from midflight.runtime.threads.succession import end

CANCELLED: Final = "the run was cancelled"
FEW: Final = 8  # names in a line that a person reads
RESULTS_MAX: Final = 20  # results that are shown in the thread
RESULT_MAX: Final = 500  # characters of each
WORK_MAX: Final = 200  # lines about what was kept
SAVED_MAX: Final = 150_000  # characters of the message: an event holds a megabyte
TEXT_MAX: Final = 32 * 1024  # characters of a step's text that go into the thread


async def cancel(session: Session) -> None:
    """See the module. Comes back early when the run is not ours any more."""
    state = session.journal.state
    if session.signals.told is None:
        session.signals.tell(Stopped(CANCELLED))
    if session.attention.choosing:
        await session.attention.stop("cancelled")
    await _settle(session)  # layer cancel-waits-until-everything
    if session.journal.lost:
        return
    if session.function.running:
        await session.function.unwind()
    if state.parent:
        await await_turn(session)
    if _has_done(session) or (state.effects and calls_for_more(session)):
        await session.journal.flush()  # layer known-on-record-before-undo
        await compensate(session)  # layer cancel-undoes
        await await_all(session)
    await _fetch_results(session)
    saved, said = _saved(session)

    def cancelled(state: RunState) -> list[Event]:
        if state.phase is not Phase.CANCELLING or session.journal.lost:
            return []
        return [
            *saved,
            e.RunFinished(epoch=session.journal.epoch, outcome="cancelled"),
            e.DriverReleased(epoch=session.journal.epoch, why="cancelled"),
        ]

    if await end(session, cancelled, said):
        session.be_over()


async def _settle(session: Session) -> None:
    """Wait until it is known of everything in flight how it ended, however long that takes.

    It was aborted, where it may be, as the driver heard of the cancel. What is known then comes on
    record with the end of the run, if there is nothing to be done about it.
    """
    journal, steps = session.journal, session.in_flight.steps
    await journal.until(lambda: journal.lost or (not steps and journal.all_known))


def _has_done(session: Session) -> bool:
    """Return whether something was done that is not on record yet: it is a result to be saved."""
    for fact in session.journal.kept.facts:
        if isinstance(fact, e.AttemptSettled) and fact.outcome is Outcome.DONE:
            return True
    return False


async def _fetch_results(session: Session) -> None:
    """Read the results that a stored fold has left in the journal, as far as they are told of."""
    if session.journal.state.saved:
        return
    records, shown = session.history.records, 0
    for step, record in reversed(tuple(records.items())):
        if record.blob is None or not record.blob.hash.startswith(IN_JOURNAL):
            continue
        thought = _is_thought(session, step)  # its words tell whether it is counted
        shown += not thought
        if thought or shown <= RESULTS_MAX:
            result = await session.journal.raw(record)
            records[step] = replace(record, result=result, blob=None)


def _saved(session: Session) -> tuple[list[Event], Said | None]:
    """Return what was done so far: as a note for the run, and in words for its thread."""
    state, run = session.journal.state, session.journal.run
    found = () if state.saved else islice(_partial_work(session), WORK_MAX)
    what = tuple(foreign.text(one, RESULT_MAX) for one in found)
    if not what:
        return [], None
    text, untrusted = _told(session, what), state.untrusted
    said = Said(run=run, text=text, kind="partial", untrusted=untrusted)
    return [e.WorkSaved(epoch=session.journal.epoch, what=what)], said


def _partial_work(session: Session) -> Iterator[str]:
    """Yield words for the work that a person would miss: results, unfinished text, files."""
    records = session.history.records.items()
    done = [
        record.name
        for step, record in records
        if record.name and not record.error and not _said_nothing(session, step, record)
    ]
    if done:
        yield f"results of {len(done)} step{'s' * (len(done) > 1)}: {_few(done)}"
    for step, text in _texts(session).items():
        yield f"text so far of {step.partition(':')[0]} ({len(text)} characters)"
    for begun, cut in _cuts(session):
        if not cut.text:
            yield f"that {begun.name} was stopped in the middle"
    files = [path.name for path in session.workdir.glob("*")] if session.workdir.is_dir() else []
    if files:
        yield f"file{'s' * (len(files) > 1)} in its folder: {_few(sorted(files))}"


def _cuts(session: Session) -> Iterator[tuple[e.AttemptStarted, Cut]]:
    """Give the attempts that a person has stopped, unless it became known how they ended."""
    journal, history = session.journal, session.history
    effects = journal.state.effects
    for attempt, cut in history.cuts.items():
        if attempt in effects and effects[attempt].outcome is Outcome.UNKNOWN:
            yield history.begun(attempt).event, cut
    for fact in journal.kept.facts:
        if not isinstance(fact, e.AttemptSettled) or fact.outcome is not Outcome.UNKNOWN:
            continue
        if fact.error.startswith(ABORTED):
            begun = history.begun(fact.attempt)
            text = _texts(session).get(begun.event.step, "")
            yield begun.event, Cut(fact.error, journal.clock.now() - begun.at, text)


def _texts(session: Session) -> dict[str, str]:
    """Return the words of steps that have no record, with those that are not on record yet."""
    texts = dict(session.history.texts)
    for fact in session.journal.kept.facts:
        if isinstance(fact, e.TextStreamed):
            texts[fact.step] = texts.get(fact.step, "")[: fact.offset] + fact.text
    return texts


def _said_nothing(session: Session, step: str, record: Record) -> bool:
    """Return whether a step was a model call that only called tools: nobody would miss it."""
    if record.blob is not None or not _is_thought(session, step):
        return False
    return not _spoken(values.decode(bytes(record.result)))


def _told(session: Session, what: tuple[str, ...]) -> str:
    """The message in the thread: what was kept, the results and the texts themselves."""
    parts = [f"Cancelled. Kept: {'; '.join(what)}."]
    if session.workdir.is_dir() and any(session.workdir.glob("*")):
        parts.append(f"The folder is {session.workdir}.")
    parts += islice(_results(session), RESULTS_MAX)
    parts += _cut_short(session)
    return foreign.text("\n\n".join(parts), SAVED_MAX)


def _cut_short(session: Session) -> Iterator[str]:
    """Yield what was stopped in the middle: effects that may have partly happened, and words."""
    cut_steps = set()
    for begun, cut in _cuts(session):
        cut_steps.add(begun.step)
        yield f"{begun.name}: {cut.words()}"
    for step, text in _texts(session).items():
        if step not in cut_steps:
            yield f"{step.partition(':')[0]}, so far:\n{text[-TEXT_MAX:]}"


def _results(session: Session) -> Iterator[str]:
    """Newest first, short: the whole of each is in the run's journal."""
    for step, record in reversed(session.history.records.items()):
        if not record.name or record.error or bytes(record.result) == bytes(NULL):
            continue
        value = values.decode(bytes(record.result))
        result = _spoken(value) if _is_thought(session, step) else _in_words(value)
        short = result if len(result) <= RESULT_MAX else f"{result[:RESULT_MAX]}…"
        if short:
            yield f"{record.name}: {short}"


def _is_thought(session: Session, step: str) -> bool:
    """Return whether a step was a model call: only what it said is for people, and for models."""
    begun = session.history.attempts_of(step)
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
