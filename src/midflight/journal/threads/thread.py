"""A thread is a journal too: messages, todos, and which run is in front.

This module has its events, its state, and the rules of what may come next; ``thread_fold`` says
what an event changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from midflight.errors import IllegalEvent
from midflight.journal.events import MessagesTaken
from midflight.journal.phases import Mode
from midflight.journal.record import Actor, Event, Keys, Limits, Request

UNREAD_MAX: Final = 256  # a person cannot type more in a turn; a loop that can is told so
VIEWERS_MAX: Final = 64  # of these by viewers, so that they shut nobody else out
NAMED_MAX: Final = 8  # numbers in a refusal: enough to see which one was meant
WHOLE: Final = "whole"  # of words that were heard: to their end, which others have not heard
HUNG_UP: Final = "hung up"  # of words that were heard: the listener has left, and they went on

# ── events ───────────────────────────────────────────────────────────────────────────────────────


class ThreadCreated(Request, frozen=True, kw_only=True, tag="thread.created"):
    """A conversation; its journal holds messages, todos and which run is in front."""

    title: str = ""


class MessageSent(Request, frozen=True, kw_only=True, tag="message.sent"):
    """A message. It keeps its sender's role for ever; its position is its id."""

    text: str


class MessageEdited(Request, frozen=True, kw_only=True, tag="message.edited"):
    """New text for a message that nobody has read yet."""

    message: int
    text: str


class MessageWithdrawn(Request, frozen=True, kw_only=True, tag="message.withdrawn"):
    """A message was taken back before it was read."""

    message: int


class MessageTriaged(Event, frozen=True, kw_only=True, tag="message.triaged"):
    """The choice of ``run`` about a message: incorporate, switch or defer; empty: open again.

    ``pause`` and ``redirect`` are not chosen by anybody: plain words have acted at once.
    """

    message: int
    choice: str
    run: str = ""
    why: str = ""


class ChoiceOverruled(Request, frozen=True, kw_only=True, tag="choice.overruled"):
    """The person wants something else done about a message; the consequences stand beside it."""

    message: int
    choice: str


class AsideAsked(Request, frozen=True, kw_only=True, tag="aside.asked"):
    """A side question about ``run``, which it does not touch."""

    text: str
    run: str = ""


class Said(Event, frozen=True, kw_only=True, tag="agent.said"):
    """The agent speaks in the thread; a background run also ``to`` the run that began it.

    ``untrusted`` marks words of a run that had read words of strangers.
    ``step`` and ``attempt`` name what has streamed these words, or their beginning, where that was
    the last thing that the run did: people have seen them already.
    """

    MUST_UNDERSTAND: ClassVar[bool] = False
    run: str
    text: str
    kind: str = "text"
    to: str = ""
    untrusted: bool = False
    step: str = ""
    attempt: int = 0


class SpeechHeard(Request, frozen=True, kw_only=True, tag="speech.heard"):
    """All that a listener has heard of what ``run`` said before they cut it short.

    ``of`` is the place where it was said; 0 where it was being said and never ended. ``how`` is
    "hung up" where nobody has ended it: it was being said, and comes on record when it ends. Of
    several listeners only the one with the most counts: "whole" marks one that heard all of it.
    ``untrusted`` marks words of a run that had read words of strangers, as ``Said`` does.
    """

    MUST_UNDERSTAND: ClassVar[bool] = False
    text: str
    run: str
    of: int = 0
    how: str = ""
    untrusted: bool = False


def is_further(heard: SpeechHeard, before: SpeechHeard | None) -> bool:
    """Return whether no listener before has heard more of these words."""
    if before is None or heard.how == WHOLE:
        return True
    return before.how != WHOLE and len(heard.text) > len(before.text)


def goes_on(heard: str, said: str) -> bool:
    """Return whether the words that were said in the end begin with those that were heard."""
    return bool(heard.strip()) and said.lstrip().startswith(heard.strip())


class TodoAdded(Event, frozen=True, kw_only=True, tag="todo.added"):
    """A parked run or a deferred message; its position is its id. ``until``: parked for that."""

    kind: str
    text: str
    run: str = ""
    message: int = 0
    note: str = ""
    until: str = ""


class TodoTaken(Event, frozen=True, kw_only=True, tag="todo.taken"):
    """``run`` takes the todo up."""

    todo: int
    run: str


class TodoRemoved(Request, frozen=True, kw_only=True, tag="todo.removed"):
    """The person does not want it any more."""

    todo: int


class TodoWanted(Request, frozen=True, kw_only=True, tag="todo.wanted"):
    """The person wants it done now."""

    todo: int


class TodoDropped(Event, frozen=True, kw_only=True, tag="todo.dropped"):
    """There is nothing left to do: the run that was parked has ended, or is being cancelled."""

    todo: int
    why: str


class TodosReordered(Request, frozen=True, kw_only=True, tag="todos.reordered"):
    """The person's order of todos; the others follow in the usual one."""

    order: tuple[int, ...]


