"""What the stock client refuses, as rules: the Python package has no verifier of its own."""

from __future__ import annotations

from collections.abc import Iterable

from ag_ui.core import (
    BaseEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)


class Verifier:
    """Fails at the first event that a client would not take."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}  # all that was ever told
        self._open: set[tuple[str, str]] = set()
        self._calls: set[str] = set()
        self._results: set[str] = set()

    def take(self, events: Iterable[BaseEvent]) -> None:
        for event in events:
            self._take(event)

    def all_is_closed(self) -> bool:
        return not self._open

    def _take(self, event: BaseEvent) -> None:
        match event:
            case TextMessageStartEvent(message_id=text):
                self._begin("text", text)
            case TextMessageContentEvent(message_id=text, delta=delta):
                assert ("text", text) in self._open
                self.texts[text] = self.texts.get(text, "") + delta
            case TextMessageEndEvent(message_id=text):
                self._open.remove(("text", text))
            case StepStartedEvent(step_name=name):
                self._begin("step", name)
            case StepFinishedEvent(step_name=name):
                self._open.remove(("step", name))
            case ToolCallStartEvent(tool_call_id=call):
                assert call not in self._calls
                self._calls.add(call)
                self._begin("call", call)
            case ToolCallArgsEvent(tool_call_id=call):
                assert ("call", call) in self._open
            case ToolCallEndEvent(tool_call_id=call):
                self._open.remove(("call", call))
            case ToolCallResultEvent(message_id=result):
                assert result not in self._results
                self._results.add(result)
            case _:
                pass

    def _begin(self, kind: str, name: str) -> None:
        assert (kind, name) not in self._open, f"{kind} {name} is open already"
        self._open.add((kind, name))
