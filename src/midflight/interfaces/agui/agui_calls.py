"""Tool calls as an AG-UI client is shown them: the tool's name, and its arguments by name.

Secrets are dots, as in the journal. Arguments that would be very long are shortened, and say so;
where a person is asked about a call they are whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import msgspec
from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    FunctionCall,
    Message,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)
from msgspec import Raw

from midflight.errors import DOTS
from midflight.tools.declaration import REGISTRY
from midflight.tools.labels import named
from midflight.tools.secret import MARK, hide

ARGUMENTS_MAX: Final = 64 * 1024  # characters of one call
TEXT_MAX: Final = 1_000  # characters of one text, where all of it is more than that
OURS: Final = "midflight.assistant."
"""Names of tools of our own begin so; these only make a model's call fail, and are shown as it."""

NOT_KEPT: Final = "the arguments are too long to be kept"
STOPPED: Final = "stopped before it had ended"


class Calls:
    """The tool calls of all runs, kept among the messages of the conversation.

    A call belongs to the last words of its run, as clients show it; where nothing was said it
    belongs to the message of the first call.
    """

    def __init__(self, messages: dict[str, Message]) -> None:
        self._messages = messages
        self._last: dict[tuple[str, str], str] = {}  # (run, step) -> its last call
        self._by_attempt: dict[tuple[str, int], str] = {}  # (run, attempt) -> its call
        self._tries: Counter[tuple[str, str]] = Counter()
        self._callers: dict[str, str] = {}  # run -> the message of the model that it asked last
        self._told_in: dict[str, str] = {}  # call -> the message that it belongs to
        self._places: dict[str, int] = {}  # call -> its place among the calls of its message
        self._names: dict[str, Sequence[str]] = {}  # call that was asked about -> its arguments
        self._reading: dict[str, dict[str, None]] = {}  # run -> reads that nobody has a record of

    def knows(self, run: str, step: str) -> bool:
        """Return whether a step was told as a call."""
        return (run, step) in self._last

    def thought(self, run: str, message: str) -> None:
        """Note that a run has said something: what it calls next belongs to that message."""
        self._callers[run] = message

    def asked(self, run: str, step: str, schema: Any) -> Iterator[BaseEvent]:
        """Tell of a call that waits for an approval, as the call that it would be."""
        call, tool = f"{run}:{step}", schema.get("x-tool", "")
        self._names[call] = schema.get("x-names") or ()
        given = Raw(msgspec.json.encode(schema.get("x-details")))
        yield from self._tell(run, step, call, tool, step, given)

    def attempted(
        self, run: str, at: int, step: str, tool: str, name: str, given: Raw
    ) -> Iterator[BaseEvent]:
        """Tell of an attempt at an effect. Another one at the same step is another call."""
        self._tries[run, step] += 1
        tries = self._tries[run, step]
        call = f"{run}:{step}" + (f":{tries}" if tries > 1 else "")
        self._by_attempt[run, at] = call
        yield from self._tell(run, step, call, tool, name, given)

    def read(
        self, run: str, step: str, tool: str, name: str, given: Raw, *, live: bool = False
    ) -> Iterator[BaseEvent]:
        """Tell of a read. ``live``: it has only begun, and nothing is on record of it."""
        call = f"{run}:{step}"
        if not self.knows(run, step):
            if live:
                self._reading.setdefault(run, {})[call] = None
            yield from self._tell(run, step, call, tool, name, given)

    def attempt_ended(
        self, run: str, at: int, content: str, *, failed: bool
    ) -> Iterator[BaseEvent]:
        """Tell how an attempt at a call ended; nothing for an attempt at anything else."""
        if (call := self._by_attempt.get((run, at))) is not None:
            yield from self._result(call, content, failed=failed)

    def step_ended(self, run: str, step: str, content: str, *, failed: bool) -> Iterator[BaseEvent]:
        """Tell how a step ended."""
        call = self._last[run, step]
        self._reading.get(run, {}).pop(call, None)
        yield from self._result(call, content, failed=failed)

    def unfinished(self, living: Collection[str]) -> set[str]:
        """Return the messages to which these runs may still add a call, and their results."""
        callers = {self._callers[run] for run in living if run in self._callers}
        results = {
            f"{call}:result" for call, message in self._told_in.items() if message in callers
        }
        return {known for known in callers | results if known in self._messages}

    def tell_again(self, known: str) -> Iterator[BaseEvent]:
        """Tell the calls of a message, or the result of one."""
        message = self._messages[known]
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls or ():
                yield from _whole(known, call)
        elif isinstance(message, ToolMessage):
            yield _ended(message)

    def run_ended(self, run: str) -> Iterator[BaseEvent]:
        """Tell of the reads that the end of their run has stopped: no record does."""
        for call in self._reading.pop(run, {}):
            yield from self._result(call, STOPPED, failed=True)

    def _tell(
        self, run: str, step: str, call: str, tool: str, name: str, given: Raw
    ) -> Iterator[BaseEvent]:
        known = call in self._told_in
        names = self._names.get(call)
        arguments = shown_arguments(tool, given, names or (), whole=names is not None)
        function = FunctionCall(name=shown_name(tool, name), arguments=arguments)
        caller = self._told_in.setdefault(call, self._callers.setdefault(run, call))
        self._last[run, step] = call
        self._keep(caller, ToolCall(id=call, function=function))
        if not known:
            yield from _whole(caller, ToolCall(id=call, function=function))

    def _keep(self, caller: str, call: ToolCall) -> None:
        before = self._messages.get(caller)
        message = before if isinstance(before, AssistantMessage) else AssistantMessage(id=caller)
        calls = list(message.tool_calls or ())
        place = self._places.get(call.id, len(calls))
        if place < len(calls) and calls[place].id == call.id:
            calls[place] = call
        else:
            self._places[call.id] = len(calls)
            calls.append(call)
        self._messages[caller] = message.model_copy(update={"tool_calls": calls})

    def _result(self, call: str, content: str, *, failed: bool) -> Iterator[BaseEvent]:
        name = f"{call}:result"
        known, error = name in self._messages, content if failed else None
        result = ToolMessage(id=name, tool_call_id=call, content=content, error=error)
        self._messages[name] = result
        if not known:  # or it became known later: the next snapshot says so
            yield _ended(result)


