"""What comes next in a thread: pure decisions, judged by what they lead to."""

from __future__ import annotations

from random import Random

import pytest

from journal.journals import ANN, BOB, VIC, Journal, Thread
from midflight.journal import events as e
from midflight.journal.control_fold import READ_KEPT
from midflight.journal.phases import ENDS, Cause, Mode, Phase
from midflight.journal.record import Actor, Limits
from midflight.journal.state import RunState
from midflight.journal.threads import front
from midflight.journal.threads import thread as t


class Conversation:
    """A thread whose agent converses, and its runs. Drives and ends them as a driver would."""

    def __init__(self) -> None:
        self.thread = Thread()
        self.runs: dict[str, Journal[RunState]] = {}
        self.finished: list[str] = []
        self.begin("r-1", "first")
        self.thread.append(
            t.FrontChanged(run="r-1", agent="clerk", limits=Limits(steps=7), asides=True)
        )

    @property
    def talk(self) -> t.ThreadState:
        return self.thread.state

    @property
    def new(self) -> str:
        return f"r-{len(self.runs) + 1}"

    def find(self, run: str) -> RunState | None:
        return self.runs[run].state if run in self.runs else None

    def begin(self, run: str, brief: str) -> None:
        created = e.RunCreated(who=ANN, agent="clerk", thread="t-1", brief=brief, converses=True)
        self.runs[run] = Journal(RunState(run))
        self.runs[run].append(created)

    def apply(self, moves: front.Moves) -> None:
        for journal, events in moves.events.items():
            if journal == self.talk.journal:
                self.thread.append(*events)
            else:
                self.runs.setdefault(journal, Journal(RunState(journal))).append(*events)

    def moving(self, run: str) -> Journal[RunState]:
        journal = self.runs[run]
        if not journal.state.driver:
            journal.append(e.DriverClaimed(epoch=journal.state.epoch + 1, driver="d-1"))
        if journal.state.phase is Phase.QUEUED:
            journal.append(e.RunEntered(epoch=journal.state.epoch))
        return journal

    def ends(self, run: str, outcome: str = "done", *, stopped: bool = False) -> None:
        journal = self.moving(run)
        moves = front.Moves()
        moves.add(run, e.RunFinished(epoch=journal.state.epoch, outcome=outcome))
        front.after_end(moves, self.talk, self.find, new=self.new, ended=run, stopped=stopped)
        self.apply(moves)
        self.finished.append(run)

    def is_killed(self, run: str) -> None:
        self.moving(run).append(e.Killed(who=Actor("olga"), scope="all"))

    def goes_on(self) -> None:
        moves = front.Moves()
        front.go_on(moves, self.talk, self.find, new=self.new)
        self.apply(moves)

    def chooses(self, message: int, choice: str) -> None:
        moves, run = front.Moves(), self.runs[self.talk.front].state
        unread = self.talk.unread[message]
        match choice:
            case "switch":
                self.moving(run.journal)
                front.switch(
                    moves, self.talk, self.find, [unread], front=run, new=self.new, why="now"
                )
            case "defer":
                front.defer(moves, self.talk, unread, "")
            case _:
                front.incorporate(moves, self.talk, message, run.journal)
        self.apply(moves)

    def reads(self, run: str) -> list[int]:
        taken = front.readable(self.talk, run, converses=True)
        if taken:
            event = e.MessagesTaken(run=run, upto=self.talk.head, messages=taken, step="inbox")
            self.moving(run).append(event)
            self.thread.append(event)
        return list(taken)

    def sends(self, text: str, who: Actor = ANN) -> int:
        return self.thread.send(text, who)


def briefs(conversation: Conversation) -> list[str]:
    return [run.state.brief for run in conversation.runs.values()]


def test_at_its_end_an_unread_message_begins_the_next_run_with_what_the_host_declares() -> None:
    chat = Conversation()
    message = chat.sends("second")

    chat.ends("r-1")

    assert briefs(chat) == ["first", "second"]
    created = chat.runs["r-2"].records[0].event
    assert (created.agent, created.mode, created.limits) == (
        "clerk",
        Mode.IMMEDIATE,
        Limits(steps=7),
    )
    assert (created.messages, created.thread_at, created.asides) == ((message,), message, True)
    assert (chat.talk.front, chat.talk.unread) == ("r-2", {})


def test_several_unread_messages_are_one_brief_in_their_order() -> None:
    chat = Conversation()
    for text in ("second", "third"):
        chat.sends(text)

    chat.ends("r-1")

    assert briefs(chat) == ["first", "second\nthird"]


