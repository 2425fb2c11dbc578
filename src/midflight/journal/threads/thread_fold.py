"""Folds a thread's journal into its state, one small function per event, as ``fold`` for runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from midflight.journal.events import MessagesTaken
from midflight.journal.record import Event, Recorded, Request, remember_key, size_of
from midflight.journal.threads import thread as t
from midflight.journal.threads.thread import ThreadState

READ_KEPT: Final = 256  # read messages whose choice can still be overruled
SAID_KEPT: Final = 300  # characters of what was last said, for the note of a parked run


def advance(s: ThreadState, event: Event, record: Recorded) -> None:
    """Change the state by an event. Spoken words and later versions' events leave no mark."""
    apply = _APPLY.get(type(event))
    if apply is not None:
        apply(s, event, record)
    remember_key(s.keys, event, record.position)
    if isinstance(event, Request):
        s.asked += size_of(event)


def _thread_created(s: ThreadState, event: t.ThreadCreated, record: Recorded) -> None:
    s.title, s.created_at = event.title, record.at


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def _message_sent(s: ThreadState, event: t.MessageSent, record: Recorded) -> None:
    s.messages += 1
    at = record.position
    s.unread[at] = t.Message(at, event.text, event.who, at=record.at)


def _message_edited(s: ThreadState, event: t.MessageEdited, _record: Recorded) -> None:
    s.unread[event.message].text = event.text


def _message_withdrawn(s: ThreadState, event: t.MessageWithdrawn, _record: Recorded) -> None:
    s.unread.pop(event.message, None)


def _message_triaged(s: ThreadState, event: t.MessageTriaged, _record: Recorded) -> None:
    message = s.unread.get(event.message) or s.read.get(event.message)
    if message is not None:
        message.choice, message.run = event.choice, event.run


def _choice_overruled(s: ThreadState, event: t.ChoiceOverruled, _record: Recorded) -> None:
    if event.choice == "incorporate" and event.message in s.read:
        s.unread[event.message] = s.read.pop(event.message)


def _messages_taken(s: ThreadState, event: MessagesTaken, _record: Recorded) -> None:
    taken = event.messages or [p for p in s.unread if p <= event.upto]
    _read(s, taken, event.run)
    for report in event.messages:
        s.reports.pop(report, None)


def _said(s: ThreadState, event: t.Said, record: Recorded) -> None:
    """Keep words to another run as a report; other text is what the thread last heard."""
    if event.to:
        s.reports[record.position] = event.to
        while len(s.reports) > READ_KEPT:  # a run that has ended reads none
            del s.reports[next(iter(s.reports))]
    elif event.kind == "text":
        s.last_said = event.text[:SAID_KEPT]


def _read(s: ThreadState, messages: Iterable[int], run: str) -> None:
    """Take messages from the unread ones; the last of them can still be overruled."""
    for position in messages:
        message = s.unread.pop(position, None)
        if message is not None:
            message.run = run or message.run
            s.read[position] = message
    if len(s.read) > READ_KEPT:
        named = {todo.message for todo in s.todos.values()}  # they are still to be done
        for position in [p for p in s.read if p not in named][:-READ_KEPT]:
            del s.read[position]


# ── what is still to be done, and what is in front ───────────────────────────────────────────


def _todo_added(s: ThreadState, event: t.TodoAdded, record: Recorded) -> None:
    about = (event.kind, event.text, event.run, event.message, event.note, event.until)
    s.todos[record.position] = t.Todo(record.position, *about)
    _read(s, [event.message], "")


def _todo_taken(s: ThreadState, event: t.TodoTaken, _record: Recorded) -> None:
    todo = s.todos.pop(event.todo, None)
    if todo is not None and todo.message in s.read:
        s.read[todo.message].run = event.run


def _todo_gone(s: ThreadState, event: t.TodoRemoved | t.TodoDropped, _record: Recorded) -> None:
    s.todos.pop(event.todo, None)


def _todos_reordered(s: ThreadState, event: t.TodosReordered, _record: Recorded) -> None:
    s.order = event.order


def _front_changed(s: ThreadState, event: t.FrontChanged, _record: Recorded) -> None:
    s.front = event.run
    if event.agent:
        s.host = t.Host(event.agent, event.mode, event.limits, event.asides)


_APPLY: Final[dict[type[Event], Callable[[ThreadState, Any, Recorded], None]]] = {
    t.ThreadCreated: _thread_created,
    t.MessageSent: _message_sent,
    t.MessageEdited: _message_edited,
    t.MessageWithdrawn: _message_withdrawn,
    t.MessageTriaged: _message_triaged,
    t.ChoiceOverruled: _choice_overruled,
    MessagesTaken: _messages_taken,
    t.Said: _said,
    t.TodoAdded: _todo_added,
    t.TodoTaken: _todo_taken,
    t.TodoRemoved: _todo_gone,
    t.TodoDropped: _todo_gone,
    t.TodosReordered: _todos_reordered,
    t.FrontChanged: _front_changed,
}
