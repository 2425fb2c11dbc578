"""Words, signs and figures for the state of a run; no state is shown by a colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from midflight.kernel.decide import ASIDE, HANDED_OVER
from midflight.kernel.phases import ENDS, Cause, Phase
from midflight.kernel.state import NOT_SEEN, RunState
from midflight.kernel.status import place
from midflight.terminal.visible import visible
from midflight.view import RunSheet, StepSheet
from midflight.view.amounts import cap_words, clock, elapsed, is_near, nearest, spending
from midflight.view.cap_proposals import CAP
from midflight.view.data import Asked, Background

SIGNS: Final = {
    "queued": "◌",
    "running": "◐",
    "paused": "‖",
    "waiting": "?",
    "done": "✓",
    "failed": "✗",
    "retrying": "↻",
    "cancelled": "⊘",
    "skipped": "-",
    "undoing": "↺",
    "undone": "↩",
    "undo_failed": "!",
    "kept": "·",
    "lost": "∅",
}
"""State of a step -> its sign; the word stands beside it."""

TONES: Final = {
    "queued": "quiet",
    "running": "accent",
    "paused": "warn",
    "waiting": "warn",
    "done": "ok",
    "failed": "bad",
    "retrying": "warn",
    "cancelled": "quiet",
    "skipped": "quiet",
    "undoing": "soft",
    "undone": "quiet",
    "undo_failed": "bad",
    "kept": "quiet",
    "lost": "bad",
}

PHASES: Final = {
    Phase.QUEUED: ("◌", "Queued", "quiet"),
    Phase.RUNNING: ("◐", "Running", "accent"),
    Phase.PAUSING: ("⇥", "Pausing", "accent"),
    Phase.PAUSED: ("‖", "Paused", "warn"),
    Phase.WAITING: ("?", "Waiting for you", "warn"),
    Phase.CANCELLING: ("↺", "Cancelling", "bad"),
    Phase.DONE: ("✓", "Done", "ok"),
    Phase.FAILED: ("✗", "Failed", "bad"),
    Phase.CANCELLED: ("⊘", "Cancelled", "quiet"),
    Phase.KILLED: ("■", "Stopped by an operator", "bad"),
}
"""Phase -> sign, word, tone. No sign and no word stands for two of them."""

UNDRIVEN: Final = ("∅", "Nobody drives this", "bad")
"""The same for a run that needs a driver and has no living one, whatever its phase is."""

NAME_WIDTH: Final = 200
DELETED: Final = ("·", "Deleted", "quiet")  # a run that ended long ago, and was purged
CURRENT: Final = frozenset({"running", "retrying", "waiting", "paused", "undoing", "lost"})
SPEAKING: Final = frozenset({"running", "retrying", "paused", "waiting"})


def stands(phase: str, *, undriven: bool = False) -> tuple[str, str, str]:
    """Return the sign, word and tone of a run."""
    return UNDRIVEN if undriven else PHASES[Phase(phase)]


def of_sheet(sheet: RunSheet) -> tuple[str, str, str]:
    """Return the sign, word and tone of the run that is shown."""
    return stands(sheet.phase, undriven=sheet.undriven_since is not None)


def phase_of(child: Background) -> tuple[str, str, str]:
    """Return the sign, word and tone of a run in the background."""
    return PHASES[Phase(child.phase)] if child.phase in PHASES else DELETED


def ago(seconds: float) -> str:
    """Return a time that has passed in one unit: ``3 min ago``."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now" if seconds < 5 else f"{int(seconds)} s ago"


def one_line(text: str, width: int) -> str:
    """Return the text on one line, cut to a width, with signs for steering characters."""
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= width else f"{flat[: max(0, width - 1)]}…"


def indented(text: str, room: int = 6) -> str:
    """Indent every line but the first: only lines of our own begin at the margin."""
    return visible(text).replace("\n", "\n" + " " * room)


def meter(sheet: RunSheet, state: RunState, now: float) -> str:
    """``02:01  step 3 of 6  $0.42 of $2.00``."""
    return "  ".join(
        filter(None, [clock(elapsed(sheet, now)), steps(sheet, state), spending(sheet, now)])
    )


def steps(sheet: RunSheet, state: RunState) -> str:
    """Return the step at which the run is, or the number of its steps once it has ended."""
    if sheet.phase not in ENDS:
        return place(state)
    return f"{sheet.done} step{'s' * (sheet.done != 1)}"


def is_near_cap(sheet: RunSheet, now: float) -> bool:
    """Return whether any cap is nearly reached."""
    return is_near(nearest(sheet, now))


def read_when(sheet: RunSheet, *, converses: bool) -> str:
    """Return when a message that is written now is read."""
    if sheet.phase in ENDS:
        return "starts the next run" if converses else "nobody reads it until a run starts"
    if sheet.phase is Phase.CANCELLING:
        return "kept in the thread"
    if not sheet.reads_messages:
        return "kept; it is not known to read while it works"
    return "read when it goes on" if sheet.phase is Phase.PAUSED else "read at the next safe point"


