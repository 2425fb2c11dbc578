"""A thread: messages until they are read, todos in their order, and which run is in front."""

from __future__ import annotations

from copy import deepcopy

import pytest

from journal.journals import ANN, BOB, VIC, Thread
from midflight.errors import IllegalEvent, InvalidRequest, NotAllowed
from midflight.journal import events as e
from midflight.journal.control_fold import READ_KEPT
from midflight.journal.fold import fold
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from midflight.journal.requests import decide
from midflight.journal.threads.thread import (
    UNREAD_MAX,
    VIEWERS_MAX,
    FrontChanged,
    MessageEdited,
    MessageSent,
    MessageTriaged,
    MessageWithdrawn,
    Said,
    ThreadState,
    TodoAdded,
    TodoRemoved,
    TodosReordered,
    TodoTaken,
)


def take(thread: Thread, upto: int, *messages: int) -> int:
    return thread.append(e.MessagesTaken(run="r-1", upto=upto, messages=messages))


def texts(thread: Thread) -> list[str]:
    return [message.text for message in thread.state.unread.values()]


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def test_a_message_is_unread_until_a_run_takes_it() -> None:
    thread = Thread()
    first = thread.send("hello")
    assert texts(thread) == ["hello"]

    take(thread, first)

    assert texts(thread) == []
    assert thread.state.messages == 1


def test_a_message_that_arrives_after_upto_is_not_consumed() -> None:
    thread = Thread()
    first = thread.send("hello")
    thread.send("wait")

    take(thread, first)

    assert texts(thread) == ["wait"]


def test_a_run_may_take_some_and_leave_others() -> None:
    thread = Thread()
    first, second = thread.send("book it"), thread.send("and one thing for later")

    take(thread, second, first)

    assert texts(thread) == ["and one thing for later"]


def test_nothing_is_taken_that_came_after_what_was_read() -> None:
    thread = Thread()
    first, second = thread.send("hello"), thread.send("wait")

    with pytest.raises(IllegalEvent, match=rf"messages \[{second}\] came after {first}"):
        take(thread, first, first, second)
    with pytest.raises(IllegalEvent, match="not written yet"):
        take(thread, thread.state.head + 1)


def test_a_message_needs_a_text() -> None:
    thread = Thread()
    message = thread.send("hello")

    with pytest.raises(InvalidRequest, match="needs a text"):
        thread.send(" \n")
    with pytest.raises(InvalidRequest, match="needs a text"):
        thread.ask(MessageEdited(who=ANN, message=message, text=" "))


def test_a_message_keeps_its_senders_role() -> None:
    thread = Thread()
    message = thread.send("stop!", VIC)

    assert thread.state.unread[message].who.role is Role.VIEWER


def test_beyond_256_unread_messages_the_sender_is_told() -> None:
    thread = Thread()
    for n in range(UNREAD_MAX):
        thread.send(f"message {n}")
    before = deepcopy(thread.state)

    with pytest.raises(InvalidRequest, match=r"256 unread messages.*was not stored"):
        thread.send("one more")
    assert thread.state == before

    take(thread, 2)
    thread.send("one more")
    assert len(thread.state.unread) == UNREAD_MAX == 256


def test_viewers_have_a_share_of_what_is_unread_and_shut_nobody_out() -> None:
    thread = Thread()
    for n in range(VIEWERS_MAX):
        thread.send(f"look {n}", VIC)

    with pytest.raises(InvalidRequest, match=r"64 unread messages of viewers.*was not stored"):
        thread.send("one more", VIC)
    for n in range(UNREAD_MAX - VIEWERS_MAX):
        thread.send(f"message {n}", ANN)
    with pytest.raises(InvalidRequest, match="256 unread messages;"):
        thread.send("one more", ANN)


def test_a_message_that_is_read_at_once_needs_no_room() -> None:
    thread = Thread()
    for n in range(UNREAD_MAX):
        thread.send(f"message {n}")
    stop = MessageSent(who=ANN, text="stop")

    assert decide(thread.state, stop, read_at_once=True) == (stop,)


