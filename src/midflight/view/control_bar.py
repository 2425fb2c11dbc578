"""The bar of a run: the state in words, and three slots, each with its consequence now.

Every front door draws this bar and chooses no words of its own. A sheet comes with its bar, in
which nothing depends on the clock; ``at`` says how a slot stands at a moment.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

from msgspec.structs import replace

from midflight.control.verbs import VERBS
from midflight.journal.phases import ENDS, Cause, Phase, Role
from midflight.journal.requests import ASIDE
from midflight.view.data import Asked, Bar, RunSheet, Slot
from midflight.view.shown_values import CAP, UNPRICED, cap_words, money

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
RECONNECTING: Final = "Reconnecting"
NOBODY_READS: Final = "nobody reads it until a run starts"
NOT_YET: Final = "Undoing first, offered in {} s"
AWAY: Final = {
    1: "Sent when back online",
    2: "Asks again when back",
    3: "Asks again when back",
}
LAST_SEEN: Final = {
    Phase.QUEUED: "It had not begun when the line was lost",
    Phase.PAUSING: "It was pausing when the line was lost",
    Phase.PAUSED: "It was paused when the line was lost",
    Phase.WAITING: "It waits for you",
    Phase.CANCELLING: "It was cancelling when the line was lost",
}
"""The way a run stood when the line was lost, which is all that is known."""
CURRENT: Final = frozenset({"running", "paused", "waiting", "retrying", "undoing", "lost"})
"""States of a step at which a run may stand."""
TO_UNDO: Final = ("to be undone", "being undone")
"""Words of a receipt for effects that a cancel has still to undo."""


def bar(sheet: RunSheet) -> Bar:
    """Return the bar of a run; its slots are those of a door that can do everything."""
    looks, word, detail = _stands(sheet)
    found = _places(sheet, SCREEN)
    offered = {slot.verb for slot in found}
    menu = tuple(v for v, offer in sheet.preview.items() if offer.enabled and v not in offered)
    return Bar(looks, word, detail, found, menu, _last_seen(sheet), read_when(sheet))


def at(slot: Slot, now: float) -> Slot:
    """Return a slot as it stands at a moment: still closed, or with the time that is left."""
    if slot.opens_at is not None and now < slot.opens_at:
        wait = ceil(min(STOP_NOW_AFTER_S, slot.opens_at - now))
        return replace(slot, enabled=False, consequence=NOT_YET.format(wait))
    if slot.expires_at is not None:
        says = f"{slot.consequence}, {time_left(slot.expires_at - now)}"
        return replace(slot, consequence=says)
    return slot


def slots(sheet: RunSheet, now: float, *, connected: bool = True) -> tuple[Slot, ...]:
    """Return the three slots of a terminal as they are now."""
    found = [at(slot, now) for slot in _places(sheet, TERMINAL)]
    if connected or sheet.phase in ENDS:
        return tuple(found)
    return tuple(replace(slot, consequence=AWAY[number]) for number, slot in enumerate(found, 1))


# ── the state in words ───────────────────────────────────────────────────────────────────────


def headline(sheet: RunSheet) -> tuple[str, str]:
    """Return the word for the run's state, and a few words about it."""
    return _stands(sheet)[1:]


def _stands(sheet: RunSheet) -> tuple[str, str, str]:
    """Return the looks, the word and the detail of a run."""
    phase, word = sheet.phase, PHASE_WORDS[sheet.phase]
    if sheet.undriven_since is not None:
        return "undriven", UNDRIVEN, _undriven(sheet, word.lower())
    if phase is Phase.PAUSED:
        return _paused(sheet)
    if phase is Phase.FAILED and sheet.fork_from is not None:
        word = f"{word} at step {sheet.fork_from.number}"
    return phase, word, _DETAILS[phase](sheet)


def _undriven(sheet: RunSheet, word: str) -> str:
    agent = sheet.agent.removesuffix(ASIDE)
    if sheet.phase in ENDS:
        return f"It is {word}; what is to be undone waits for a process with agent {agent}"
    return f"It was {word}; it goes on when a process with agent {agent} runs"


def _asked(sheet: RunSheet) -> str:
    return next((asked.message for asked in sheet.questions if asked.kind != CAP), "")


def _finishing(sheet: RunSheet) -> str:
    names = " and ".join(dict.fromkeys(each.noun or each.name for each in sheet.in_flight))
    return f"finishing {names}" if names else ""


