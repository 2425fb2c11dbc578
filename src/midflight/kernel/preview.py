"""What each control would do now, in the words that stand on it before it is pressed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from midflight.kernel.machine import TRANSITIONS, VERBS
from midflight.kernel.phases import Cause, Outcome, Phase
from midflight.kernel.state import Attempt, RunState


class Offer(Struct, frozen=True):
    """One control: whether it can be pressed, its label, and what that costs or why not."""

    verb: str
    label: str
    enabled: bool
    consequence: str
    confirm: str = ""  # asked in place first, when something irreversible is in flight


LABELS: Final = {
    "pause": "Pause",
    "resume": "Resume",
    "redirect": "Redirect",
    "cancel": "Cancel",
    "answer": "Review",
    "stop effect": "Stop it",
    "raise limits": "Raise cap",
    "take over": "Take over",
    "hand back": "Hand back",
    "undo": "Undo",
    "recover": "Recover",
}


def preview(state: RunState) -> dict[str, Offer]:
    """Every verb with its true consequence for this run at this moment."""
    return {verb: _offer(state, verb) for verb in VERBS}


def _offer(state: RunState, verb: str) -> Offer:
    why_not = _why_not(state, verb)
    if why_not:
        return Offer(verb, LABELS[verb], enabled=False, consequence=why_not)
    if verb == "cancel":
        return _cancel(state)
    if verb == "resume" and state.phase is Phase.PAUSING and state.holds == {Cause.USER}:
        return Offer(verb, "Keep running", enabled=True, consequence="Takes the pause back")
    return Offer(verb, LABELS[verb], enabled=True, consequence=_CONSEQUENCES[verb](state))


def _why_not(state: RunState, verb: str) -> str:
    if VERBS[verb] not in TRANSITIONS[state.phase]:
        return f"Not while {state.phase}" if state.alive else f"It has ended: {state.phase}"
    reason = _REASONS.get(verb)
    return str((reason and reason(state)) or "")


def _already_held(state: RunState) -> str:
    held = state.phase in {Phase.PAUSING, Phase.PAUSED} and Cause.USER in state.holds
    return f"It is {state.phase}" if held else ""


def _held_otherwise(state: RunState) -> str:
    others = f"Held for another reason: {', '.join(sorted(state.holds))}"
    return "" if Cause.USER in state.holds else others


_REASONS: Final[dict[str, Callable[[RunState], str | bool]]] = {
    "pause": _already_held,
    "resume": _held_otherwise,
    "cancel": lambda s: s.phase is Phase.CANCELLING and s.cancel_now and "Stopping now",
    "answer": lambda s: not s.questions and "Nothing is asked",
    "stop effect": lambda s: not _stoppable(s) and "Nothing in flight can be stopped",
    "undo": lambda s: not _undoable(s) and "Nothing can be undone",
    "take over": lambda s: s.human and f"{s.human} has it",
    "hand back": lambda s: Cause.HUMAN not in s.holds and "Nobody has taken it over",
}
"""Why a verb that the phase takes cannot be pressed all the same; empty or false if it can.

Each is asked for its own verb only: some of them look at every effect of a long run.
"""


def _then(state: RunState, cause: Cause, words: str) -> str:
    others = ", ".join(sorted(state.holds - {cause}))
    return f"Still held afterwards: {others}" if others else words


def _pause(state: RunState) -> str:
    finishing = [a for a in state.open.values() if a.effect.touches_world]
    if finishing:
        return f"Finishes {_listed(finishing)} first, keeps context"
    return "Resume keeps context"


def _redirect(state: RunState) -> str:
    if state.waiting and state.questions:
        return "Skips this, rewrites the step"
    if state.phase is not Phase.PAUSED:
        return "Rewrites the next step"
    return "Used when you resume" if state.holds == {Cause.USER} else "Used when it goes on"


def _cancel(state: RunState) -> Offer:
    if state.phase is Phase.CANCELLING:
        left = _listed(_to_undo(state))
        text = f"Skips undo, {left} may remain" if left else "Skips what is left"
        return Offer("cancel", "Stop now", enabled=True, consequence=text)
    undoes, stays = _listed(_to_undo(state)), _listed(_staying(state))
    parts = [f"undoes {undoes}" if undoes else "", f"{stays} stays" if stays else ""]
    parts.append("saves partial work to thread" if any(parts) else "saves what is done so far")
    flying = [a for a in state.open.values() if a.irreversible]
    confirm = f"{_listed(flying)} is under way and cannot be stopped. Cancel anyway?"
    text = ", ".join(part for part in parts if part)
    return Offer("cancel", "Cancel", True, text[0].upper() + text[1:], confirm if flying else "")


def _to_undo(state: RunState) -> list[Attempt]:
    """What a cancel would undo: done or in doubt, with an undo, not undone yet."""
    in_doubt = {None, Outcome.DONE, Outcome.UNKNOWN}
    return [
        a
        for a in state.effects.values()
        if a.undoable and a.undone is None and a.outcome in in_doubt and not state.repeated(a)
    ]


def _undoable(state: RunState) -> list[Attempt]:
    """What can be asked for once it has ended, also a second time where undoing failed."""
    return [a for a in state.effects.values() if a.can_be_undone and not state.repeated(a)]


def _stoppable(state: RunState) -> list[Attempt]:
    return [a for a in state.open.values() if a.can_be_stopped]


def _staying(state: RunState) -> list[Attempt]:
    gone = {Outcome.NOT_DONE, Outcome.NOT_STARTED}
    staying = [a for a in state.effects.values() if not a.undoable and a.outcome not in gone]
    return [a for a in staying if not state.repeated(a)]


def _listed(attempts: Iterable[Attempt]) -> str:
    own_first = sorted(attempts, key=lambda a: bool(a.child))
    counted = Counter("background run" if a.child else a.noun for a in own_first)
    words = [noun if n == 1 else _count(n, noun) for noun, n in counted.items()]
    if len(words) > 3:
        words = [*words[:2], f"{len(words) - 2} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


_CONSEQUENCES: Final[dict[str, Callable[[RunState], str]]] = {
    "pause": _pause,
    "resume": lambda state: _then(state, Cause.USER, "Continues with context kept"),
    "redirect": _redirect,
    "answer": lambda state: _count(len(state.questions), "decision"),
    "stop effect": lambda state: (
        f"Aborts {_listed(_stoppable(state))}, which may have partly happened"
    ),
    "raise limits": lambda state: (
        _then(state, Cause.CAP, "Then continues")
        if Cause.CAP in state.holds
        else "Allows more before it asks"
    ),
    "take over": lambda state: f"{_pause(state)}; yours until you hand it back",
    "hand back": lambda state: _then(state, Cause.HUMAN, "Goes on with what you tell it"),
    "undo": lambda state: f"Undoes {_listed(_undoable(state))}",
    "recover": lambda state: "Comes back paused",
}
