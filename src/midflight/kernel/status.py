"""How a run stands, in one line: what a message to it is answered with."""

from __future__ import annotations

from typing import Final

from midflight.kernel.phases import Cause, Phase
from midflight.kernel.state import RunState

WIDTH: Final = 120
HELD: Final = {
    Cause.USER: "paused",
    Cause.CAP: "held at a cap, waiting for you",
    Cause.STALE: "held because something has changed, waiting for you",
    Cause.HUMAN: "handed to a person",
    Cause.PARKED: "parked",
    Cause.DRAIN: "paused, its process is ending",
}
"""The person's own hold first: it is what they remember."""

MAY_BE_DEAF: Final = ", but this agent may not read messages while it works: redirect it"
"""Of an agent that does not converse and has read nothing yet: whether it will, nobody knows."""


def status(state: RunState, now: float) -> str:
    """The line, for example ``working: Score churn, step 3 of 5, 2:10``."""
    line = _line(state, now)
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def _line(state: RunState, now: float) -> str:
    match state.phase:
        case Phase.RUNNING:
            return _working(state, now)
        case Phase.PAUSING:
            finishing = _names(state)
            return f"pausing: finishing {finishing}" if finishing else "pausing"
        case Phase.PAUSED if state.human and Cause.USER not in state.holds:
            return f"{state.human} has taken it over"
        case Phase.PAUSED:
            words = next((held for cause, held in HELD.items() if cause in state.holds), "paused")
            parked = words == HELD[Cause.PARKED] and state.parked_for
            return f"{words} {state.parked_for}" if parked else words
        case Phase.WAITING:
            return "waiting for you"
        case Phase.CANCELLING:
            undoing = ", ".join(state.effects[effect].noun for effect in state.undos.values())
            return f"cancelling: undoing {undoing}" if undoing else "cancelling"
        case Phase.FAILED:
            return f"failed: {state.error}" if state.error else "failed"
        case _:
            return str(state.phase)


def answer(state: RunState, now: float, *, hosted: bool, heard: bool = False) -> str:
    """What a message to this run is answered with: how it stands, and whether anybody reads it.

    Where an agent converses (``hosted``) somebody always does; a stop word is ``heard`` at once.
    """
    line = status(state, now)
    if not (state.alive or hosted):
        return f"{line}; nobody reads this until a run is started here"
    reads = hosted or heard or state.has_read
    if Cause.USER in state.holds and not heard:
        return f"{line}; your message is kept until you resume{'' if reads else MAY_BE_DEAF}"
    return line if reads else f"{line}; stored{MAY_BE_DEAF}"


def place(state: RunState) -> str:
    """Where it is: ``step 3 of 5`` of its plan, or just ``step 3``."""
    number = state.spent.steps - state.plan_from
    planned = number < len(state.plan)
    return f"step {number + 1} of {len(state.plan)}" if planned else f"step {state.spent.steps + 1}"


def _working(state: RunState, now: float) -> str:
    number = state.spent.steps - state.plan_from
    planned = state.plan[number] if number < len(state.plan) else ""
    seconds = state.spent.seconds
    if state.moving_since is not None:
        seconds += max(0.0, now - state.moving_since)
    asked = len(state.questions)
    parts = [
        _names(state) or planned,
        place(state),
        _clock(int(seconds)),
        f"{asked} question{'s' * (asked > 1)} for you" if asked else "",
    ]
    return f"working: {', '.join(part for part in parts if part)}"


def _names(state: RunState) -> str:
    """What is in flight; a plain read is not on record until it has its result."""
    return " and ".join(dict.fromkeys(attempt.name for attempt in state.open.values()))


def _clock(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
