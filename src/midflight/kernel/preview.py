"""The words on each control before it is pressed: what it would do now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from midflight.kernel.machine import TRANSITIONS, VERBS
from midflight.kernel.phases import Cause, Phase
from midflight.kernel.reach import (
    BACKGROUND,
    Below,
    Reach,
    agreeing,
    count,
    listed,
    staying,
    waits_for_step,
)
from midflight.kernel.state import Attempt, RunState

NOT_AT_HAND: Final[Below] = {}


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


def preview(state: RunState, below: Below = NOT_AT_HAND) -> dict[str, Offer]:
    """Every verb with its true consequence for this run at this moment.

    ``below`` are the runs that it has begun, and theirs: what a cancel does to them is named where
    they are at hand.
    """
    return {verb: _offer(state, verb, below) for verb in VERBS}


def _offer(state: RunState, verb: str, below: Below) -> Offer:
    why_not = _why_not(state, verb)
    if why_not:
        return Offer(verb, LABELS[verb], enabled=False, consequence=why_not)
    if verb == "cancel":
        return _cancel(state, Reach(state, below))
    if verb == "resume" and state.phase is Phase.PAUSING and state.holds == {Cause.USER}:
        return Offer(verb, "Keep running", enabled=True, consequence="Takes the pause back")
    words = _CONSEQUENCES[verb](state, below if verb in _REACHING else NOT_AT_HAND)
    return Offer(verb, LABELS[verb], enabled=True, consequence=words)


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


def _pause(state: RunState, below: Below) -> str:
    reach = Reach(state, below)
    finishing = listed(a for a in reach.flying if a.effect.touches_world)
    if waits := waits_for_step(reach.runs):
        return f"{waits}{f' ({finishing})' if finishing else ''}, then holds"
    return f"Finishes {finishing} first, keeps context" if finishing else "Resume keeps context"


def _redirect(state: RunState, _below: Below) -> str:
    if state.waiting and state.questions:
        return "Skips this, rewrites the step"
    if waits := waits_for_step([state]):
        return f"{waits}, then rewrites the next"
    if state.phase is not Phase.PAUSED:
        return "Rewrites the next step"
    return "Used when you resume" if state.holds == {Cause.USER} else "Used when it goes on"


def _cancel(state: RunState, reach: Reach) -> Offer:
    undoes, stays = listed(reach.undoes), staying(reach.stays)
    if state.phase is Phase.CANCELLING:
        left = " and ".join(filter(None, [undoes, _unseen(reach)]))
        text = f"Skips undo, {left} may remain" if left else "Skips what is left"
        return Offer("cancel", "Stop now", enabled=True, consequence=text)
    undone = ", ".join(filter(None, [undoes, reach.perhaps]))
    parts = [reach.cancels, undone and f"undoes {undone}", stays]
    parts.append("saves partial work to thread" if any(parts) else "saves what is done so far")
    text = ", ".join(part for part in parts if part)
    waits = waits_for_step(reach.runs)
    text = f"{waits}, then {text}" if waits else text[0].upper() + text[1:]
    flying = agreeing([a for a in reach.flying if a.irreversible], "is", "are")
    confirm = f"{flying} under way and cannot be stopped. Cancel anyway?" if flying else ""
    return Offer("cancel", "Cancel", True, text, confirm)


def _undo(state: RunState, below: Below) -> str:
    reach = Reach(state, below)
    undoes = " and ".join(filter(None, [listed(reach.can_undo), _unseen(reach)]))
    below_it = [a for run in reach.runs[1:] for a in Reach(run, NOT_AT_HAND).stays]
    parts = [undoes and f"undoes {undoes}", staying(below_it)]
    text = ", ".join(part for part in parts if part) or "nothing is left to undo below"
    return text[0].upper() + text[1:]


def _unseen(reach: Reach) -> str:
    spawned = len(reach.unseen)
    return f"what {count(spawned, BACKGROUND)} did" if spawned else ""


def _undoable(state: RunState) -> bool:
    """Return whether an undo can be asked for once the run has ended, also in a run below."""
    return any(
        a.can_be_undone and not state.repeated(a)
        for a in state.effects.values()
        if a.position not in state.undo_wanted
    )


def _stoppable(state: RunState) -> list[Attempt]:
    return [a for a in state.open.values() if a.can_be_stopped]


_REACHING: Final = {"pause", "undo"}
"""Verbs besides cancel that go down to the runs below."""

_CONSEQUENCES: Final[dict[str, Callable[[RunState, Below], str]]] = {
    "pause": _pause,
    "resume": lambda state, _: _then(state, Cause.USER, "Continues with context kept"),
    "redirect": _redirect,
    "answer": lambda state, _: f"{len(state.questions)} decision{'s' * (len(state.questions) > 1)}",
    "stop effect": lambda state, _: (
        f"Aborts {listed(_stoppable(state))}, which may have partly happened"
    ),
    "raise limits": lambda state, _: (
        _then(state, Cause.CAP, "Then continues")
        if Cause.CAP in state.holds
        else "Allows more before it asks"
    ),
    "take over": lambda state, below: f"{_pause(state, below)}; yours until you hand it back",
    "hand back": lambda state, _: _then(state, Cause.HUMAN, "Goes on with what you tell it"),
    "undo": _undo,
    "recover": lambda state, _: "Comes back paused",
}