def test_a_viewers_message_begins_nothing_and_waits_for_the_next_run() -> None:
    chat = Conversation()
    hers = chat.sends("delete all", VIC)
    chat.ends("r-1")
    assert list(chat.runs) == ["r-1"]
    assert chat.talk.due_at is None

    chat.sends("second")
    chat.goes_on()

    assert briefs(chat) == ["first", "second"]
    assert list(chat.talk.unread) == [hers]


def test_a_viewers_message_that_was_put_off_is_dropped_and_never_a_brief() -> None:
    chat = Conversation()
    chat.chooses(chat.sends("delete all", VIC), "defer")
    chat.chooses(chat.sends("errand"), "defer")

    chat.ends("r-1")

    assert briefs(chat) == ["first", "errand"]
    dropped = [r.event for r in chat.thread.records if isinstance(r.event, t.TodoDropped)]
    assert [event.why for event in dropped] == ["its message is a viewer's"]
    assert chat.talk.todos == {}


def test_a_run_is_begun_for_nobody_who_may_not_steer() -> None:
    chat = Conversation()
    hers = chat.talk.unread[chat.sends("delete all", VIC)]

    with pytest.raises(AssertionError):
        front.begin(front.Moves(), chat.talk, chat.find, new="r-2", messages=[hers])


def test_a_todo_is_done_in_its_senders_words_and_name_however_much_was_said_since() -> None:
    chat = Conversation()
    moves = front.Moves()
    errand = chat.talk.unread[chat.sends("later, ring Bob at 555-1234", BOB)]
    front.defer(moves, chat.talk, errand, "ring Bob")
    chat.apply(moves)
    for n in range(READ_KEPT + 1):
        chat.chooses(chat.sends(f"thought {n}"), "incorporate")
        chat.reads("r-1")

    chat.ends("r-1")

    created = chat.runs["r-2"].records[0].event
    assert (created.brief, created.who) == ("later, ring Bob at 555-1234", BOB)
    assert created.messages == (errand.position,)


def test_while_an_operator_has_stopped_it_nothing_follows_an_end() -> None:
    chat = Conversation()
    chat.sends("second")

    chat.ends("r-1", stopped=True)
    assert briefs(chat) == ["first"]
    assert chat.talk.due_at is not None  # somebody will look again

    chat.goes_on()
    assert briefs(chat) == ["first", "second"]


def test_a_message_comes_before_a_parked_run_and_that_before_a_deferred_message() -> None:
    chat = Conversation()
    chat.chooses(chat.sends("errand"), "defer")
    chat.chooses(chat.sends("urgent"), "switch")
    chat.sends("news")

    for run in ("r-2", "r-3", "r-1", "r-4"):
        assert chat.talk.front == run
        chat.ends(run)

    assert briefs(chat) == ["first", "urgent", "news", "errand"]
    assert (chat.talk.todos, chat.talk.unread, chat.talk.due_at) == ({}, {}, None)


def test_the_persons_order_comes_first() -> None:
    chat = Conversation()
    chat.chooses(chat.sends("errand"), "defer")
    chat.chooses(chat.sends("urgent"), "switch")
    (errand,) = [todo for todo in chat.talk.todos.values() if todo.kind == "deferred"]
    chat.thread.ask(t.TodosReordered(who=ANN, order=(errand.position,)))

    chat.ends("r-2")

    assert chat.runs[chat.talk.front].state.brief == "errand"
    chat.ends(chat.talk.front)
    assert chat.talk.front == "r-1"


def test_a_switch_holds_the_run_and_says_where_it_was_and_for_what() -> None:
    chat = Conversation()
    run = chat.moving("r-1")
    run.append(e.PlanSet(epoch=1, steps=("Look", "Write", "Send")))
    run.append(e.StepSettled(epoch=1, step="look", name="Look"))
    chat.thread.append(t.Said(run="r-1", text="I have looked."))

    chat.chooses(chat.sends("urgent\nreally"), "switch")

    assert run.state.phase is Phase.PAUSING
    assert run.state.holds == {Cause.PARKED}
    assert run.state.parked_for == "until 'urgent' is done"
    (todo,) = chat.talk.next_todos
    assert (todo.text, todo.run, todo.until) == ("resume first from step 2 of 3", "r-1", "r-2")
    assert todo.note == (
        "Brief: first\nPlan: Look, Write, Send; 1 of 3 done\nLast said: I have looked."
    )
    assert chat.runs["r-2"].state.brief == "urgent\nreally"


