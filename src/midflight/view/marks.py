"""Marks on a run's timeline beside its steps: who interfered, what held it, what it asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from midflight.kernel import events as e
from midflight.kernel.phases import Cause
from midflight.kernel.record import Event, Recorded, Request
from midflight.kernel.state import RunState
from midflight.view.data import Mark
from midflight.view.summaries import short

HOLDS: Final = {Cause.CAP: "cap", Cause.PARKED: "parked", Cause.STALE: "changed"}
LIFTED: Final = {Cause.PARKED: "Came back", Cause.DRAIN: "Its server is back"}


def mark_of(record: Recorded, *, before: RunState) -> Mark | None:
    """Return the mark of a record on the timeline, if any; ``before`` is the state before it."""
    event = record.event
    if isinstance(event, e.DriverClaimed) and not before.driver:
        return None  # its last driver has left in good order
    tell = _TOLD.get(type(event))
    if tell is None:
        return None
    kind, text = tell(event)
    return Mark(record.at, kind, short(text), event.who.by if isinstance(event, Request) else "")


def _plain(kind: str, text: str) -> Callable[[Any], tuple[str, str]]:
    return lambda _event: (kind, text)


def _read(event: e.MessagesTaken) -> tuple[str, str]:
    count = len(event.messages)
    return "message", f"{count} message{'s' * (count != 1)} read" if count else "Messages read"


_TOLD: Final[dict[type[Event], Callable[[Any], tuple[str, str]]]] = {
    e.DriverClaimed: _plain("recovered", "Went on after its process was lost"),
    e.PauseRequested: _plain("pause", "Pause"),
    e.Paused: _plain("paused", "Paused"),
    e.ResumeRequested: _plain("resume", "Resume"),
    e.RedirectRequested: lambda event: ("redirect", event.text),
    e.RedirectDelivered: lambda event: ("redirected", event.brief),
    e.CancelRequested: lambda event: ("cancel", "Stop now" if event.now else "Cancel"),
    e.HoldPlaced: lambda event: (HOLDS.get(event.cause, str(event.cause)), event.why),
    e.HoldLifted: lambda event: (f"lifted {event.cause}", LIFTED.get(event.cause, "Goes on")),
    e.LimitsRaised: _plain("limits", "Cap raised"),
    e.QuestionOpened: lambda event: ("question", event.message),
    e.QuestionAnswered: lambda event: ("answer", "Declined" if event.declined else "Answered"),
    e.QuestionClosed: lambda event: ("closed", event.why),
    e.MessagesTaken: _read,
    e.NoticeGiven: lambda event: ("notice", event.text),
    e.TakenOver: _plain("take over", "Taken over"),
    e.HandedBack: lambda event: ("hand back", event.note or "Handed back"),
    e.UndoRequested: _plain("undo", "Undo"),
    e.Killed: _plain("kill", "Stopped by an operator"),
    e.Recovered: _plain("recover", "Brought back"),
    e.RunFinished: lambda event: ("end", event.outcome),
}