class FrontChanged(Event, frozen=True, kw_only=True, tag="front.changed"):
    """The thread is about ``run`` now; that stays so after its end, until it is about another.

    The other fields are about an agent that converses: from here on it is the thread's host.
    """

    run: str = ""
    agent: str = ""
    mode: Mode = Mode.IMMEDIATE
    limits: Limits = Limits()
    asides: bool = False


SPEAKING: Final = (MessageSent, MessageEdited, MessageWithdrawn, AsideAsked)
"""The requests that a viewer may make, too."""

WORDED: Final = (MessageSent, MessageEdited, AsideAsked)
"""The requests that need a text."""

# ── state ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Message:
    """A message. ``run`` is to read it, or has read it; empty before the triage."""

    position: int
    text: str
    who: Actor
    choice: str = ""
    at: float = 0.0
    run: str = ""


@dataclass(slots=True)
class Host:
    """The agent that answers in this thread, with the settings for its next run."""

    agent: str
    mode: Mode
    limits: Limits
    asides: bool


@dataclass(slots=True)
class Todo:
    """A parked run or a deferred message."""

    position: int
    kind: str
    text: str
    run: str
    message: int
    note: str
    until: str = ""


@dataclass(slots=True)
class ThreadState:
    """A conversation, folded up to ``head``."""

    journal: str
    head: int = 0
    at: float = 0.0
    created_at: float = 0.0
    title: str = ""
    front: str = ""
    host: Host | None = None
    opaque: bool = False
    unread: dict[int, Message] = field(default_factory=dict)
    reports: dict[int, str] = field(default_factory=dict)  # position -> run that is to read it
    read: dict[int, Message] = field(default_factory=dict)  # the last of them
    last_said: str = ""
    messages: int = 0
    todos: dict[int, Todo] = field(default_factory=dict)
    order: tuple[int, ...] = ()
    keys: Keys = field(default_factory=dict)
    asked: int = 0  # bytes of what people have asked

    @property
    def due_at(self) -> float | None:
        """The time of the last event while something waits for a free front; else None."""
        if self.host is None:
            return None
        heard = any(message.who.role.steers for message in self.unread.values())
        return self.at if self.todos or heard else None

    @property
    def next_todos(self) -> list[Todo]:
        """The person's order first, then parked runs newest first, then deferred oldest first."""
        chosen = [self.todos[p] for p in dict.fromkeys(self.order) if p in self.todos]
        rest = [todo for p, todo in self.todos.items() if p not in self.order]
        parked = [todo for todo in reversed(rest) if todo.kind == "parked"]
        return chosen + parked + [todo for todo in rest if todo.kind != "parked"]


# ── rules ────────────────────────────────────────────────────────────────────────────────────────


def check(state: ThreadState, event: Event) -> None:
    """Raise unless ``event`` may be the next one of this thread. Changes nothing."""
    rule = _RULES.get(type(event))
    why = rule(state, event) if rule else "a thread does not take it"
    if why:
        raise IllegalEvent(state.journal, event.stored_name(), why)


def _free(_s: ThreadState, _event: Any) -> str | None:
    return None


def _but(numbers: Iterable[int]) -> str:
    """Name what there is instead: the last few numbers, which people are likely to mean."""
    some = list(numbers)[-NAMED_MAX:]
    return f", only {', '.join(map(str, some))}" if some else ", nor any other"


def _unread(s: ThreadState, event: Any) -> str | None:
    if event.message in s.unread:
        return None
    own = [p for p, message in s.unread.items() if message.who.by == event.who.by]
    return f"there is no message {event.message} that can still be changed{_but(own)}"


def _taken(s: ThreadState, event: Any) -> str | None:
    if event.upto > s.head:
        return f"position {event.upto} is not written yet"
    late = [message for message in event.messages if message > event.upto]
    return f"messages {late} came after {event.upto}" if late else None


def _todo(s: ThreadState, event: Any) -> str | None:
    there = event.todo in s.todos
    return None if there else f"there is no todo {event.todo} now{_but(s.todos)}"


def _todos(s: ThreadState, event: Any) -> str | None:
    none = [str(todo) for todo in event.order if todo not in s.todos]
    return f"there is no todo {', '.join(none)} now{_but(s.todos)}" if none else None


def _known(s: ThreadState, event: Any) -> str | None:
    known = event.message in s.unread or event.message in s.read
    return None if known else f"message {event.message} is not known any more"


def _said(s: ThreadState, event: Any) -> str | None:
    return None if event.of <= s.head else f"nothing was said at {event.of}"


_RULES: Final[dict[type[Event], Callable[[ThreadState, Any], str | None]]] = {
    MessageSent: _free,
    Said: _free,
    TodoAdded: _free,
    TodosReordered: _todos,
    FrontChanged: _free,
    MessageEdited: _unread,
    MessageWithdrawn: _unread,
    MessageTriaged: lambda s, x: None if x.message <= s.head else "there is no such message",
    MessagesTaken: _taken,
    ChoiceOverruled: _known,
    AsideAsked: _free,
    SpeechHeard: _said,
    TodoTaken: _todo,
    TodoRemoved: _todo,
    TodoWanted: _todo,
    TodoDropped: _todo,
}
