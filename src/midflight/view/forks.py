"""Finds the step from which an ended run would be tried again: one rule for all front doors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from midflight.kernel.phases import ENDS, Phase
from midflight.view.data import ForkFrom, StepSheet

THERE: Final = frozenset({"done", "kept", "skipped"})
"""States of a step whose work need not be done again."""
BIRTH: Final = 1  # the record that starts a run; there is nothing before it to take over


def fork_from(phase: Phase, steps: Sequence[StepSheet], failed: str) -> ForkFrom | None:
    """The step that failed, or the first whose work is not there any more.

    A fork takes over what came before it. Where all of it is there, it begins with the last one.
    """
    if phase not in ENDS:
        return None
    begun = [(number, step) for number, step in enumerate(steps, 1) if step.position > BIRTH]
    broken = []
    if phase is Phase.FAILED:
        named = [place for place in begun if place[1].name == failed]
        broken = named or [place for place in begun if place[1].status == "failed"]
    gone = [place for place in begun if place[1].status not in THERE]
    for number, step in broken[-1:] or gone[:1] or begun[-1:]:
        return ForkFrom(step.position, number, step.name)
    return None
