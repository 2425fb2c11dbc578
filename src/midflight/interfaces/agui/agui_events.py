"""A thread and its runs, told as AG-UI events. Pure: the same records give the same story.

``hear`` takes one record after another and gives the events that tell of it; the messages they add
up to are kept, so that a snapshot and the stream before it can never differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, Literal, TypeAlias, assert_never

import msgspec
from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    Message,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    UserMessage,
)
from msgspec import Raw

from midflight.interfaces.agui.agui_messages import Calls, Speech, message_of
from midflight.journal import events as e
from midflight.journal.event_types import AnyEvent
from midflight.journal.phases import Effect, Outcome
from midflight.journal.record import Recorded, Unknown
from midflight.journal.state import about_step
from midflight.journal.threads import thread as t
from midflight.journal.transition_table import TRIAGE
from midflight.stores.hints import Began, Delta

KEY: Final = "agui:"
"""How the key of a message begins that an AG-UI client has sent; the rest is its id there."""

_OURS: Final = re.compile(r"(r-.+:(brief|\d+)|t-.+:\d+)", re.DOTALL)

NOTICE: Final = "midflight:notice"

SILENT: Final = (
    e.DriverClaimed,
    e.DriverReleased,
    e.DriverRevoked,
    e.RunEntered,
    e.PlanSet,
    e.WindowOpened,
    e.TimerSet,
    e.TimerCleared,
    e.StepReused,
    e.StepLeft,
    e.RecordsDropped,
    e.UsageSpent,
    e.StateSaved,
    e.GuardSet,
    e.Spoke,
    e.WaitBegan,
    e.WaitEnded,
    e.QuestionAnswered,
    e.QuestionClosed,
    e.MessagesTaken,
    e.InboxOpened,
    e.WorkSaved,
    e.PauseRequested,
    e.ResumeRequested,
    e.Paused,
    e.CancelRequested,
    e.EffectStopRequested,
    e.UndoRequested,
    e.LimitsRaised,
    e.TakenOver,
    e.HandedBack,
    e.HoldPlaced,
    e.HoldLifted,
    e.Recovered,
    e.UndoStarted,
    e.UndoSettled,
    e.ChildSpawned,
    e.ChildSettled,
    t.ThreadCreated,
    t.SpeechHeard,
    t.MessageTriaged,
    t.TodoAdded,
    t.TodoTaken,
    t.TodoRemoved,
    t.TodosReordered,
    t.FrontChanged,
    t.ChoiceOverruled,
    t.TodoWanted,
    t.TodoDropped,
)
"""Records that no event tells of: the state shows them, or they do not concern a watcher."""

Told: TypeAlias = Iterator[BaseEvent]
Settled: TypeAlias = e.AttemptSettled | e.LateOutcome | e.StepSettled


def is_ours(message: str) -> bool:
    """Return whether we made the id of a user's message: then it came through another door."""
    return _OURS.fullmatch(message) is not None


