"""The effects that a stop reaches: a run's own, and those of the background runs below it.

A front door that shows a run does not always have the runs below it at hand. Then it says only what
is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from midflight.kernel.phases import Mode, Outcome, Phase
from midflight.kernel.state import Attempt, RunState

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
                if spawn.child in below:
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
        return [a for run in self.runs for a in (_to_undo(run) if run.alive else _undoable(run))]

    @property
    def can_undo(self) -> list[Attempt]:
        """The effects that an undo after the end would undo; each is offered only once."""
        return [a for run in self.runs for a in _undoable(run) if a.position not in run.undo_wanted]

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


def _undoable(state: RunState) -> list[Attempt]:
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
