"""What steps say, word by word, as AG-UI's text messages.

Words come live and again from the journal, and once more after an interruption: they are told once.
"""

from __future__ import annotations

from collections.abc import Iterator

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    Message,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from midflight.kernel import events as e
from midflight.stores.base import Delta


class Text:
    """What one attempt at a step says. Said again after an interruption, it is told once."""

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
        """What is new about a piece; None when it does not continue what was shown."""
        self._said = self._said[:offset] + piece
        if self.shown.startswith(self._said):
            return ""
        if self._said.startswith(self.shown):
            new = self._said[len(self.shown) :]
            self.shown = self._said
            return new
        return None

    def begin_again(self) -> str:
        """Other words than before: they are a message of their own."""
        self._takes += 1
        self.shown = self._said
        return self.shown


class Speech:
    """What the steps of all runs say, kept among the messages of the conversation."""

    def __init__(self, messages: dict[str, Message]) -> None:
        self._messages = messages
        self._texts: dict[tuple[str, str], Text] = {}
        self._open: dict[str, None] = {}  # text messages that have not ended
        self._by_step: dict[tuple[str, str], list[str]] = {}  # all that a step has said
        self._over: set[tuple[str, str, int]] = set()  # (run, step, attempt) that have ended
        self._last: dict[str, str] = {}  # run -> what its last step has said

    def reopen(self) -> list[BaseEvent]:
        """For who has the messages so far: those that go on."""
        return [TextMessageStartEvent(message_id=text) for text in self._open]

    def close(self) -> list[BaseEvent]:
        """End the messages that are open."""
        ends: list[BaseEvent] = [TextMessageEndEvent(message_id=text) for text in self._open]
        self._open.clear()
        return ends

    def take_last(self, run: str) -> str:
        """What the run's last step has said; it is given once."""
        return self._last.pop(run, "")

    def hear(self, run: str, said: e.TextStreamed | Delta) -> Iterator[BaseEvent]:
        """Words come as they are said; what is heard after the end of its attempt was late."""
        if (run, said.step, said.attempt) in self._over:
            return
        text = self._texts.get((run, said.step))
        if text is None or text.attempt != said.attempt:
            if text is not None:
                yield from self._end(text.id)
            text = self._texts[run, said.step] = Text(run, said.step, said.attempt)
        new = text.take(said.offset, said.text)
        if new is None:
            yield from self._end(text.id)
            new = text.begin_again()
        if not new:
            return
        if text.id not in self._open:
            self._open[text.id] = None
            self._by_step.setdefault((run, said.step), []).append(text.id)
            yield TextMessageStartEvent(message_id=text.id, role="assistant")
        self._messages[text.id] = AssistantMessage(id=text.id, content=text.shown)
        self._last[run] = text.shown
        yield TextMessageContentEvent(message_id=text.id, delta=new)

    def ended(self, run: str, step: str, attempt: int, *, done: bool) -> Iterator[BaseEvent]:
        """The attempt is over. When it is done its result stands for what it said on the way.

        So the journal keeps no more of that, and neither does the conversation.
        """
        self._over.add((run, step, attempt))
        if (text := self._texts.pop((run, step), None)) is not None:
            yield from self._end(text.id)
        if done:
            for known in self._by_step.pop((run, step), ()):
                self._messages.pop(known, None)

    def _end(self, text: str) -> Iterator[BaseEvent]:
        if text in self._open:
            del self._open[text]
            yield TextMessageEndEvent(message_id=text)