class Narrator:
    """Tells what happens in a thread, and knows what was told.

    A message has the id that its sender gave it only for its sender, the ``reader``: a client sends
    its whole history again, and what it sends under an id of somebody else would be new.
    """

    def __init__(self, reader: str | None = None) -> None:
        self._reader = reader
        self._messages: dict[str, Message] = {}
        self._sent: dict[tuple[str, int], str] = {}  # a message's place -> its id
        self._calls = Calls(self._messages)
        self._attempts: dict[tuple[str, int], tuple[str, str]] = {}  # in flight -> (step, name)
        self._steps: dict[tuple[str, str], str] = {}  # steps shown as open -> under which name
        self._models: set[tuple[str, str]] = set()  # (run, step) that ask a model
        self._thinking: set[tuple[str, int]] = set()  # (run, attempt) that ask a model what to do
        self._speech = Speech(self._messages)

    @property
    def messages(self) -> list[Message]:
        """The conversation as it stands."""
        return list(self._messages.values())

    def hear(self, record: Recorded) -> list[BaseEvent]:
        """Tell of one record."""
        event = record.event
        return [] if isinstance(event, Unknown) else list(self._tell(record, event))

    def say(self, known: str, text: str) -> list[BaseEvent]:
        """Add a message of the agent that is no record of its own."""
        self._messages[known] = AssistantMessage(id=known, content=text)
        return list(_whole(known, "assistant", text))

    def hear_live(self, delta: Delta) -> list[BaseEvent]:
        """Tell what a step says right now."""
        began = self._began(delta.journal, delta) if isinstance(delta, Began) else ()
        return [*began, *(self._speech.hear(delta.journal, delta) if delta.text else ())]

    def under_way(self, living: Collection[str]) -> set[str]:
        """Return the messages of these runs to which words, calls or results may still be added."""
        return self._speech.unfinished(living) | self._calls.unfinished(living)

    def reopen(self, held: Collection[str] = ()) -> list[BaseEvent]:
        """Begin what is under way again, for a client that has the messages so far.

        ``held`` are messages that the client does not have: these are told whole.
        """
        told: list[BaseEvent] = [StepStartedEvent(step_name=name) for name in self._steps.values()]
        told += self._speech.reopen(held)
        for known in [known for known in self._messages if known in held]:
            told += self._speech.tell_again(known)
            told += self._calls.tell_again(known)
        return told

    def close(self) -> list[BaseEvent]:
        """End what is open: no stream may end before that."""
        steps = [StepFinishedEvent(step_name=name) for name in self._steps.values()]
        self._steps.clear()
        return [*self._speech.close(), *steps]

    def _tell(self, record: Recorded, event: AnyEvent) -> Told:  # noqa: C901 - one arm an event
        run, at = record.journal, record.position
        if isinstance(event, SILENT):
            return
        match event:
            case e.RunCreated(messages=messages, brief=brief):
                if brief and not messages:  # else it is what was sent in the thread
                    yield from self._user(f"{run}:brief", brief)
            case e.RedirectRequested(text=text) | t.AsideAsked(text=text):
                yield from self._user(f"{run}:{at}", text)
            case e.RunFinished() | e.Killed():
                yield from self._calls.run_ended(run)
            case e.RedirectDelivered():
                self._speech.turned(run)
            case e.AttemptStarted():
                yield from self._started(run, at, event)
            case e.AttemptSettled() | e.LateOutcome():
                yield from self._settled(run, event)
            case e.StepSettled():
                yield from self._done(run, event)
            case e.TextStreamed():
                yield from self._speech.hear(run, event)
            case e.QuestionOpened():
                yield from self._asked(run, event)
            case e.NoticeGiven(kind=kind, text=text):
                yield CustomEvent(name=NOTICE, value={"run": run, "kind": kind, "text": text})
            case t.MessageSent() | t.MessageEdited() | t.MessageWithdrawn() | t.Said():
                yield from self._spoken(run, at, event)
            case _:
                assert_never(event)

    # ── what people and agents say in the thread ─────────────────────────────────────────────

    def _spoken(
        self,
        thread: str,
        at: int,
        event: t.MessageSent | t.MessageEdited | t.MessageWithdrawn | t.Said,
    ) -> Told:
        match event:
            case t.MessageSent(key=key, text=text):
                own = key.startswith(KEY) and self._reader in {None, event.who.by}
                known = key.removeprefix(KEY) if own else f"{thread}:{at}"
                self._sent[thread, at] = known
                yield from self._user(known, text)
            case t.MessageEdited(message=message, text=text):
                known = self._sent[thread, message]
                self._messages[known] = UserMessage(id=known, content=text)
            case t.MessageWithdrawn(message=message):
                self._messages.pop(self._sent[thread, message], None)
            case t.Said(run=run, text=text):
                known = self._speech.said(run, event) or f"{thread}:{at}"
                yield from self._speech.say(known, text)
                self._calls.thought(run, known)

    def _user(self, known: str, text: str) -> Told:
        self._messages[known] = UserMessage(id=known, content=text)
        yield from _whole(known, "user", text)

    # ── what steps do ────────────────────────────────────────────────────────────────────────

    def _started(self, run: str, at: int, event: e.AttemptStarted) -> Told:
        self._attempts[run, at] = event.step, event.name
        yield from self._step_began(run, event.step, event.name)
        if event.effect is Effect.MODEL:
            self._models.add((run, event.step))
            if event.tool != TRIAGE:
                self._thinking.add((run, at))
            return
        self._speech.called(run)
        yield from self._calls.attempted(run, at, event.step, event.tool, event.name, event.input)

    def _asked(self, run: str, event: e.QuestionOpened) -> Told:
        if step := about_step(event):
            self._speech.called(run)
            yield from self._calls.asked(run, step, msgspec.json.decode(event.schema))

    def _settled(self, run: str, event: e.AttemptSettled | e.LateOutcome) -> Told:
        begun = self._attempts.get((run, event.attempt))
        if begun is None:
            return
        step, _ = begun
        done = event.outcome is Outcome.DONE
        said = getattr(event, "said", "")
        yield from self._speech.ended(run, step, event.attempt, done=done, said=said)
        if done and (run, event.attempt) in self._thinking:
            self._calls.thought(run, message_of(run, step, event.attempt))
        content = _words(event, event.outcome)
        yield from self._calls.attempt_ended(run, event.attempt, content, failed=not done)
        yield from self._step_ended(run, step)

    def _done(self, run: str, event: e.StepSettled) -> Told:
        """Tell that a step has ended: a read, or one that gets no attempt, or no more of them."""
        step, failed = event.step, bool(event.error)
        is_model = (run, step) in self._models
        if not is_model and not self._calls.knows(run, step):
            yield from self._step_began(run, step, event.name)
            yield from self._read(run, step, event.tool, event.name, event.input)
        yield from self._speech.ended(run, step, 0, done=not failed)
        if not is_model:
            content = _words(event, Outcome.FAILED if failed else Outcome.DONE)
            yield from self._calls.step_ended(run, step, content, failed=failed)
        yield from self._step_ended(run, step)

    def _read(
        self, run: str, step: str, tool: str, name: str, given: Raw, *, live: bool = False
    ) -> Told:
        self._speech.called(run)
        yield from self._calls.read(run, step, tool, name, given, live=live)

    def _began(self, run: str, began: Began) -> Told:
        """Tell that a read has begun, unless its record, which comes at its end, came first."""
        if not self._calls.knows(run, began.step):
            call = began.call
            yield from self._step_began(run, began.step, call.name)
            yield from self._read(run, began.step, call.tool, call.name, call.input, live=True)

    def _step_began(self, run: str, step: str, name: str) -> Told:
        """Tell that a step has begun, with a number if a step of the same name is open.

        A client refuses a name that is opened twice.
        """
        if (run, step) in self._steps:
            return
        taken, shown, number = set(self._steps.values()), name, 1
        while shown in taken:
            number += 1
            shown = f"{name} ({number})"
        self._steps[run, step] = shown
        yield StepStartedEvent(step_name=shown)

    def _step_ended(self, run: str, step: str) -> Told:
        if (shown := self._steps.pop((run, step), None)) is not None:
            yield StepFinishedEvent(step_name=shown)


