"""Tells a log of a step: where its tool has failed, and that a person is asked about it.

The journal keeps one line of an error. The author of the tool needs the place, and people who wait
for the run have to learn that it waits for somebody. Secrets are hidden here as in the journal.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from midflight.executor.foreign import text, traceback_of
from midflight.executor.steps import Step

ASKED_MAX: Final = 500  # characters of a question in one line of a log

log: Final = logging.getLogger(__name__)


def _about(step: Step, action: str) -> dict[str, Any]:
    tool = step.tool.name
    return {"action": action, "run": step.host.journal.run, "step": step.name, "tool": tool}


def tell_of_doubt(step: Step, error: BaseException) -> None:
    """Log that an effect has raised, so that nobody knows whether it happened."""
    log.error(
        "Tool %s has raised in step %r, and it is not known whether it happened\n%s",
        step.tool.name,
        step.name,
        traceback_of(error),
        extra=_about(step, "tool_raised"),
    )


def tell_of_question(step: Step, message: str) -> None:
    """Log that the run goes on only when a person has answered."""
    words = "Run %s waits for a person to answer: %s"
    asked = " ".join(text(message, ASKED_MAX).split())
    log.warning(words, step.host.journal.run, asked, extra=_about(step, "person_asked"))