def is_answered(asked: Asked) -> bool:
    """Return whether a question takes an answer; a cap is raised, a run is handed back."""
    return asked.kind not in {CAP, HANDED_OVER}


def at_cap(sheet: RunSheet) -> str:
    """Return how full the cap is that holds the run, or why it holds if it has no meter."""
    asked = next((one for one in sheet.questions if one.kind == CAP), None)
    meter = next((meter for meter in sheet.meters if asked and meter.name == asked.cap), None)
    if meter is not None:
        return f"{cap_words(meter, sheet.spent)} used"
    return (asked.why.capitalize() if asked else "") or "All that it may"


def headline(sheet: RunSheet) -> tuple[str, str]:
    """Return the word for the run's state, and a few words about it."""
    word = PHASES[sheet.phase][1]
    if sheet.undriven_since is not None:
        return UNDRIVEN[1], _undriven(sheet, word.lower())
    match sheet.phase:
        case Phase.RUNNING:
            return word, _doing(sheet)
        case Phase.PAUSING:
            return word, _finishing(sheet)
        case Phase.PAUSED:
            return _paused(sheet)
        case Phase.WAITING:
            return word, _asked(sheet)
        case Phase.CANCELLING:
            return word, sheet.undoing.capitalize()
        case Phase.DONE:
            return word, sheet.result
        case Phase.CANCELLED:
            return word, "Work saved to thread" * bool(sheet.receipt.saved)
        case Phase.FAILED:
            return " at ".join(filter(None, [word, _named(sheet.failed_step)])), sheet.error
        case _:
            return word, sheet.ended_by if sheet.phase is Phase.KILLED else ""


def _undriven(sheet: RunSheet, word: str) -> str:
    agent = sheet.agent.removesuffix(ASIDE)
    if sheet.phase in ENDS:
        return f"It is {word}; what is to be undone waits for a process with agent {agent}"
    return f"It was {word}; it goes on when a process with agent {agent} runs"


def _named(step: str) -> str:
    return one_line(step, NAME_WIDTH)


def _asked(sheet: RunSheet) -> str:
    return sheet.questions[0].message if sheet.questions else ""


def _finishing(sheet: RunSheet) -> str:
    names = " and ".join(dict.fromkeys(_named(flying.name) for flying in sheet.in_flight))
    return f"finishing {names}" if names else ""


def _doing(sheet: RunSheet) -> str:
    running = [step.name for step in sheet.steps if step.status in {"running", "retrying"}]
    asks = f"{len(sheet.questions)} for you to decide" if sheet.questions else ""
    return "; ".join(filter(None, [" and ".join(dict.fromkeys(running)), asks]))


def _paused(sheet: RunSheet) -> tuple[str, str]:
    alive = sum(child.ended_at is None and child.phase != "paused" for child in sheet.background)
    holds = set(sheet.holds)
    if Cause.CAP in holds:
        return "Paused at the cap", at_cap(sheet)
    if Cause.HUMAN in holds:
        return _with_a_person(sheet)
    if Cause.PARKED in holds and Cause.USER not in holds:
        return "Parked", sheet.parked_for
    if Cause.STALE in holds and sheet.questions:
        return "Paused", sheet.questions[0].message
    if alive:
        return "Paused", f"{alive} background task{'s' * (alive > 1)} still run{'s' * (alive == 1)}"
    return "Paused", "Nothing is running or spending"


def _with_a_person(sheet: RunSheet) -> tuple[str, str]:
    word = f"{sheet.human} has it" if sheet.human else "Handed to a person"
    return word, _asked(sheet) or "It goes on when it is handed back"


def current_step(sheet: RunSheet) -> int | None:
    """Return the index of the step at which the run stands; None after its end."""
    if sheet.phase in ENDS:
        return None
    for number, step in enumerate(sheet.steps):
        if step.status in CURRENT:
            return number
    begun = (n for n in range(len(sheet.steps) - 1, -1, -1) if sheet.steps[n].position)
    return next(begun, None)


def step_seconds(step: StepSheet, now: float) -> str:
    """Return how long a step took or has taken so far; nothing if it is not running."""
    if step.seconds is not None:
        return clock(step.seconds)
    running = step.status in {"running", "retrying", "undoing"} and step.started_at is not None
    return clock(now - (step.started_at or now)) if running else ""


def step_when(step: StepSheet, now: float) -> str:
    """Return when something happens in a step that waits, or nothing where it does not wait."""
    if step.until is None or step.status not in {"retrying", "queued"}:
        return ""
    if step.status == "queued":
        what = "starts"
    else:
        what = "looked up again" if step.word == NOT_SEEN.capitalize() else "tried again"
    return f"{what} in {clock(step.until - now)}"


def spoken(sheet: RunSheet, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the words that are being said, by the id of the step that says them.

    A plain read is on record with its result only: its words until then go to the first step that
    is running.
    """
    if sheet.phase in ENDS:
        return {}
    running = [step.id for step in sheet.steps if step.status in SPEAKING]
    known = {step.id for step in sheet.steps}
    found = {step: text for step, text in texts.items() if step in running}
    for step, text in texts.items():
        if step not in known:
            found[running[0] if running else step] = text
    return found