def people_by_snapshot(
    events: Sequence[BaseEvent], messages: Callable[[], BaseEvent]
) -> list[BaseEvent]:
    """Return what is told of one record; words of a person are told by a snapshot.

    assistant-ui takes every text message that is streamed for the agent's, whichever client it
    carries.
    """
    people = {
        event.message_id
        for event in events
        if isinstance(event, TextMessageStartEvent) and event.role == "user"
    }
    if not people:
        return [*events]
    texts = TextMessageStartEvent, TextMessageContentEvent, TextMessageEndEvent
    told = [e for e in events if not (isinstance(e, texts) and e.message_id in people)]
    return [*told, messages()]


def _whole(message: str, role: Literal["user", "assistant"], text: str) -> Told:
    yield TextMessageStartEvent(message_id=message, role=role)
    yield TextMessageContentEvent(message_id=message, delta=text)
    yield TextMessageEndEvent(message_id=message)


def _words(event: Settled, outcome: Outcome) -> str:
    """Return the result of a call in words, or why it has none, for people and for clients."""
    why = f": {event.error}" if event.error else ""
    match outcome:
        case Outcome.DONE if event.blob is not None:
            return f"[{event.blob.size:,} bytes, kept with the run]"
        case Outcome.DONE:
            result = msgspec.json.decode(event.result)
            return result if isinstance(result, str) else bytes(event.result).decode()
        case Outcome.FAILED:
            return event.error or "failed"
        case Outcome.UNKNOWN:
            return f"it is not known whether this happened{why}"
        case Outcome.NOT_DONE | Outcome.NOT_STARTED | Outcome.ABORTED:
            return f"{outcome.replace('_', ' ')}{why}"
        case _:
            assert_never(outcome)