def test_an_unread_message_can_be_edited_and_withdrawn() -> None:
    thread = Thread()
    first, second = thread.send("book a tabel"), thread.send("never mind")

    thread.ask(MessageEdited(who=ANN, message=first, text="book a table"))
    thread.ask(MessageWithdrawn(who=ANN, message=second))

    assert texts(thread) == ["book a table"]


def test_a_message_that_was_read_can_be_neither() -> None:
    thread = Thread()
    message = thread.send("hello")
    take(thread, message)

    with pytest.raises(InvalidRequest, match=r"no message \d+ that can still be changed"):
        thread.ask(MessageEdited(who=ANN, message=message, text="good bye"))
    with pytest.raises(InvalidRequest, match=r"no message \d+ that can still be changed"):
        thread.ask(MessageWithdrawn(who=ANN, message=message))


@pytest.mark.parametrize("who", [BOB, VIC, Actor("ann", Role.VIEWER)])
def test_nobody_puts_words_into_a_message_that_speaks_with_anothers_role(who: Actor) -> None:
    thread = Thread()
    message = thread.send("hello")

    with pytest.raises(NotAllowed, match="needs its sender, ann, as a controller"):
        thread.ask(MessageEdited(who=who, message=message, text="pay everything"))
    with pytest.raises(NotAllowed):
        thread.ask(MessageWithdrawn(who=who, message=message))
    assert texts(thread) == ["hello"]


def test_a_viewer_may_speak_and_correct_what_they_said() -> None:
    thread = Thread()
    message = thread.send("hello", VIC)

    thread.ask(MessageEdited(who=VIC, message=message, text="good evening"))

    assert texts(thread) == ["good evening"]


def test_triage_marks_a_message_and_leaves_it_unread() -> None:
    thread = Thread()
    message = thread.send("also a taxi")

    thread.append(MessageTriaged(message=message, choice="incorporate"))

    assert thread.state.unread[message].choice == "incorporate"


def test_triage_may_come_after_the_message_was_read_but_not_before_it_was_written() -> None:
    thread = Thread()
    message = thread.send("also a taxi")
    take(thread, message)

    thread.append(MessageTriaged(message=message, choice="incorporate"))
    with pytest.raises(IllegalEvent, match="no such message"):
        thread.append(MessageTriaged(message=99, choice="defer"))


def test_what_the_agent_says_is_nobodys_unread_message() -> None:
    thread = Thread()

    thread.append(Said(run="r-1", text="Booked."))

    assert (thread.state.unread, thread.state.messages) == ({}, 0)


# ── todos ────────────────────────────────────────────────────────────────────────────────────


def todo(thread: Thread, text: str, kind: str) -> int:
    return thread.append(TodoAdded(kind=kind, text=text))


def order(thread: Thread) -> list[str]:
    return [item.text for item in thread.state.next_todos]


@pytest.fixture
def thread() -> Thread:
    """Positions 2 to 5, in the order in which they were added."""
    thread = Thread()
    for text, kind in [
        ("old errand", "deferred"),
        ("old run", "parked"),
        ("new errand", "deferred"),
        ("new run", "parked"),
    ]:
        todo(thread, text, kind)
    return thread


def test_parked_runs_come_newest_first_then_deferred_ones_oldest_first(thread: Thread) -> None:
    assert order(thread) == ["new run", "old run", "old errand", "new errand"]


def test_the_person_may_reorder_and_what_they_leave_out_follows_as_usual(thread: Thread) -> None:
    thread.ask(TodosReordered(who=ANN, order=(4, 3)))

    assert order(thread) == ["new errand", "old run", "new run", "old errand"]


