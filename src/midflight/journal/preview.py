"""The words on each control before it is pressed: its consequence now, and how far it reaches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from midflight.journal.phases import Cause, Mode, Outcome, Phase
from midflight.journal.state import Attempt, RunState
from midflight.journal.transition_table import TRANSITIONS, VERBS

Below = Mapping[str, RunState]
"""Runs below a run, by their ids: all of them, or those that are at hand."""

BACKGROUND: Final = "background run"
_IN_DOUBT: Final = {None, Outcome.DONE, Outcome.UNKNOWN}
_GONE: Final = {Outcome.NOT_DONE, Outcome.NOT_STARTED}


class Reach:
    """A run and all below it that is at hand, as a cancel or an undo comes upon them."""

    def __init__(self, state: RunState, below: Below) -> None:
        self.runs = [state]
        self.unseen: list[tuple[Attempt, bool]] = []  # spawns, and whether what they began lives
        for run in self.runs:
            for spawn in run.effects.values() if run.children else ():
                if spawn.child in below:  # layer preview-looks-at-runs-below
                    self.runs.append(below[spawn.child])
                elif spawn.child and not spawn.undone:
                    self.unseen.append((spawn, not run.children.get(spawn.child)))

    @property
    def flying(self) -> list[Attempt]:
        """The attempts that are in flight anywhere."""
        return [a for run in self.runs if run.alive for a in run.open.values()]

    @property
    def cancels(self) -> str:
        """The background runs that a cancel ends."""
        living = sum(run.alive for run in self.runs[1:]) + sum(lives for _, lives in self.unseen)
        return f"cancels {count(living, BACKGROUND)}" if living else ""

    @property
    def perhaps(self) -> str:
        """Words for runs whose effects are not at hand: nobody here knows what is undone there."""
        return f"what it can of {count(len(self.unseen), BACKGROUND)}" if self.unseen else ""

    @property
    def undoes(self) -> list[Attempt]:
        """The effects that a cancel would undo."""
        return [
            a for run in self.runs for a in (_to_undo(run) if run.alive else _undoable_effects(run))
        ]

    @property
    def can_undo(self) -> list[Attempt]:
        """The effects that an undo after the end would undo; each is offered only once."""
        return [
            a
            for run in self.runs
            for a in _undoable_effects(run)
            if a.position not in run.undo_wanted
        ]

    @property
    def stays(self) -> list[Attempt]:
        """The effects that have happened, or may have, and cannot be undone."""
        return [a for run in self.runs for a in _staying(run)]


def _to_undo(state: RunState) -> list[Attempt]:
    """Return the effects that a cancel would undo: done or in doubt, with an undo, not undone."""
    return [
        a
        for a in _own(state)
        if a.undoable and a.undone is None and a.outcome in _IN_DOUBT and not state.repeated(a)
    ]


def _undoable_effects(state: RunState) -> list[Attempt]:
    """Return the effects that can be undone after the end, also again where undoing has failed."""
    return [a for a in _own(state) if a.can_be_undone and not state.repeated(a)]


def _staying(state: RunState) -> list[Attempt]:
    staying = [a for a in _own(state) if not a.undoable and a.outcome not in _GONE]
    return [a for a in staying if not state.repeated(a)]


def _own(state: RunState) -> list[Attempt]:
    return [a for a in state.effects.values() if not a.child]


# ── words ────────────────────────────────────────────────────────────────────────────────────


def waits_for_step(runs: Iterable[RunState]) -> str:
    """Return the first words about a stop that is heard only between steps, or nothing."""
    slow = [n for n, run in enumerate(runs) if run.mode is Mode.BOUNDARY and _works(run)]
    if not slow:
        return ""
    whose = "this" if slow[0] == 0 else f"a {BACKGROUND}'s"
    return f"Waits for the end of {whose} step"


def _works(run: RunState) -> bool:
    return run.phase in {Phase.RUNNING, Phase.PAUSING}


def listed(attempts: Iterable[Attempt]) -> str:
    """Name each attempt by its label, or count several of one noun; a long list is cut."""
    listing = list(attempts)
    counted = Counter(a.noun for a in listing)
    labels = {a.noun: a.label for a in listing}
    words = [labels[noun] if n == 1 else count(n, noun) for noun, n in counted.items()]
    if len(words) > 3:
        words = [*words[:2], f"{len(words) - 2} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def count(n: int, noun: str) -> str:
    """Return a number and the plural of a noun, or the noun alone for one."""
    return noun if n == 1 else f"{n} {_plural(noun)}"


def _plural(noun: str) -> str:
    """The plural of a noun in English, or of the last word of one."""
    low = noun.lower()
    if low.endswith("y") and low[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if low.endswith(("s", "x", "z", "ch", "sh")) else f"{noun}s"


def agreeing(attempts: Sequence[Attempt], one: str, several: str) -> str:
    """Return the list, and the verb that agrees with it; empty for no attempts."""
    return f"{listed(attempts)} {one if len(attempts) == 1 else several}" if attempts else ""


def staying(attempts: Sequence[Attempt]) -> str:
    """Name what stays, and what may: nobody knows of an unknown outcome whether it happened."""
    doubtful = [a for a in attempts if a.outcome is Outcome.UNKNOWN]
    certain = [a for a in attempts if a.outcome is not Outcome.UNKNOWN]
    parts = agreeing(certain, "stays", "stay"), agreeing(doubtful, "may stay", "may stay")
    return ", ".join(filter(None, parts))


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