def _whole(message: str, call: ToolCall) -> Iterator[BaseEvent]:
    yield ToolCallStartEvent(
        tool_call_id=call.id, tool_call_name=call.function.name, parent_message_id=message
    )
    yield ToolCallArgsEvent(tool_call_id=call.id, delta=call.function.arguments)
    yield ToolCallEndEvent(tool_call_id=call.id)


def _ended(result: ToolMessage) -> BaseEvent:
    return ToolCallResultEvent(
        message_id=result.id, tool_call_id=result.tool_call_id, content=str(result.content)
    )


def shown_name(tool: str, step: str) -> str:
    """Return the name of the tool; of a step that has none of its own, the step's."""
    return step if not tool or tool.startswith(OURS) else tool


def shown_arguments(
    tool: str, given: Raw, names: Sequence[str] = (), *, whole: bool = False
) -> str:
    """Return the arguments of a call as a JSON object; ``given`` is what the journal has.

    ``names`` are those of arguments that were given by their place, where the question has them.
    """
    plain = msgspec.json.decode(given)
    if plain is None:
        return msgspec.json.encode({"…": NOT_KEPT}).decode() if tool else "{}"
    shown = _cleaned(_by_name(tool, plain, names))
    text = msgspec.json.encode(shown).decode()
    if whole or len(text) <= ARGUMENTS_MAX:
        return text
    text = msgspec.json.encode(_shortened(shown)).decode()
    return text if len(text) <= ARGUMENTS_MAX else '{"…":"the arguments are too long to be shown"}'


def _by_name(tool: str, plain: Any, names: Sequence[str]) -> dict[str, Any]:
    match plain:
        case {"args": list(args), "kwargs": dict(kwargs)} if len(plain) == 2:
            if len(names) == len(args):
                return {**dict(zip(names, args, strict=True)), **kwargs}
            known = REGISTRY.get(tool)
            return named(known.function if known is not None else None, args, kwargs)
        case dict():
            return plain
        case _:
            return {"value": plain}


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        if set(value) == {MARK}:
            return DOTS
        return {hide(key): _cleaned(part) for key, part in value.items()}
    return [_cleaned(part) for part in value] if isinstance(value, list) else value


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TEXT_MAX:
        return f"{value[:TEXT_MAX]}… ({len(value) - TEXT_MAX:,} more characters)"
    if isinstance(value, dict):
        return {key: _shortened(part) for key, part in value.items()}
    return [_shortened(part) for part in value] if isinstance(value, list) else value
