"""A thread is a journal too: messages, todos, and which run is in front.

The whole of it in one place: events, state, rules and fold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from midflight.errors import IllegalEvent
from midflight.kernel.events import MessagesTaken
from midflight.kernel.record import Event, Keys, Recorded, Request, Who, remember_key

UNREAD_MAX: Final = 256  # a person cannot type more in a turn; a loop that can is told so

# ── events ───────────────────────────────────────────────────────────────────────────────────────


class ThreadCreated(Request, frozen=True, kw_only=True, tag="thread.created"):
    """A conversation; its journal holds messages, todos and which run is in front."""

    title: str = ""


class MessageSent(Request, frozen=True, kw_only=True, tag="message.sent"):
    """Keeps its sender's role for ever; its position is its id."""

    text: str


class MessageEdited(Request, frozen=True, kw_only=True, tag="message.edited"):
    """New text for a message that nobody has read yet."""

    message: int
    text: str


class MessageWithdrawn(Request, frozen=True, kw_only=True, tag="message.withdrawn"):
    """Taken back before it was read."""

    message: int


class MessageTriaged(Event, frozen=True, kw_only=True, tag="message.triaged"):
    """What the run does about it: incorporate, switch or defer."""

    message: int
    choice: str
    run: str = ""
    why: str = ""


class Said(Event, frozen=True, kw_only=True, tag="agent.said"):
    """The agent speaks in the thread."""

    MUST_UNDERSTAND: ClassVar[bool] = False
    run: str
    text: str
    kind: str = "text"


class TodoAdded(Event, frozen=True, kw_only=True, tag="todo.added"):
    """A parked run or a deferred message; its position is its id."""

    kind: str
    text: str
    run: str = ""
    message: int = 0
    note: str = ""


class TodoTaken(Event, frozen=True, kw_only=True, tag="todo.taken"):
    """``run`` takes it up."""

    todo: int
    run: str


class TodoRemoved(Request, frozen=True, kw_only=True, tag="todo.removed"):
    """The person does not want it any more."""

    todo: int


class TodosReordered(Request, frozen=True, kw_only=True, tag="todos.reordered"):
    """The person's order; what it leaves out follows in the usual one."""

    order: tuple[int, ...]


class FrontChanged(Event, frozen=True, kw_only=True, tag="front.changed"):
    """Which run the thread is about now; empty when it is free."""

    run: str = ""


# ── state ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Message:
    """A message that has not been read yet."""

    position: int
    text: str
    who: Who
    choice: str = ""
    at: float = 0.0


@dataclass(slots=True)
class Todo:
    """A parked run or a deferred message."""

    position: int
    kind: str
    text: str
    run: str
    message: int
    note: str


@dataclass(slots=True)
class ThreadState:
    """A conversation, folded up to ``head``."""

    journal: str
    head: int = 0
    at: float = 0.0
    created_at: float = 0.0
    title: str = ""
    front: str = ""
    opaque: bool = False
    unread: dict[int, Message] = field(default_factory=dict)
    messages: int = 0
    todos: dict[int, Todo] = field(default_factory=dict)
    order: tuple[int, ...] = ()
    keys: Keys = field(default_factory=dict)

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


def _unread(s: ThreadState, event: Any) -> str | None:
    return None if event.message in s.unread else f"message {event.message} was read already"


def _taken(s: ThreadState, event: Any) -> str | None:
    if event.upto > s.head:
        return f"position {event.upto} is not written yet"
    late = [message for message in event.messages if message > event.upto]
    return f"messages {late} came after {event.upto}" if late else None


def _todo(s: ThreadState, event: Any) -> str | None:
    return None if event.todo in s.todos else f"todo {event.todo} is taken or gone"


_RULES: Final[dict[type[Event], Callable[[ThreadState, Any], str | None]]] = {
    MessageSent: _free,
    Said: _free,
    TodoAdded: _free,
    TodosReordered: _free,
    FrontChanged: _free,
    MessageEdited: _unread,
    MessageWithdrawn: _unread,
    MessageTriaged: lambda s, x: None if x.message <= s.head else "there is no such message",
    MessagesTaken: _taken,
    TodoTaken: _todo,
    TodoRemoved: _todo,
}


# ── fold ─────────────────────────────────────────────────────────────────────────────────────────


def advance(s: ThreadState, event: Event, record: Recorded) -> None:  # noqa: C901
    """One arm an event: flat, so that it reads as the list it is."""
    at = record.position
    match event:
        case ThreadCreated():
            s.title, s.created_at = event.title, record.at
        case MessageSent():
            s.messages += 1
            s.unread[at] = Message(at, event.text, event.who, at=record.at)
        case MessageEdited():
            s.unread[event.message].text = event.text
        case MessageWithdrawn():
            s.unread.pop(event.message, None)
        case MessageTriaged():
            if event.message in s.unread:
                s.unread[event.message].choice = event.choice
        case MessagesTaken():
            taken = event.messages or [p for p in s.unread if p <= event.upto]
            for message in taken:
                s.unread.pop(message, None)
        case TodoAdded():
            s.todos[at] = Todo(at, event.kind, event.text, event.run, event.message, event.note)
            s.unread.pop(event.message, None)
        case TodoTaken() | TodoRemoved():
            s.todos.pop(event.todo, None)
        case TodosReordered():
            s.order = event.order
        case FrontChanged():
            s.front = event.run
        case _:
            pass  # spoken words and events of later versions leave no mark here
    remember_key(s.keys, event, at)