def test_an_order_may_name_a_thing_twice_but_nothing_that_is_not_there(thread: Thread) -> None:
    thread.ask(TodosReordered(who=ANN, order=(4, 4)))

    assert order(thread) == ["new errand", "new run", "old run", "old errand"]
    with pytest.raises(InvalidRequest, match=r"there is no todo 99, 7 now, only 2, 3, 4, 5\."):
        thread.ask(TodosReordered(who=ANN, order=(99, 2, 7)))
    assert order(thread) == ["new errand", "new run", "old run", "old errand"]


def test_what_was_put_in_order_and_is_gone_leaves_the_rest_in_order(thread: Thread) -> None:
    thread.ask(TodosReordered(who=ANN, order=(4, 2)))
    thread.append(TodoTaken(todo=4, run="r-1"))

    assert order(thread) == ["old errand", "new run", "old run"]


def test_what_is_added_later_follows_the_persons_order(thread: Thread) -> None:
    thread.ask(TodosReordered(who=ANN, order=(2,)))

    todo(thread, "newest run", "parked")

    assert order(thread)[:2] == ["old errand", "newest run"]


def test_a_todo_is_taken_once(thread: Thread) -> None:
    thread.append(TodoTaken(todo=3, run="r-1"))

    assert "old run" not in order(thread)
    with pytest.raises(IllegalEvent, match="there is no todo 3 now"):
        thread.append(TodoTaken(todo=3, run="r-2"))
    with pytest.raises(InvalidRequest, match="there is no todo 3 now"):
        thread.ask(TodoRemoved(who=ANN, todo=3))


def test_a_todo_can_be_removed(thread: Thread) -> None:
    thread.ask(TodoRemoved(who=ANN, todo=2))

    assert "old errand" not in order(thread)


@pytest.mark.parametrize(
    "request_", [TodoRemoved(who=VIC, todo=2), TodosReordered(who=VIC, order=(2,))]
)
def test_a_viewer_moves_no_todos(thread: Thread, request_: TodoRemoved | TodosReordered) -> None:
    with pytest.raises(NotAllowed):
        thread.ask(request_)


def test_a_deferred_message_is_a_todo_and_not_unread_any_more() -> None:
    thread = Thread()
    message = thread.send("later: book a taxi")

    thread.append(TodoAdded(kind="deferred", text="book a taxi", message=message))

    assert (texts(thread), order(thread)) == ([], ["book a taxi"])


def test_what_a_todo_names_is_known_however_many_messages_follow() -> None:
    thread = Thread()
    errand = thread.send("later: book a taxi to the airport")
    todo = thread.append(TodoAdded(kind="deferred", text="book a taxi", message=errand))
    for n in range(READ_KEPT + 1):
        take(thread, thread.send(f"message {n}"))
    assert len(thread.state.read) == READ_KEPT + 1

    assert thread.state.read[errand].text == "later: book a taxi to the airport"
    thread.append(TodoTaken(todo=todo, run="r-2"))
    take(thread, thread.send("and now"))
    assert errand not in thread.state.read
    assert len(thread.state.read) == READ_KEPT


# ── the front, and the journal as a whole ────────────────────────────────────────────────────


def test_one_run_is_in_front_or_none() -> None:
    thread = Thread()

    thread.append(FrontChanged(run="r-1"))
    assert thread.state.front == "r-1"

    thread.append(FrontChanged())
    assert thread.state.front == ""


def test_a_thread_does_not_take_a_runs_request() -> None:
    with pytest.raises(InvalidRequest, match="a thread does not take it"):
        Thread().ask(e.PauseRequested(who=ANN))


def test_a_thread_folded_from_the_start_is_the_thread(thread: Thread) -> None:
    thread.send("hello")
    thread.append_from_the_future(must_understand=False)
    thread.ask(TodosReordered(who=ANN, order=(4, 3)))

    assert fold(ThreadState("t-1"), thread.records) == thread.state
    assert (thread.state.title, thread.state.created_at, thread.state.opaque) == (
        "Trip",
        1.0,
        False,
    )
