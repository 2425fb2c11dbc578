"""The names that a journal gives to steps, to the questions about them, and to their timers."""

from __future__ import annotations

from typing import Final

from midflight.journal.events import QuestionOpened

APPROVE: Final = "approve:"  # before the step's identity, and after it what it would do
SETTLE: Final = "settle:"  # before the position of an attempt that is looked up again
REPEAT: Final = "repeat"  # kind of the question before an effect is done a second time
AGAIN: Final = "again"  # kind of the question before something like an earlier effect is done
KEYED: Final = "key="  # identities that a user chose; a snapshot does not forget them
RETRY: Final = "retry:"  # before it, in the timers of steps that wait before they try again


def about_step(asked: QuestionOpened) -> str:
    """Return the identity of the step that is to be approved; empty for any other question."""
    is_step = asked.kind == "approval" and asked.step.startswith(APPROVE)
    return asked.step.removeprefix(APPROVE).rpartition(":")[0] if is_step else ""


def asking_step(asked: QuestionOpened) -> str:
    """Return the identity of the step that asks before it begins; empty for any other question.

    A question of kind ``repeat`` or ``again`` is also ``about`` an earlier effect. That effect is
    done: the step that would do it once more is the one that waits for the answer.
    """
    if asked.kind in {REPEAT, AGAIN} and asked.step.startswith(f"{asked.kind}:"):
        return asked.step.removeprefix(f"{asked.kind}:")
    return about_step(asked)


def turn(step: str) -> tuple[str, int]:
    """Split an identity into a name and its turn: ``what#2`` is asked for the second time."""
    what, mark, number = step.rpartition("#")
    return (what, int(number)) if mark else (step, 1)