def test_a_parked_run_that_has_ended_is_passed_over_and_its_todo_dropped() -> None:
    chat = Conversation()
    chat.chooses(chat.sends("urgent"), "switch")
    chat.runs["r-1"].append(e.CancelRequested(who=ANN))  # nobody has driven it to its end yet

    chat.ends("r-2")

    assert chat.talk.todos == {}
    assert chat.talk.front == "r-2"


def test_what_an_ended_run_was_to_read_is_open_again_for_who_is_in_front() -> None:
    chat = Conversation()
    message = chat.sends("also")
    chat.chooses(message, "incorporate")
    chat.chooses(chat.sends("urgent"), "switch")
    chat.runs["r-1"].append(e.CancelRequested(who=ANN))

    chat.ends("r-1", "cancelled")

    assert [m.position for m in front.open_messages(chat.talk)] == [message]
    assert chat.talk.front == "r-2"


def test_after_a_kill_the_sweep_finds_the_front_free() -> None:
    chat = Conversation()
    chat.chooses(chat.sends("urgent"), "switch")
    chat.is_killed("r-2")

    chat.goes_on()

    assert chat.talk.front == "r-1"
    assert chat.runs["r-1"].state.holds == set()


def test_the_front_is_free_when_its_run_has_ended_is_parked_or_was_purged() -> None:
    chat = Conversation()
    run = chat.moving("r-1")
    assert not front.is_free(chat.talk, chat.find)
    run.append(e.PauseRequested(who=ANN))
    assert not front.is_free(chat.talk, chat.find)  # it is still what the thread is about

    assert front.is_free(chat.talk, chat.find, ended="r-1")
    assert front.is_free(chat.talk, lambda _run: None)
    run.append(e.HoldPlaced(cause=Cause.PARKED))
    assert front.is_free(chat.talk, chat.find)


def test_to_look_twice_changes_nothing() -> None:
    chat = Conversation()
    chat.chooses(chat.sends("errand"), "defer")
    chat.ends("r-1")
    head = chat.talk.head

    chat.goes_on()

    assert (chat.talk.head, list(chat.runs)) == (head, ["r-1", "r-2"])


@pytest.mark.parametrize("host", [True, False])
def test_without_a_host_a_message_is_for_whoever_looks(host: bool) -> None:
    thread = Thread()
    thread.append(t.FrontChanged(run="r-1", agent="clerk" if host else ""))
    message = thread.send("hello")

    read = front.readable(thread.state, "r-2", converses=False)

    assert read == (() if host else (message,))


def test_a_run_with_which_nobody_converses_reads_all_that_comes() -> None:
    thread = Thread()
    thread.append(t.FrontChanged(run="r-1"))
    first, second = thread.send("hello"), thread.send("again", VIC)

    assert front.readable(thread.state, "r-1", converses=False) == (first, second)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_no_message_and_no_todo_is_lost_or_done_twice(seed: int) -> None:
    random, chat = Random(seed), Conversation()
    sent: dict[int, str] = {}
    for step in range(80):
        front_run = chat.find(chat.talk.front)
        assert front_run is not None
        match random.randrange(8):
            case 0 | 1:
                text = f"message {step}"
                sent[chat.sends(text)] = text
                if front.is_free(chat.talk, chat.find):
                    chat.goes_on()
            case 2 | 3 | 4 if front.open_messages(chat.talk) and front_run.alive:
                message = random.choice(front.open_messages(chat.talk)).position
                chat.chooses(message, random.choice(["incorporate", "switch", "defer"]))
            case 5 if front_run.alive and Cause.PARKED not in front_run.holds:
                chat.reads(chat.talk.front)
            case 6 if front_run.alive and Cause.PARKED not in front_run.holds:
                chat.ends(chat.talk.front, stopped=random.randrange(4) == 0)
            case _:
                chat.goes_on()
    for _ in range(200):
        chat.goes_on()
        run = chat.find(chat.talk.front)
        assert run is not None
        if not run.alive:
            break
        chat.reads(chat.talk.front)
        chat.ends(chat.talk.front)

    assert (chat.talk.unread, chat.talk.todos) == ({}, {})
    assert all(run.state.phase in ENDS for run in chat.runs.values())
    read = [
        message
        for run in chat.runs.values()
        for record in run.records
        if isinstance(record.event, e.MessagesTaken | e.RunCreated)
        for message in record.event.messages
    ]
    assert sorted(read) == sorted(sent)
    taken = [r.event.todo for r in chat.thread.records if isinstance(r.event, t.TodoTaken)]
    added = [r.position for r in chat.thread.records if isinstance(r.event, t.TodoAdded)]
    assert sorted(taken) == sorted(added)
