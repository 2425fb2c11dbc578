"""What a stop reaches: a run's own effects, and those of the background runs below it.

Who shows a run does not always have the runs below it at hand. Then only what is known is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
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
        """What is in flight anywhere."""
        return [a for run in self.runs if run.alive for a in run.open.values()]

    @property
    def cancels(self) -> str:
        """The background runs that a cancel ends."""
        living = sum(run.alive for run in self.runs[1:]) + sum(lives for _, lives in self.unseen)
        return f"cancels {count(living, BACKGROUND)}" if living else ""

    @property
    def perhaps(self) -> str:
        """What it undoes of runs whose effects are not at hand: nobody here knows."""
        return f"what it can of {count(len(self.unseen), BACKGROUND)}" if self.unseen else ""

    @property
    def undoes(self) -> list[Attempt]:
        """What a cancel would undo."""
        return [a for run in self.runs for a in (_to_undo(run) if run.alive else _undoable(run))]

    @property
    def can_undo(self) -> list[Attempt]:
        """What an undo would, once the run has ended."""
        return [a for run in self.runs for a in _undoable(run)]

    @property
    def stays(self) -> list[Attempt]:
        """What has happened, or may have, and cannot be undone."""
        return [a for run in self.runs for a in _staying(run)]


def _to_undo(state: RunState) -> list[Attempt]:
    """What a cancel would undo: done or in doubt, with an undo, not undone yet."""
    return [
        a
        for a in _own(state)
        if a.undoable and a.undone is None and a.outcome in _IN_DOUBT and not state.repeated(a)
    ]


def _undoable(state: RunState) -> list[Attempt]:
    """What can be asked for once it has ended, also a second time where undoing failed."""
    return [a for a in _own(state) if a.can_be_undone and not state.repeated(a)]


def _staying(state: RunState) -> list[Attempt]:
    staying = [a for a in _own(state) if not a.undoable and a.outcome not in _GONE]
    return [a for a in staying if not state.repeated(a)]


def _own(state: RunState) -> list[Attempt]:
    return [a for a in state.effects.values() if not a.child]


# ── words ────────────────────────────────────────────────────────────────────────────────────


def waits_for_step(runs: Iterable[RunState]) -> str:
    """How the words about a stop begin where it is heard only between steps."""
    slow = [n for n, run in enumerate(runs) if run.mode is Mode.BOUNDARY and _works(run)]
    if not slow:
        return ""
    whose = "this" if slow[0] == 0 else f"a {BACKGROUND}'s"
    return f"Waits for the end of {whose} step"


def _works(run: RunState) -> bool:
    return run.phase in {Phase.RUNNING, Phase.PAUSING}


def listed(attempts: Iterable[Attempt]) -> str:
    """Their nouns, counted; a long list is cut."""
    counted = Counter(a.noun for a in attempts)
    words = [noun if n == 1 else count(n, noun) for noun, n in counted.items()]
    if len(words) > 3:
        words = [*words[:2], f"{len(words) - 2} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def count(n: int, noun: str) -> str:
    """So many of something; one is not counted."""
    return noun if n == 1 else f"{n} {noun}s"
