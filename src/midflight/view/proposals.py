"""Proposals: higher caps with which a run goes on, and the step from which it is tried again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from midflight.journal.events import QuestionOpened
from midflight.journal.limits import WARN_AT, Meter, meters
from midflight.journal.phases import ENDS, Phase
from midflight.journal.record import Limits
from midflight.journal.state import Question, RunState
from midflight.view.data import ForkFrom, RunView, StepSheet

CAP: Final = "cap"  # the kind of a question that a higher cap answers
GROW: Final = 2  # a cap that is reached is offered twice as high


def raised(sheet: RunView) -> dict[str, float]:
    """Return caps that would let a run go on for as long again.

    These are the cap that holds the run, or else those that are nearly reached. There are no
    others: a person who sends the form as it is raises what stops the run, and nothing besides.
    """
    held_by = next((one.cap for one in sheet.questions if one.cap), "")
    return _raised(sheet.limits, sheet.meters, held_by)


def raised_of(state: RunState, now: float) -> dict[str, float]:
    """Return the same as ``raised``, for a run without a sheet at hand."""
    held_by = next((cap_in(one)[0] for one in state.questions.values() if one.kind == CAP), "")
    return _raised(state.limits, meters(state, now), held_by)


def typed(cap: float) -> str:
    """A cap as it can be typed: all its digits, and no power of ten in it."""
    return f"{cap:.15g}"


def cap_in(asked: QuestionOpened | Question) -> tuple[str, str]:
    """Return the name of the cap that a question is about, and why it holds the run.

    A journal has both in one text, as "usd: the cap of 2 is reached. Raise it to go on." This is
    the only place that takes it apart.
    """
    name, _, words = asked.message.partition(":")
    return name.replace(" ", "_"), words.partition(". ")[0].strip()


def _raised(limits: Limits, full: Iterable[Meter], held_by: str) -> dict[str, float]:
    near = [meter.name for meter in full if meter.share >= WARN_AT]
    names = [held_by] if held_by in Limits.__struct_fields__ else near
    caps = {name: getattr(limits, name) for name in names}
    return {name: max(1, cap * GROW) for name, cap in caps.items() if cap is not None}


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
