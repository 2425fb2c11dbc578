"""A turn: one AG-UI request as we took it, and receipts for the controls of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from ag_ui.core import BaseEvent, CustomEvent

from midflight.agents import Agent
from midflight.interfaces.agui.agui_resume import Receipt
from midflight.journal.record import Actor
from midflight.journal.state import RunState

PROTOCOL: Final = "1.0"
RECEIPT: Final = "midflight:receipt"
WARNING: Final = "midflight:warning"


class Turn(msgspec.Struct, frozen=True):
    """An AG-UI run: its names there, the thread and the run that it is about here.

    No run: there is nothing to do, and the stream only shows how the thread stands.
    """

    thread_id: str
    run_id: str
    thread: str
    run: str
    agent: Agent
    who: Actor
    receipts: Sequence[Receipt] = ()
    warnings: Sequence[str] = ()
    sent: Sequence[int] = ()  # messages to a run that was at work already
    since: Mapping[str, int] = {}  # journal -> where it was when this turn was taken
    old: bool = False  # the client is of version 0
    resumed: bool = False  # the client has sent answers to interrupts
    fresh: bool = False  # the client has nothing of the thread yet
    misfits: Mapping[str, str] = {}  # interrupt -> why its answer was not taken; "": of none
    refusal: str = ""  # why nothing was done: the thread is only shown as it is
    follow: bool = False  # the client wants to hear of what is done in the thread afterwards


class Receipts:
    """Receipts for controls: each is told when its status changes."""

    def __init__(self) -> None:
        self._delivered: dict[tuple[str, int], str] = {}

    def told(self, runs: Mapping[str, RunState]) -> list[BaseEvent]:
        """Return receipts for controls whose status changed: accepted, applied, superseded."""
        told: list[BaseEvent] = []
        for run, state in runs.items():
            for position, delivery in state.deliveries.items():
                if self._delivered.get((run, position)) != delivery.status:
                    self._delivered[run, position] = delivery.status
                    value = {
                        "run": run,
                        "verb": delivery.verb,
                        "status": delivery.status,
                        "position": position,
                        "at": delivery.at,
                    }
                    told.append(CustomEvent(name=RECEIPT, value=value))
        return told
