"""Every event there is: by its stored name, and as one type.

The codec, the table's test and the web types are made from the first; front doors match on the
second, so that a new event fails their type check until somebody has decided how it is shown.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final, TypeAlias

from midflight.journal import events
from midflight.journal import events as e
from midflight.journal.record import Event
from midflight.journal.threads import thread
from midflight.journal.threads import thread as t


def _named(module: ModuleType) -> dict[str, type[Event]]:
    """Return the events that the module defines, by stored name, without the bases it imports."""
    return {
        kind.stored_name(): kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Event) and kind.__module__ == module.__name__
    }


EVENTS: Final[dict[str, type[Event]]] = _named(events) | _named(thread)

RunEvent: TypeAlias = (
    e.RunCreated
    | e.DriverClaimed
    | e.DriverReleased
    | e.DriverRevoked
    | e.RunEntered
    | e.RunFinished
    | e.PlanSet
    | e.StepSettled
    | e.StepReused
    | e.StepLeft
    | e.RecordsDropped
    | e.AttemptStarted
    | e.AttemptSettled
    | e.LateOutcome
    | e.TextStreamed
    | e.UsageSpent
    | e.WindowOpened
    | e.TimerSet
    | e.TimerCleared
    | e.StateSaved
    | e.GuardSet
    | e.NoticeGiven
    | e.Spoke
    | e.QuestionOpened
    | e.QuestionAnswered
    | e.QuestionClosed
    | e.WaitBegan
    | e.WaitEnded
    | e.PauseRequested
    | e.ResumeRequested
    | e.RedirectRequested
    | e.CancelRequested
    | e.EffectStopRequested
    | e.UndoRequested
    | e.LimitsRaised
    | e.TakenOver
    | e.HandedBack
    | e.HoldPlaced
    | e.HoldLifted
    | e.Paused
    | e.RedirectDelivered
    | e.Killed
    | e.Recovered
    | e.InboxOpened
    | e.MessagesTaken
    | e.UndoStarted
    | e.UndoSettled
    | e.WorkSaved
    | e.ChildSpawned
    | e.ChildSettled
)
ThreadEvent: TypeAlias = (
    t.ThreadCreated
    | t.MessageSent
    | t.MessageEdited
    | t.MessageWithdrawn
    | t.MessageTriaged
    | t.ChoiceOverruled
    | t.AsideAsked
    | t.Said
    | t.SpeechHeard
    | t.TodoAdded
    | t.TodoTaken
    | t.TodoRemoved
    | t.TodoWanted
    | t.TodoDropped
    | t.TodosReordered
    | t.FrontChanged
)
AnyEvent: TypeAlias = RunEvent | ThreadEvent
