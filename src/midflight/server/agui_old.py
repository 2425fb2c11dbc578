"""Ends a stream for a client of AG-UI 0.x, such as those in CopilotKit 1.74 and assistant-ui.

Such a client sends no ``protocolVersion``. It rejects the outcome ``cancelled``, forgets the
interrupts that it has seen only when a ``RUN_FINISHED`` without new ones comes, and sends nothing
more in a thread once one of them has expired. What it cannot take is left out of the ending and
told elsewhere: the state has the phase and the expiry, and a cancelled run is told as a message.
Pure.
"""

from __future__ import annotations

from typing import Final

from ag_ui.core import (
    BaseEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
)

from midflight.kernel.receipt import receipt
from midflight.kernel.state import RunState

CANCELLED: Final = "midflight:cancelled"
"""The custom event that tells of a cancelled run."""


def old_endings(
    thread: str, run: str, ending: BaseEvent, *, resumed: bool
) -> tuple[BaseEvent, ...]:
    """Return the events that end a stream for a client of version 0.

    ``resumed``: the client has sent answers, so it has interrupts that it would keep for ever
    after a ``RUN_ERROR``. A ``RUN_FINISHED`` without an outcome, which may stand before it, makes
    it forget them.
    """
    match ending:
        case RunErrorEvent() if resumed:
            return RunFinishedEvent(thread_id=thread, run_id=run), ending
        case RunFinishedEvent(outcome=RunFinishedCancelledOutcome()):
            return (ending.model_copy(update={"outcome": None}),)
        case RunFinishedEvent(outcome=RunFinishedInterruptOutcome(interrupts=asked)):
            lasting = [one.model_copy(update={"expires_at": None}) for one in asked]
            outcome = RunFinishedInterruptOutcome(interrupts=lasting)
            return (ending.model_copy(update={"outcome": outcome}),)
        case _:
            return (ending,)


def cancelled_words(state: RunState) -> str:
    """Return what a person reads of a cancelled run: who has cancelled it, and what is left."""
    by = f" by {state.ended_by.by}" if state.ended_by else ""
    lines = [f"- {line.text}" for line in receipt(state).lines]
    return "\n".join([f"Cancelled{by}.", *lines])
