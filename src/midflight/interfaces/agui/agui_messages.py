"""The agent's messages in AG-UI's words: the text that steps produce, and the calls of tools.

The same text comes live, then from the journal, and again after an interruption; it is told once.
Both kinds are kept among the messages of the conversation, so that a snapshot has them too.
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
    MessagesSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)
from msgspec import Raw

from midflight.interfaces.agui.agui_approvals import shown_arguments, shown_name
from midflight.journal import events as e
from midflight.journal.threads import thread as t
from midflight.stores.hints import Delta

STOPPED: Final = "stopped before it had ended"


def message_of(run: str, step: str, attempt: int) -> str:
    """Return the id of the message that an attempt says."""
    return f"{run}:{step}:{attempt}:0"


class Text:
    """The text of one attempt at a step; text that repeats what was shown is not told again."""

    def __init__(self, run: str, step: str, attempt: int) -> None:
        self.attempt = attempt
        self._name = f"{run}:{step}:{attempt}"
        self._takes = 0
        self._said = ""
        self.shown = ""

    @property
    def id(self) -> str:
        """The message's id; another one for other words from the beginning."""
        return f"{self._name}:{self._takes}"

    def take(self, offset: int, piece: str) -> str | None:
        """Return the new part of a piece of text; None if it does not continue what was shown."""
        self._said = self._said[:offset] + piece
        if self.shown.startswith(self._said):
            return ""
        if self._said.startswith(self.shown):
            new = self._said[len(self.shown) :]
            self.shown = self._said
            return new
        return None

    def begin_again(self) -> str:
        """Begin a new message, for words that do not continue those before; return them."""
        self._takes += 1
        self.shown = self._said
        return self.shown