def _doing(sheet: RunSheet) -> str:
    running = [step.name for step in sheet.steps if step.status in CURRENT]
    running = running or [flying.name for flying in sheet.in_flight[:1]]
    number = len(sheet.questions)
    asks = f"{number} question{'s' * (number > 1)} for you" if number else ""
    return ", ".join(filter(None, [" and ".join(dict.fromkeys(running)), asks]))


def _paused(sheet: RunSheet) -> tuple[str, str, str]:
    """Say by which hold; the person's own first, which is what they remember."""
    looks, word, holds = Phase.PAUSED, PHASE_WORDS[Phase.PAUSED], set(sheet.holds)
    if Cause.USER in holds:
        return looks, word, _at_rest(sheet)
    if Cause.CAP in holds:
        return looks, "Paused at the cap", at_cap(sheet)
    if Cause.HUMAN in holds:
        word = f"{sheet.human} has it" if sheet.human else "Handed to a person"
        return "human", word, _asked(sheet) or "It goes on when it is handed back"
    if Cause.STALE in holds and _asked(sheet):
        return Phase.WAITING, PHASE_WORDS[Phase.WAITING], _asked(sheet)
    if Cause.PARKED in holds:
        return looks, "Parked", sheet.parked_for or "Something else is in front"
    if Cause.DRAIN in holds:
        return looks, word, "Goes on when its server is back"
    return looks, word, _at_rest(sheet)


def _at_rest(sheet: RunSheet) -> str:
    alive = sum(child.ended_at is None and child.phase != "paused" for child in sheet.background)
    if alive:
        return f"{alive} background task{'s' * (alive > 1)} still run{'s' * (alive == 1)}"
    return "Nothing is running or spending"


def _undoing(sheet: RunSheet) -> str:
    words = [line.word for line in sheet.receipt.lines]
    done, left = words.count("undone"), sum(words.count(word) for word in TO_UNDO)
    if left:
        return f"Undoing {done + 1} of {done + left}, saving to thread"
    return (sheet.undoing[:1].upper() + sheet.undoing[1:]) or "Saving to thread"


def _failed(sheet: RunSheet) -> str:
    named = "" if sheet.fork_from is not None else sheet.failed_step  # the word has its number
    return ": ".join(filter(None, [named, sheet.cause]))


_DETAILS: Final[dict[Phase, Callable[[RunSheet], str]]] = {
    Phase.QUEUED: lambda _: "",
    Phase.RUNNING: _doing,
    Phase.PAUSING: _finishing,
    Phase.WAITING: _asked,
    Phase.CANCELLING: _undoing,
    Phase.DONE: lambda sheet: sheet.result,
    Phase.CANCELLED: lambda sheet: (
        "Work saved to thread" if sheet.receipt.saved else "Its receipt says what was done"
    ),
    Phase.FAILED: _failed,
    Phase.KILLED: lambda sheet: sheet.ended_by,
}


def _last_seen(sheet: RunSheet) -> str:
    """Return how a run stood that cannot be asked any more; one that ended does not change."""
    if sheet.phase in ENDS:
        return ""
    if sheet.phase is Phase.PAUSED and set(sheet.holds) == {Cause.STALE} and _asked(sheet):
        return LAST_SEEN[Phase.WAITING]
    return LAST_SEEN.get(sheet.phase, "The agent keeps running")


def at_cap(sheet: RunSheet) -> str:
    """Return how full the cap is that holds the run, or why it holds if it has no meter."""
    asked = next((one for one in sheet.questions if one.kind == CAP), None)
    if asked is not None and asked.cap == "usd":
        return f"{money(sheet.spent.usd)}{UNPRICED * bool(sheet.spent.unpriced)} spent"
    meter = next((meter for meter in sheet.meters if asked and meter.name == asked.cap), None)
    if meter is not None:
        return f"{cap_words(meter, sheet.spent)} used"
    return (asked.why.capitalize() if asked else "") or "All that it may"


def time_left(seconds: float) -> str:
    """``expired``, ``40 s left``, ``12 min left``, ``3 h left``."""
    if seconds <= 0:
        return "expired"
    if seconds < 90:
        return f"{ceil(seconds)} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 5400 else f"{seconds / 3600:.0f} h left"


def is_answered(asked: Asked) -> bool:
    """Return whether a question takes an answer; a cap is raised, a run is handed back."""
    return asked.verb == "answer"


