"""A thread and its runs, told as AG-UI events. Pure: the same records give the same story.

``hear`` takes one record after another and gives the events that tell of it; the messages they add
up to are kept, so that a snapshot and the stream before it can never differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias, assert_never

import msgspec
from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    FunctionCall,
    Message,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)
from msgspec import Raw

from midflight.kernel import events as e
from midflight.kernel import thread as t
from midflight.kernel.catalogue import AnyEvent
from midflight.kernel.identities import about_step
from midflight.kernel.phases import Effect, Outcome
from midflight.kernel.record import Recorded, Unknown
from midflight.server.agui_speech import Speech
from midflight.stores.base import Delta

KEY: Final = "agui:"
"""How the key of a message begins that an AG-UI client has sent; the rest is its id there."""

_OURS: Final = re.compile(r"(r-.+:(brief|\d+)|t-.+:\d+)", re.DOTALL)

NOTICE: Final = "midflight:notice"

SILENT: Final = (
    e.DriverClaimed,
    e.DriverReleased,
    e.DriverRevoked,
    e.RunEntered,
    e.RunFinished,
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
    e.WorkSaved,
    e.PauseRequested,
    e.ResumeRequested,
    e.RedirectDelivered,
    e.Paused,
    e.CancelRequested,
    e.EffectStopRequested,
    e.UndoRequested,
    e.Killed,
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
"""What no event tells of: it is seen in the state, or is nobody's concern who watches."""

Told: TypeAlias = Iterator[BaseEvent]
Settled: TypeAlias = e.AttemptSettled | e.LateOutcome | e.StepSettled


def is_ours(message: str) -> bool:
    """Whether we gave a user's message this id: it came through another door."""
    return _OURS.fullmatch(message) is not None


class Narrator:
    """Tells what happens in a thread, and knows what was told."""

    def __init__(self) -> None:
        self._messages: dict[str, Message] = {}
        self._sent: dict[tuple[str, int], str] = {}  # a message's place -> its id
        self._calls: dict[tuple[str, str], str] = {}  # (run, step) -> its last tool call
        self._called_by: dict[tuple[str, int], str] = {}  # (run, attempt) -> its tool call
        self._tries: Counter[tuple[str, str]] = Counter()
        self._attempts: dict[tuple[str, int], tuple[str, str]] = {}  # in flight -> (step, name)
        self._steps: dict[tuple[str, str], str] = {}  # steps shown as open -> under which name
        self._speech = Speech(self._messages)

    @property
    def messages(self) -> list[Message]:
        """The conversation as it stands."""
        return list(self._messages.values())

    def hear(self, record: Recorded) -> list[BaseEvent]:
        """Tell of one record."""
        event = record.event
        return [] if isinstance(event, Unknown) else list(self._tell(record, event))

    def hear_live(self, delta: Delta) -> list[BaseEvent]:
        """Tell what a step says right now."""
        return list(self._speech.hear(delta.journal, delta))

    def reopen(self) -> list[BaseEvent]:
        """For who has the messages so far: what is under way, so that it can be continued."""
        steps = [StepStartedEvent(step_name=name) for name in self._steps.values()]
        return [*steps, *self._speech.reopen()]

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
                known = key.removeprefix(KEY) if key.startswith(KEY) else f"{thread}:{at}"
                self._sent[thread, at] = known
                yield from self._user(known, text)
            case t.MessageEdited(message=message, text=text):
                known = self._sent[thread, message]
                self._messages[known] = UserMessage(id=known, content=text)
            case t.MessageWithdrawn(message=message):
                self._messages.pop(self._sent[thread, message], None)
            case t.Said(run=run, text=text):
                said = f"{thread}:{at}"
                self._messages[said] = AssistantMessage(id=said, content=text)
                streamed = self._speech.take_last(run)
                if streamed.strip() != text.strip():  # else it was told as it came
                    yield from _whole(said, "assistant", text)

    def _user(self, known: str, text: str) -> Told:
        self._messages[known] = UserMessage(id=known, content=text)
        yield from _whole(known, "user", text)

    # ── what steps do ────────────────────────────────────────────────────────────────────────

    def _started(self, run: str, at: int, event: e.AttemptStarted) -> Told:
        self._attempts[run, at] = event.step, event.name
        yield from self._step_began(run, event.step, event.name)
        if event.effect is Effect.MODEL:
            return
        self._tries[run, event.step] += 1
        tries = self._tries[run, event.step]
        call = f"{run}:{event.step}" + (f":{tries}" if tries > 1 else "")
        self._called_by[run, at] = call
        yield from self._called(run, event.step, call, event.tool or event.name, event.input)

    def _asked(self, run: str, event: e.QuestionOpened) -> Told:
        """What waits for an approval is shown as the call that it would be."""
        if step := about_step(event):
            schema = msgspec.json.decode(event.schema)
            name, given = schema.get("x-tool", step), msgspec.json.encode(schema.get("x-details"))
            yield from self._called(run, step, f"{run}:{step}", name, Raw(given))

    def _called(self, run: str, step: str, call: str, name: str, given: Raw) -> Told:
        arguments = "{}" if bytes(given) == b"null" else bytes(given).decode()
        known = call in self._messages
        self._calls[run, step] = call
        function = FunctionCall(name=name, arguments=arguments)
        self._messages[call] = AssistantMessage(
            id=call, tool_calls=[ToolCall(id=call, function=function)]
        )
        if not known:
            yield ToolCallStartEvent(tool_call_id=call, tool_call_name=name)
            yield ToolCallArgsEvent(tool_call_id=call, delta=arguments)
            yield ToolCallEndEvent(tool_call_id=call)

    def _settled(self, run: str, event: e.AttemptSettled | e.LateOutcome) -> Told:
        begun = self._attempts.get((run, event.attempt))
        if begun is None:
            return
        step, _ = begun
        done = event.outcome is Outcome.DONE
        yield from self._speech.ended(run, step, event.attempt, done=done)
        if (call := self._called_by.get((run, event.attempt))) is not None:
            yield from self._result(call, event, event.outcome)
        yield from self._step_ended(run, step)

    def _done(self, run: str, event: e.StepSettled) -> Told:
        """A read is on record only when it has ended; what it was called with is not."""
        step = event.step
        if (run, step) not in self._calls:
            yield from self._step_began(run, step, event.name)
            yield from self._called(run, step, f"{run}:{step}", event.name, Raw(b"null"))
        outcome = Outcome.FAILED if event.error else Outcome.DONE
        yield from self._speech.ended(run, step, 0, done=outcome is Outcome.DONE)
        yield from self._result(self._calls[run, step], event, outcome)
        yield from self._step_ended(run, step)

    def _result(self, call: str, event: Settled, outcome: Outcome) -> Told:
        name, content = f"{call}:result", _words(event, outcome)
        known, failed = name in self._messages, outcome is not Outcome.DONE
        error = content if failed else None
        self._messages[name] = ToolMessage(id=name, tool_call_id=call, content=content, error=error)
        if not known:  # or it became known later: the next snapshot says so
            yield ToolCallResultEvent(message_id=name, tool_call_id=call, content=content)

    def _step_began(self, run: str, step: str, name: str) -> Told:
        """Two steps of one name at a time are told apart: a client refuses a name opened twice."""
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


def _whole(message: str, role: Literal["user", "assistant"], text: str) -> Told:
    yield TextMessageStartEvent(message_id=message, role=role)
    yield TextMessageContentEvent(message_id=message, delta=text)
    yield TextMessageEndEvent(message_id=message)


def _words(event: Settled, outcome: Outcome) -> str:
    """What a call came to, for a person and for a client that shows it."""
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
