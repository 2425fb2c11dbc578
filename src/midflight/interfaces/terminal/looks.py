"""Words, signs and figures of a run, and a thread as lines; no state is shown by colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from midflight.control.transcript import CUT, UNHEARD, Line
from midflight.interfaces.terminal.safe_text import visible
from midflight.journal.phases import ENDS, Phase
from midflight.journal.state import NOT_SEEN, RunState
from midflight.journal.status import place
from midflight.view import RunSheet, StepSheet, control_bar
from midflight.view.control_bar import PHASE_WORDS
from midflight.view.data import Background
from midflight.view.shown_values import clock, elapsed, is_near, nearest, spending

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

SIGNED: Final = {
    Phase.QUEUED: ("◌", "quiet"),
    Phase.RUNNING: ("◐", "accent"),
    Phase.PAUSING: ("⇥", "accent"),
    Phase.PAUSED: ("‖", "warn"),
    Phase.WAITING: ("?", "warn"),
    Phase.CANCELLING: ("↺", "bad"),
    Phase.DONE: ("✓", "ok"),
    Phase.FAILED: ("✗", "bad"),
    Phase.CANCELLED: ("⊘", "quiet"),
    Phase.KILLED: ("■", "bad"),
}
PHASES: Final = {phase: (sign, PHASE_WORDS[phase], tone) for phase, (sign, tone) in SIGNED.items()}
"""Phase -> sign, word, tone. No sign and no word stands for two of them."""

UNDRIVEN: Final = ("∅", control_bar.UNDRIVEN, "bad")
"""The same for a run that needs a driver and has no living one, whatever its phase is."""

DOUBTFUL: Final = frozenset({"unknown", "could not be undone"})
"""Words of a receipt for effects that somebody has to look after."""
SHOWN: Final = 14  # characters of an id: to the millisecond
NAME_WIDTH: Final = 200
DELETED: Final = ("·", control_bar.DELETED, "quiet")  # a run that ended long ago, and was purged
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


def headline(sheet: RunSheet) -> tuple[str, str]:
    """Return the word for the run's state, on one line, and a few words about it."""
    word, about = control_bar.headline(sheet)
    return one_line(word, NAME_WIDTH), about


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


# ── a conversation ───────────────────────────────────────────────────────────────────────────────

SAID_MAX: Final = 2_000  # characters; the page has all of it
KEPT_MAX: Final = 240  # of partial work that was saved
AGENT: Final = "agent"
OUTCOMES: Final = {
    "incorporate": "Incorporated",
    "switch": "Switched to this now",
    "defer": "Deferred",
    "pause": "Paused",
    "redirect": "Redirected",
    "back": "Went back",
    "undo": "Undone",
}
BACK: Final = {"switch": "back", "defer": "switch"}
"""A choice -> the choice that a person may want instead."""
HEARD: Final = {CUT: ", cut short", UNHEARD: ", not all of it heard"}
"""The status of spoken words -> the note behind the name of their speaker."""
SAID: Final = frozenset({"said: text", "said: aside", "said: cancel?", "said: triage"})


class Told(NamedTuple):
    """Words in a conversation: their speaker, their tone and their text."""

    who: str
    tone: str
    text: str


def told(line: Line) -> Told | None:
    """Return the words that a line holds, or None if it is another kind of line."""
    match line.kind:
        case "message":
            return Told(line.by, "accent", line.text)
        case "question aside":
            return Told(f"{line.by}, aside", "accent", line.text)
        case kind if kind in SAID:
            return Told(AGENT + HEARD.get(line.status, ""), "ok", line.text)
        case _ if line.said:
            who = line.said + HEARD.get(line.status, "")
            return Told(who, "soft", one_line(line.text, KEPT_MAX))
        case _:
            return None


def outcome(line: Line) -> str:
    """Return the outcome of a message, in a word or a few."""
    if line.status == "withdrawn":
        return "Withdrawn"
    if line.choice in OUTCOMES:
        return OUTCOMES[line.choice]
    words = {"stored": "Sent", "put off": "Deferred", "read": "Read"}
    return words.get(line.status, line.status)


def event(line: Line) -> str:
    """Return one line of news about a choice or a todo, and nothing for other lines."""
    what = OUTCOMES.get(line.choice, line.choice or "Open again")
    match line.kind:
        case "choice":
            return f"{line.message} {what}" + (f": {line.why}" if line.why else "")
        case "overruled":
            return f"{line.message} overruled by {line.by}: {line.choice}"
        case "todo: parked" | "todo: deferred":
            return f"To do {line.position}: {line.text}"
        case "todo taken":
            return f"To do {line.todo} is taken up"
        case "todo dropped":
            return f"To do {line.todo} is dropped"
        case "todo removed":
            return f"To do {line.todo} is removed"
        case _:
            return ""
