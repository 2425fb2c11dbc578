"""The status of a step, from what the journal says about it and from the state of its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec import structs

from midflight.journal.phases import Effect, Outcome, Phase
from midflight.journal.state import NOT_SEEN, RETRY, SETTLE, Attempt, RunState
from midflight.view.data import WORDS, StepSheet
from midflight.view.shown_values import short, stopped

HELD: Final = frozenset({Phase.PAUSING, Phase.PAUSED, Phase.WAITING})
Stand = tuple[str, str]
"""The state of a step, and its word."""
UNDO_WANTED: Final = "Undo asked for"  # after the end; true whether anybody works on it or not


@dataclass(slots=True)
class Entry:
    """One step as the journal tells of it."""

    id: str
    position: int
    name: str
    tool: str = ""
    noun: str = ""
    effect: Effect = Effect.READ
    irreversible: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    usd: float = 0.0
    tokens: int = 0
    attempt: int = 0  # position of the last try that had to be recorded before it began,
    told: int = 0  # and of one before it that was done all the same, by a worker that was lost
    retries: int = 0
    tries: int = 0  # in all; 0 where it is not on record
    outcome: Outcome | None = None
    left: bool = False
    summary: str = ""
    error: str = ""
    result_at: int = 0
    course: int = 0
    rewritten: bool = False
    sheet: StepSheet | None = None


def failed(entry: Entry) -> bool:
    """Return whether a step was tried and has no result, or none that anybody knows."""
    return entry.outcome in {Outcome.FAILED, Outcome.NOT_DONE, Outcome.UNKNOWN}


def sheet(entry: Entry, state: RunState, question: int) -> StepSheet:
    """All that is shown of a step that has begun."""
    attempt = state.effects.get(entry.attempt) or state.open.get(entry.attempt)
    status, word = _stand(entry, attempt, state, question)
    over = entry.ended_at is not None and entry.started_at is not None
    seconds = (entry.ended_at or 0.0) - (entry.started_at or 0.0) if over else None
    noun, until = state.windows.get(entry.id, (entry.noun, None))
    return StepSheet(
        id=entry.id,
        position=entry.position,
        name=entry.name,
        status=status,
        word=word,
        tool=entry.tool,
        noun=noun,
        effect=entry.effect,
        irreversible=entry.irreversible,
        started_at=entry.started_at,
        ended_at=entry.ended_at,
        seconds=seconds,
        usd=entry.usd,
        tokens=entry.tokens,
        attempt=entry.retries + 1,
        tries=entry.tries,
        summary=entry.summary,
        error=short(stopped(entry.error)),
        question=question,
        rewritten=entry.rewritten,
        can_be_stopped=entry.attempt in state.open
        and attempt is not None
        and attempt.can_be_stopped,
        result_at=entry.result_at,
        until=until if until is not None else _until(entry, state),
    )


def _stand(entry: Entry, attempt: Attempt | None, state: RunState, question: int) -> Stand:
    """Return the status of a step: a try under way counts first, then the end of its last try."""
    if entry.attempt in state.open and state.alive:
        return _retry(entry) if entry.retries else _worded("running")
    if question:
        return _worded("waiting")
    if not state.alive and entry.outcome is None:
        touched = entry.attempt in state.open and entry.effect.touches_world
        return ("failed", "Not known") if touched else _worded("cancelled")
    if f"{SETTLE}{entry.attempt}" in state.timers:
        return "retrying", NOT_SEEN.capitalize()
    if f"{RETRY}{entry.id}" in state.timers:
        return _retry(entry)
    if entry.id in state.windows:
        return "queued", "Starts soon"
    if entry.left and entry.outcome is None:
        return "skipped", "Not waited for"
    return _ended(entry, attempt, state)


def _until(entry: Entry, state: RunState) -> float | None:
    """Return the time at which a step is looked up again or tried again; None if it is not."""
    looked_up = state.timers.get(f"{SETTLE}{entry.attempt}")
    return state.timers.get(f"{RETRY}{entry.id}") if looked_up is None else looked_up


def _ended(entry: Entry, attempt: Attempt | None, state: RunState) -> Stand:
    match entry.outcome:
        case Outcome.DONE:
            return _done(attempt, state)
        case Outcome.UNKNOWN:
            undone = attempt is not None and (attempt.undo or attempt.undone)
            return _done(attempt, state) if undone else ("failed", "Not known")
        case Outcome.FAILED | Outcome.NOT_DONE:
            return _worded("failed")
        case _:
            return _broken_off(entry, state)


def _done(attempt: Attempt | None, state: RunState) -> Stand:
    if attempt is None:
        return _worded("done")
    if attempt.undo:
        return _worded("undoing")
    if not state.alive and attempt.position in state.still_to_undo:
        return "undoing", UNDO_WANTED
    if attempt.undone is not None:
        return _worded("undone" if attempt.undone else "undo_failed")
    stopped = state.phase in {Phase.CANCELLED, Phase.KILLED}
    return _worded("kept" if stopped and attempt.effect.touches_world else "done")


def _broken_off(entry: Entry, state: RunState) -> Stand:
    """Return the status of a step that was not begun, or that a stop ended without a result."""
    if not state.alive or state.phase is Phase.CANCELLING or entry.course < state.course:
        return _worded("cancelled")
    return _worded("paused" if state.phase in HELD else "queued")


def stand_of_plan(state: RunState, first: bool, asks: bool) -> Stand:
    """Return the status of a step that is only planned; the ``first`` of them is next."""
    if not state.alive:
        return _worded("skipped" if state.phase is Phase.DONE else "cancelled")
    if not first or state.phase in {Phase.QUEUED, Phase.CANCELLING}:
        return _worded("queued")
    if state.phase is Phase.WAITING or asks:
        return _worded("waiting")
    return _worded("paused" if state.phase in HELD else "running")


def without_driver(step: StepSheet, since: float) -> StepSheet:
    """Return the sheet of a step whose run nobody drives: a step under way is shown as cut off."""
    if step.status not in {"running", "retrying", "undoing"} or step.word == UNDO_WANTED:
        return step
    if not step.position:  # only planned
        return structs.replace(step, status="queued", word=WORDS["queued"])
    seconds = max(0.0, since - step.started_at) if step.started_at is not None else None
    return structs.replace(step, status="lost", word=WORDS["lost"], seconds=seconds)


def _retry(entry: Entry) -> Stand:
    of = f" of {entry.tries}" if entry.tries else ""
    return "retrying", f"{WORDS['retrying']} {entry.retries + 1}{of}"


def _worded(status: str) -> Stand:
    return status, WORDS[status]
