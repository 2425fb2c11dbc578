"""The bar of a run: the state in words, and three slots, each with its consequence now.

The words for the phases of a run are chosen here, for every front door.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from midflight.journal.phases import ENDS, Cause, Phase
from midflight.journal.preview import Offer
from midflight.journal.requests import ASIDE, HANDED_OVER
from midflight.view.amounts import cap_words
from midflight.view.data import Asked, RunSheet
from midflight.view.proposals import CAP

PHASE_WORDS: Final = {
    Phase.QUEUED: "Queued",
    Phase.RUNNING: "Running",
    Phase.PAUSING: "Pausing",
    Phase.PAUSED: "Paused",
    Phase.WAITING: "Waiting for you",
    Phase.CANCELLING: "Cancelling",
    Phase.DONE: "Done",
    Phase.FAILED: "Failed",
    Phase.CANCELLED: "Cancelled",
    Phase.KILLED: "Stopped by an operator",
}
"""No word stands for two phases, so that none needs its colour."""

UNDRIVEN: Final = "Nobody drives this"
"""The same for a run that needs a driver and has none that lives, whatever its phase is."""

DELETED: Final = "Deleted"
"""The same for a run that ended long ago, and was purged."""

STOP_NOW_AFTER_S: Final = 5.0
AWAY: Final = {
    1: "Sent when back online",
    2: "Asks again when back",
    3: "Asks again when back",
}


class Slot(Struct, frozen=True):
    """One button: its ``verb``, its label, its consequence, and whether it can be pressed.

    ``confirm`` is asked in place first.
    """

    verb: str
    label: str
    consequence: str
    enabled: bool = True
    confirm: str = ""


# ── the state in words ───────────────────────────────────────────────────────────────────────


def headline(sheet: RunSheet) -> tuple[str, str]:
    """Return the word for the run's state, and a few words about it."""
    word = PHASE_WORDS[sheet.phase]
    if sheet.undriven_since is not None:
        return UNDRIVEN, _undriven(sheet, word.lower())
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
            return " at ".join(filter(None, [word, sheet.failed_step])), sheet.error
        case _:
            return word, sheet.ended_by if sheet.phase is Phase.KILLED else ""


def _undriven(sheet: RunSheet, word: str) -> str:
    agent = sheet.agent.removesuffix(ASIDE)
    if sheet.phase in ENDS:
        return f"It is {word}; what is to be undone waits for a process with agent {agent}"
    return f"It was {word}; it goes on when a process with agent {agent} runs"


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


def at_cap(sheet: RunSheet) -> str:
    """Return how full the cap is that holds the run, or why it holds if it has no meter."""
    asked = next((one for one in sheet.questions if one.kind == CAP), None)
    meter = next((meter for meter in sheet.meters if asked and meter.name == asked.cap), None)
    if meter is not None:
        return f"{cap_words(meter, sheet.spent)} used"
    return (asked.why.capitalize() if asked else "") or "All that it may"


def is_answered(asked: Asked) -> bool:
    """Return whether a question takes an answer; a cap is raised, a run is handed back."""
    return asked.kind not in {CAP, HANDED_OVER}


def read_when(sheet: RunSheet, *, converses: bool) -> str:
    """Return when a message that is written now is read."""
    if sheet.phase in ENDS:
        return "starts the next run" if converses else "nobody reads it until a run starts"
    if sheet.phase is Phase.CANCELLING:
        return "kept in the thread"
    if not sheet.reads_messages:
        return "kept; it is not known to read while it works"
    return "read when it goes on" if sheet.phase is Phase.PAUSED else "read at the next safe point"


# ── the slots ────────────────────────────────────────────────────────────────────────────────


def slots(sheet: RunSheet, now: float, *, connected: bool = True) -> tuple[Slot, Slot, Slot]:
    """Return the three slots as they are now."""
    if sheet.phase in ENDS:
        return _after(sheet)
    found = (_first(sheet, now), _of(sheet.preview["redirect"]), _third(sheet, now))
    if connected:
        return found
    one, two, three = (
        Slot(slot.verb, slot.label, AWAY[number], slot.enabled, slot.confirm)
        for number, slot in enumerate(found, 1)
    )
    return one, two, three


def _of(offer: Offer) -> Slot:
    return Slot(offer.verb, offer.label, offer.consequence, offer.enabled, offer.confirm)


def _first(sheet: RunSheet, now: float) -> Slot:
    """Return pause, or the verb that lifts the hold: each cause is lifted by its owner only."""
    offers, holds = sheet.preview, set(sheet.holds)
    if sheet.phase is Phase.WAITING or (Cause.STALE in holds and sheet.questions):
        return _review(sheet, now)
    if sheet.phase in {Phase.PAUSING, Phase.PAUSED}:
        if Cause.CAP in holds and offers["raise limits"].enabled:
            return _of(offers["raise limits"])
        if Cause.HUMAN in holds and offers["hand back"].enabled:
            return _of(offers["hand back"])
        return _of(offers["resume"])
    return _of(offers["pause"])


def _review(sheet: RunSheet, now: float) -> Slot:
    number = len(sheet.questions)
    says = "One decision" if number == 1 else f"{number} decisions"
    ends = [asked.expires_at for asked in sheet.questions if asked.expires_at is not None]
    if ends:
        left = max(0.0, min(ends) - now)
        says += f", {left / 60:.0f} min left" if left >= 90 else f", {left:.0f} s left"
    return Slot("answer", "Review", says, bool(number))


def _third(sheet: RunSheet, now: float) -> Slot:
    offer = sheet.preview["cancel"]
    if sheet.phase is Phase.CANCELLING and offer.enabled:
        begun = max((mark.at for mark in sheet.marks if mark.kind == "cancel"), default=now)
        if now - begun < STOP_NOW_AFTER_S:
            return Slot("cancel", "Stop now", "It is being cancelled", enabled=False)
    return _of(offer)


def _after(sheet: RunSheet) -> tuple[Slot, Slot, Slot]:
    """Return the slots of a run that has ended: the verbs that are still possible."""
    again = _again(sheet)
    undo = _of(sheet.preview["undo"])
    new = Slot("start", "New run", "Leaves this one as it is")
    match sheet.phase:
        case Phase.DONE:
            return Slot("start", "Start another", "Leaves this one as it is"), again, undo
        case Phase.KILLED:
            back = sheet.preview["recover"]
            return new, _of(back), undo
        case _:
            return again, new, undo


def _again(sheet: RunSheet) -> Slot:
    label = "Start again" if sheet.phase is Phase.CANCELLED else "Try again"
    if sheet.fork_from is None:
        return Slot("fork", label, "It had not begun", enabled=False)
    return Slot("fork", label, f"A fork from {sheet.fork_from.name}, context kept")
