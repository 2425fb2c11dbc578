"""Words, signs and figures: never a colour alone, never a word that is not true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from midflight.kernel.phases import ENDS, Cause, Phase
from midflight.kernel.state import RunState
from midflight.kernel.status import place
from midflight.sheets import RunSheet, StepSheet

SIGNS: Final = {
    "queued": "◌",
    "running": "◐",
    "paused": "‖",
    "waiting": "?",
    "done": "✓",
    "failed": "✗",
    "retrying": "↻",
    "cancelled": "✗",
    "skipped": "-",
    "undoing": "↺",
    "undone": "↩",
    "undo_failed": "✗",
    "kept": "·",
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
}

PHASES: Final = {
    Phase.QUEUED: ("◌", "Queued", "quiet"),
    Phase.RUNNING: ("◐", "Running", "accent"),
    Phase.PAUSING: ("‖", "Pausing", "warn"),
    Phase.PAUSED: ("‖", "Paused", "warn"),
    Phase.WAITING: ("?", "Waiting for you", "warn"),
    Phase.CANCELLING: ("↺", "Cancelling", "warn"),
    Phase.DONE: ("✓", "Done", "ok"),
    Phase.FAILED: ("✗", "Failed", "bad"),
    Phase.CANCELLED: ("✗", "Cancelled", "quiet"),
    Phase.KILLED: ("■", "Stopped by an operator", "bad"),
}
"""Phase -> sign, word, tone."""

NEAR_CAP: Final = 0.8
SPEAKING: Final = frozenset({"running", "retrying", "paused", "waiting"})


def clock(seconds: float) -> str:
    """``02:01``, or ``1:02:01`` from an hour on."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def ago(seconds: float) -> str:
    """How long ago, in one unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now" if seconds < 5 else f"{int(seconds)} s ago"


def money(usd: float) -> str:
    """Dollars; a little is not nothing."""
    return "<$0.01" if 0 < usd < 0.005 else f"${usd:.2f}"


def count(number: int) -> str:
    """``12.3k``."""
    return f"{number / 1000:.1f}k" if number >= 10_000 else str(number)


def one_line(text: str, width: int) -> str:
    """Cut to a width; line ends become spaces."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else f"{flat[: max(0, width - 1)]}…"


def elapsed(sheet: RunSheet, now: float) -> float:
    """Seconds in motion, also those of the stretch that it is in."""
    moving = max(0.0, now - sheet.updated_at) if sheet.moving_since is not None else 0.0
    return sheet.spent.seconds + moving


def meter(sheet: RunSheet, state: RunState, now: float) -> str:
    """``02:01  step 3 of 6  $0.42 of $2.00``."""
    return "  ".join(filter(None, [clock(elapsed(sheet, now)), steps(sheet, state), spend(sheet)]))


def steps(sheet: RunSheet, state: RunState) -> str:
    """Where it is; how many there were, once it has ended."""
    if sheet.phase not in ENDS:
        return place(state)
    return f"{sheet.done} step{'s' * (sheet.done != 1)}"


def spend(sheet: RunSheet) -> str:
    """Money where it is known, and of how much; tokens where only those are."""
    spent, cap = sheet.spent, sheet.limits
    if spent.usd or cap.usd is not None:
        return money(spent.usd) + (f" of {money(cap.usd)}" if cap.usd is not None else "")
    if spent.tokens or cap.tokens is not None:
        of = f" of {count(cap.tokens)}" if cap.tokens is not None else ""
        return f"{count(spent.tokens)}{of} tokens"
    return ""


def is_near_cap(sheet: RunSheet) -> bool:
    """Whether the money, or what stands for it, is nearly spent."""
    spent, cap = sheet.spent, sheet.limits
    pairs = ((spent.usd, cap.usd), (spent.tokens, cap.tokens))
    return any(most and used >= NEAR_CAP * most for used, most in pairs)


def headline(sheet: RunSheet) -> tuple[str, str]:
    """The state's word, and what there is to say about it."""
    word = PHASES[sheet.phase][1]
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
            return word, sheet.status.partition(": ")[2].capitalize()
        case Phase.DONE:
            return word, sheet.result
        case Phase.CANCELLED:
            return word, "Work saved to thread" * bool(sheet.receipt.saved)
        case Phase.FAILED:
            return " at ".join(filter(None, [word, sheet.failed_step])), sheet.error
        case _:
            return word, sheet.ended_by if sheet.phase is Phase.KILLED else ""


def _asked(sheet: RunSheet) -> str:
    return sheet.questions[0].message if sheet.questions else ""


def _finishing(sheet: RunSheet) -> str:
    names = " and ".join(dict.fromkeys(flying.name for flying in sheet.in_flight))
    return f"finishing {names}" if names else ""


def _doing(sheet: RunSheet) -> str:
    running = [step.name for step in sheet.steps if step.status in {"running", "retrying"}]
    asks = f"{len(sheet.questions)} for you to decide" if sheet.questions else ""
    return "; ".join(filter(None, [" and ".join(dict.fromkeys(running)), asks]))


def _paused(sheet: RunSheet) -> tuple[str, str]:
    alive = sum(child.phase not in ENDS for child in sheet.background)
    holds = set(sheet.holds)
    if Cause.CAP in holds:
        return "Paused at the cap", f"{spend(sheet) or 'as much as it may'} spent"
    if Cause.HUMAN in holds and sheet.human:
        return "Paused", f"{sheet.human} has it"
    if Cause.PARKED in holds and Cause.USER not in holds:
        return "Parked", sheet.status.removeprefix("parked").strip()
    if Cause.STALE in holds and sheet.questions:
        return "Paused", sheet.questions[0].message
    if alive:
        return "Paused", f"{alive} background task{'s' * (alive > 1)} still run{'s' * (alive == 1)}"
    return "Paused", "Nothing is running or spending"


def step_seconds(step: StepSheet, now: float) -> str:
    """How long it took, or takes so far."""
    if step.seconds is not None:
        return clock(step.seconds)
    running = step.status in {"running", "retrying", "undoing"} and step.started_at is not None
    return clock(now - (step.started_at or now)) if running else ""


def spoken(sheet: RunSheet, texts: Mapping[str, str]) -> dict[str, str]:
    """What is being said, by the step that says it.

    A plain read is on record with its result only: what it says meanwhile goes to the step of the
    plan that runs.
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