class Speech:
    """The texts of the steps of all runs, kept among the messages of the conversation.

    A message has one id from its first word on: the attempt's, which stands in the journal too.
    """

    def __init__(self, messages: dict[str, Message]) -> None:
        self._messages = messages
        self._texts: dict[tuple[str, str], Text] = {}
        self._open: dict[str, None] = {}  # text messages that have not ended
        self._told: dict[str, str] = {}  # message -> what was told of it, here or before
        self._ids: dict[tuple[str, str, int], str] = {}  # (run, step, attempt) -> its message
        self._by_step: dict[tuple[str, str], dict[str, None]] = {}  # what a step may say anew
        self._over: set[tuple[str, str, int]] = set()  # (run, step, attempt) that have ended
        self._last: dict[str, str] = {}  # run -> the message of a model that nothing came after
        self._whole: set[str] = set()  # messages that were said in the thread: nothing follows

    def reopen(self, held: Collection[str] = ()) -> list[BaseEvent]:
        """Start open messages again, except ``held`` ones, for a client that has them so far."""
        return [TextMessageStartEvent(message_id=text) for text in self._open if text not in held]

    def unfinished(self, living: Collection[str]) -> set[str]:
        """Return the messages that these runs go on with."""
        return {text for text in self._open if any(text.startswith(f"{run}:") for run in living)}

    def tell_again(self, known: str) -> list[BaseEvent]:
        """Tell the words of a message; it stays open if it goes on."""
        message = self._messages[known]
        if not isinstance(message, AssistantMessage) or not message.content:
            return []
        words = str(message.content)
        told: list[BaseEvent] = [TextMessageStartEvent(message_id=known, role="assistant")]
        told.append(TextMessageContentEvent(message_id=known, delta=words))
        return told if known in self._open else [*told, TextMessageEndEvent(message_id=known)]

    def close(self) -> list[BaseEvent]:
        """End the messages that are open."""
        ends: list[BaseEvent] = [TextMessageEndEvent(message_id=text) for text in self._open]
        self._open.clear()
        return ends

    def hear(self, run: str, said: e.TextStreamed | Delta) -> Iterator[BaseEvent]:
        """Tell words as they are said; words that come after the end of their attempt are late."""
        if (run, said.step, said.attempt) in self._over:
            return
        text = self._texts.get((run, said.step))
        if text is None or text.attempt != said.attempt:
            if text is not None:
                yield from self._end(text.id)
            text = self._texts[run, said.step] = Text(run, said.step, said.attempt)
            yield from self._replace(run, said.step, text.id)
        new = text.take(said.offset, said.text)
        if new is None:
            yield from self._end(text.id)
            new = text.begin_again()
        if new:
            self._ids[run, said.step, said.attempt] = text.id
            self._by_step.setdefault((run, said.step), {})[text.id] = None
            yield from self._tell(text.id, new)

    def ended(
        self, run: str, step: str, attempt: int, *, done: bool, said: str = ""
    ) -> Iterator[BaseEvent]:
        """The attempt is over. ``said`` is all that a model has streamed: that stays.

        What other steps say is progress: their result stands for it, and the journal keeps no
        more of it. Words of an attempt that is not done stay, until another one replaces them.
        """
        self._over.add((run, step, attempt))
        text = self._texts.pop((run, step), None)
        known = message_of(run, step, attempt)
        if done:
            if said:
                yield from self._replace(run, step, known)
                yield from self._tell_rest(known, said)  # layer words-of-model-stay-under-id
                self._last[run] = known
            else:
                self._forget(run, step, "")
        if text is not None:
            yield from self._end(text.id)
        yield from self._end(known)

    def said(self, run: str, said: t.Said) -> str | None:
        """Return the message of which these words are the whole or the beginning, if there is one.

        The run says who has streamed them. Where it could not know that, after a crash, the last
        words of its model are compared.
        """
        last = self._last.pop(run, None)
        if said.step:
            known = message_of(run, said.step, said.attempt)
            return self._ids.get((run, said.step, said.attempt), known)
        words = self._told.get(last or "", "").strip()
        return last if words and said.text.strip().startswith(words) else None

    def say(self, known: str, text: str) -> Iterator[BaseEvent]:
        """Tell what is missing of a message that is said in the thread, and keep it as it is."""
        before = self._told.get(known, "").strip()
        whole = text.strip()
        if not before or not whole.startswith(before):
            yield from self._tell(known, text)
        elif rest := whole[len(before) :]:
            yield from self._tell(known, rest)
        yield from self._end(known)
        self._keep(known, text)
        self._whole.add(known)

    def called(self, run: str) -> None:
        """Note that a run has called a tool: what it says next does not go on from before."""
        self._last.pop(run, None)

    def turned(self, run: str) -> None:
        """Note that a run has another course: what it has said stays, whatever it says next."""
        for place in [place for place in self._by_step if place[0] == run]:
            del self._by_step[place]

    # ── one message ──────────────────────────────────────────────────────────────────────────

    def _tell(self, known: str, new: str) -> Iterator[BaseEvent]:
        if known not in self._open:
            self._open[known] = None
            yield TextMessageStartEvent(message_id=known, role="assistant")
        self._told[known] = self._told.get(known, "") + new
        self._keep(known, self._told[known])
        yield TextMessageContentEvent(message_id=known, delta=new)

    def _tell_rest(self, known: str, text: str) -> Iterator[BaseEvent]:
        """Tell what is missing of an attempt's words, unless more was said in the thread already.

        The attempt and the thread stand in two journals, and either may be heard first.
        """
        if known in self._whole:
            return
        before = self._told.get(known, "")
        if text.startswith(before) and text != before:
            yield from self._tell(known, text[len(before) :])
        self._keep(known, text)

    def _keep(self, known: str, text: str) -> None:
        before = self._messages.get(known)
        if isinstance(before, AssistantMessage):
            self._messages[known] = before.model_copy(update={"content": text})
        else:
            self._messages[known] = AssistantMessage(id=known, content=text)

    def _end(self, text: str) -> Iterator[BaseEvent]:
        if text in self._open:
            del self._open[text]
            yield TextMessageEndEvent(message_id=text)

    def _replace(self, run: str, step: str, known: str) -> Iterator[BaseEvent]:
        """Take back the words of earlier attempts at a step: those of a new attempt replace them.

        Only a snapshot can take a message back, and only while no message is open.
        """
        if self._forget(run, step, known) and not self._open:
            yield MessagesSnapshotEvent(messages=list(self._messages.values()))

    def _forget(self, run: str, step: str, known: str) -> bool:
        gone = set(self._by_step.pop((run, step), {})) & set(self._messages) - {known}
        for one in gone:
            del self._messages[one]
        return bool(gone)


# ── calls of tools ───────────────────────────────────────────────────────────────────────────


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