def read_when(sheet: RunSheet, *, converses: bool = True) -> str:
    """Return when a message that is written now is read."""
    if sheet.phase in ENDS:
        return "starts the next run" if converses else NOBODY_READS
    if sheet.phase is Phase.CANCELLING:
        return "kept in the thread"
    if not sheet.reads_messages:
        return "kept, but this agent may not read it"
    return "read when it goes on" if sheet.phase is Phase.PAUSED else "read at the next safe point"


# ── the slots ────────────────────────────────────────────────────────────────────────────────

TERMINAL: Final = frozenset({"start", "fork", "undo", "recover"})
SCREEN: Final = TERMINAL | {"result", "rewrite", "close"}
"""Acts after the end that a door can do; ``rewrite`` is a fork with another brief."""


def _places(sheet: RunSheet, acts: frozenset[str]) -> tuple[Slot, ...]:
    if sheet.phase in ENDS:
        places = ([slot for slot in place if slot.verb in acts] for place in _after(sheet))
        return tuple(place[0] for place in places)
    return _first(sheet), _of(sheet, "redirect"), _third(sheet)


def _of(sheet: RunSheet, verb: str) -> Slot:
    offer = sheet.preview.get(verb)
    if offer is None:  # an outline does not look at every verb
        return Slot(verb, "", "Not now", enabled=False)
    role = VERBS[verb.replace(" ", "_")].role
    return Slot(verb, offer.label, offer.consequence, offer.enabled, offer.confirm, role=role)


def _first(sheet: RunSheet) -> Slot:
    """Return pause, or the verb that lifts the hold: each cause is lifted by its owner only."""
    holds = set(sheet.holds)
    if sheet.phase is Phase.CANCELLING:
        return _of(sheet, "pause")
    if sheet.phase is Phase.PAUSING or Cause.USER in holds:
        return _of(sheet, "resume")
    for cause, verb in ((Cause.CAP, "raise limits"), (Cause.HUMAN, "hand back")):
        if cause in holds:
            return _of(sheet, verb)
    if (sheet.phase is Phase.WAITING or Cause.STALE in holds) and _asked(sheet):
        return _review(sheet)
    return _of(sheet, "resume" if sheet.phase is Phase.PAUSED else "pause")


def _review(sheet: RunSheet) -> Slot:
    number = len(sheet.questions)
    says = "One decision" if number == 1 else f"{number} decisions"
    ends = [asked.expires_at for asked in sheet.questions if asked.expires_at is not None]
    return Slot("answer", "Review", says, expires_at=min(ends, default=None))


def _third(sheet: RunSheet) -> Slot:
    slot = _of(sheet, "cancel")
    if sheet.phase is not Phase.CANCELLING or not slot.enabled:
        return slot
    begun = max((mark.at for mark in sheet.marks if mark.kind == "cancel"), default=None)
    return replace(slot, opens_at=(begun or sheet.updated_at) + STOP_NOW_AFTER_S)


def _after(sheet: RunSheet) -> tuple[tuple[Slot, ...], ...]:
    """Return the three places after the end, each with its acts: a door takes the first it can."""
    undo, saved = _of(sheet, "undo"), bool(sheet.receipt.saved)
    new = Slot("start", "New run", "Leaves this one as it is")
    match sheet.phase:
        case Phase.DONE:
            another = Slot("start", "Start another", "The same agent, a new task")
            result = Slot("result", "Open result", "The whole of it", role=Role.VIEWER)
            return (another,), (result, _again(sheet)), (undo,)
        case Phase.KILLED:
            return (new,), (_of(sheet, "recover"),), (undo,)
        case Phase.FAILED:
            left = "Work so far is in the thread" if saved else "Leaves this one as it is"
            close = Slot("close", "Close", left, role=Role.VIEWER)
            return (_again(sheet),), (_rewrite(sheet), new), (close, undo)
        case _:
            return (_again(sheet),), (new,), (undo,)


def _again(sheet: RunSheet) -> Slot:
    label = "Start again" if sheet.phase is Phase.CANCELLED else "Try again"
    if sheet.fork_from is None:
        return Slot("fork", label, "It had not begun", enabled=False)
    return Slot("fork", label, f"A fork from step {sheet.fork_from.number}, context kept")


def _rewrite(sheet: RunSheet) -> Slot:
    number = sheet.fork_from and sheet.fork_from.number
    says = f"Rewrites step {number}" if number else "Starts with a new brief"
    return Slot("rewrite", "Redirect", says)
