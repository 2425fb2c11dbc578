"""The receipt: the outcome of every effect of a run, one word each, and the work that was saved."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from midflight.journal.phases import Outcome, Phase
from midflight.journal.state import LOST, NOT_SEEN, WORKER_LOST, Attempt, RunState
from midflight.journal.transition_table import TRANSITIONS, VERBS

UNDO_ASKED: Final = "undo asked for"
SAVED: Final = "Saved to thread"
INHERITED: Final = "Taken over from the run before"
GROUPS: Final = {"undone": "Undone", UNDO_ASKED: "Undo asked for"}
OTHERS: Final = {Phase.DONE: "Done", Phase.CANCELLING: "To be undone"}
"""Headings of the effects that are not undone; in other phases it is "Not undone"."""


class Line(Struct, frozen=True):
    """One effect, in words for a person: *undone*, *final (irreversible)*, *unknown (why)*.

    ``noun`` is its label, by which a person knows it from others of its kind. ``group`` is the
    heading under which it stands, and ``can_undo`` says whether an undo of it can be asked for.
    """

    position: int
    noun: str
    word: str
    why: str = ""
    earlier: bool = False  # done for a brief that was changed since, and not asked for again
    group: str = ""
    can_undo: bool = False

    @property
    def text(self) -> str:
        """The line as it is shown."""
        why = f" ({self.why})" if self.why else ""
        return f"{self.noun}: {self.word}{why}" + (", for the earlier brief" * self.earlier)


class Receipt(Struct, frozen=True):
    """Accounts for every effect, newest first as they are undone.

    ``inherited`` are effects of the run that this one was forked from: taken over, not its own.
    """

    run: str
    phase: Phase
    lines: tuple[Line, ...]
    saved: tuple[str, ...]
    inherited: tuple[str, ...] = ()


def receipt(state: RunState) -> Receipt:
    """Account for every effect of the run as it stands now."""
    effects = (effect for effect in reversed(state.effects.values()) if not state.repeated(effect))
    lines = tuple(_line(state, effect) for effect in effects)
    return Receipt(state.journal, state.phase, lines, tuple(state.saved), state.inherited)


def _line(state: RunState, effect: Attempt) -> Line:
    word, why = _word(state, effect)
    earlier = max(effect.course, effect.reused) < state.entered_course
    group = GROUPS.get(word) or OTHERS.get(state.phase, "Not undone")
    can_undo = effect.can_be_undone and effect.position not in state.undo_wanted
    return Line(
        effect.position,
        effect.label,
        word,
        why,
        earlier,
        group,
        can_undo and VERBS["undo"] in TRANSITIONS[state.phase],
    )


def _word(state: RunState, effect: Attempt) -> tuple[str, str]:
    if effect.undo_at_work:
        return "unknown", f"undo: {effect.undo_why}"
    if not state.alive and effect.position in state.still_to_undo and not effect.undone:
        return UNDO_ASKED, ""  # the journal does not say whether anybody works on it
    match effect.outcome:
        case None:
            return _in_flight(state)
        case Outcome.NOT_STARTED:
            return "not started", ""
        case Outcome.NOT_DONE:
            return "aborted", "proven"
        case Outcome.UNKNOWN:
            tried = effect.undone is not None or effect.undo_why
            return "unknown", "undo attempted" if tried else _doubt(effect)
        case _:
            return _done(state, effect)


def _doubt(effect: Attempt) -> str:
    """Say why nobody knows. That a check has looked in vain says more than how the try ended."""
    if not effect.unseen:
        return effect.why
    return f"{effect.why}; {NOT_SEEN}" if effect.why in LOST else NOT_SEEN


def _in_flight(state: RunState) -> tuple[str, str]:
    if state.alive:
        return "in flight", ""
    return "unknown", "in flight when the run was stopped"


def _done(state: RunState, effect: Attempt) -> tuple[str, str]:
    if effect.undone:
        return "undone", ""
    if effect.undone is False:
        return "could not be undone", effect.undo_why
    if effect.irreversible:
        return "final", "irreversible"
    if not effect.undoable:
        return "kept", "no undo"
    if effect.child and not state.cancel_tree:
        return "kept", "goes on by itself"
    if effect.undo:
        return "being undone", ""
    if state.phase is Phase.CANCELLING and not state.cancel_now:
        return "to be undone", ""
    if effect.undo_why == WORKER_LOST:  # it may have been undone, and nobody has tried again
        return "unknown", "undo attempted"
    if effect.undo_why:
        return "could not be undone", effect.undo_why
    skipped = state.phase is Phase.KILLED or state.cancel_now
    return "kept", "undo skipped" if skipped else ""
