"""How a journal names steps, the questions about them, and the timers of their next tries."""

from __future__ import annotations

from typing import Final

from midflight.kernel.events import QuestionOpened

APPROVE: Final = "approve:"  # before the step's identity, and after it what it would do
RETRY: Final = "retry:"  # before it, in the timers of steps that wait before they try again


def about_step(asked: QuestionOpened) -> str:
    """The identity of the step that is to be approved; empty for any other question."""
    is_step = asked.kind == "approval" and asked.step.startswith(APPROVE)
    return asked.step.removeprefix(APPROVE).rpartition(":")[0] if is_step else ""


def turn(step: str) -> tuple[str, int]:
    """What an identity stands for, and for which time it is asked for: ``what#2`` the second."""
    what, mark, number = step.rpartition("#")
    return (what, int(number)) if mark else (step, 1)
