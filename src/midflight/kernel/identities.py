"""How a journal names what belongs to a step: the question about it, the timer of its next try."""

from __future__ import annotations

from typing import Final

from midflight.kernel.events import QuestionOpened

APPROVE: Final = "approve:"  # before the step's identity, and after it what it would do
RETRY: Final = "retry:"  # before it, in the timers of steps that wait before they try again


def about_step(asked: QuestionOpened) -> str:
    """The identity of the step that is to be approved; empty for any other question."""
    is_step = asked.kind == "approval" and asked.step.startswith(APPROVE)
    return asked.step.removeprefix(APPROVE).rpartition(":")[0] if is_step else ""
