"""The todos of a thread, done now, put in order or removed; and choices that a person overrules."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from midflight.control.ack import Ack
from midflight.control.recorder import Recorder, bring_along, cover, runs_below
from midflight.errors import InvalidRequest
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from midflight.journal.preview import preview
from midflight.journal.record import Actor, Request
from midflight.journal.requests import refuse_if_stopped
from midflight.journal.state import RunState
from midflight.journal.threads import front
from midflight.journal.threads import thread as t
from midflight.journal.threads.thread import ChoiceOverruled, Message, ThreadState, Todo, TodoTaken
from midflight.runtime.threads.succession import finder
from midflight.stores.protocol import View

ANEW: Final = "To have it done again, write it as a new message."


class Overruling:
    """One such request, while it is decided. Its methods return in words what they have done."""

    def __init__(
        self, view: View, talk: ThreadState, moves: front.Moves, *, who: Actor, new: str
    ) -> None:
        self._view = view
        self._talk = talk
        self._moves = moves
        self._who = who
        self._new = new
        self._find = finder(view)

    # ── todos ────────────────────────────────────────────────────────────────────────────────

    def do_now(self, todo: Todo) -> str:
        """Take a todo up now, and park the run in front."""
        if todo.kind == "parked" and not front.is_parked(todo, self._find):
            raise InvalidRequest(
                f"run {todo.run} is not parked any more, so it cannot be brought back: look at the "
                "todos again. Nothing was changed."
            )
        self._begins()
        taken_by = todo.run if todo.kind == "parked" else self._new
        parked = self._park_front(f"until {todo.text!r} is done", until=taken_by)
        if todo.kind == "parked":
            front.bring_back(self._moves, self._talk, todo, f"wanted now by {self._who.by}")
        else:
            why = front.begin_todo(self._moves, self._talk, self._find, todo, new=self._new)
            if why:
                raise InvalidRequest(
                    f"todo {todo.position} cannot be done: {why}. Write its words yourself as a "
                    "message, and remove the todo. Nothing was changed."
                )
        return f"{parked}now: {todo.text}"

    def _begins(self) -> None:
        """Refuse to begin anything while a kill switch is on."""
        refuse_if_stopped(self._view.switches)

    def _front(self) -> RunState | None:
        """The run in front, unless that is free."""
        talk = self._talk
        return None if front.is_free(talk, self._find) else self._find(talk.front)

    def _park_front(self, why: str, until: str) -> str:
        run = self._front()
        if run is None:
            return ""
        if run.phase is Phase.CANCELLING:
            raise InvalidRequest(
                f"run {run.journal} is being cancelled; wait until it has ended. Nothing was "
                "changed."
            )
        front.park(self._moves, self._talk, run, why=why, until=until)
        return f"parked {front.short(run.title or run.brief)!r}; "

    # ── choices ──────────────────────────────────────────────────────────────────────────────

    def overrule(self, request: ChoiceOverruled) -> str:
        """See the module."""
        message = self._talk.unread.get(request.message) or self._talk.read.get(request.message)
        assert message is not None  # or the thread would not have taken the request
        match request.choice:
            case "incorporate":
                return self._incorporate(message)
            case "switch":
                return self._switch(message)
            case "defer":
                return self._defer(message)
            case "back":
                return self._back(message)
            case _:
                return self._undo(message)

    def _incorporate(self, message: Message) -> str:
        talk, at = self._talk, message.position
        if at in talk.read and message.choice == "switch" and self._is_at_work(message.run):
            run = self._undo_switch(message, "be incorporated")
        else:
            run = self._reader(message)
        if (todo := self._todo_of(message)) is not None:
            self._moves.add(talk.journal, TodoTaken(todo=todo.position, run=run))
        elif at in talk.read and message.choice != "switch":
            why = f"run {message.run} has read it already"
            raise _refused(message, "be incorporated", why, ANEW)
        elif message.run == run:
            why = f"run {run} takes it into account already"
            raise _refused(message, "be incorporated", why, "Nothing more has to be done.")
        front.incorporate(self._moves, talk, at, run, f"overruled by {self._who.by}")
        return f"run {run} reads it after what it is doing"

    def _reader(self, message: Message) -> str:
        run = self._front()
        if run is None or not front.is_host(self._talk, run):
            why = "no run of an agent that converses is in front in this thread"
            instead = "Choose 'switch' to have it done now."
            raise _refused(message, "be incorporated", why, instead)
        return run.journal

    def _switch(self, message: Message) -> str:
        talk = self._talk
        _refuse_data(message, "be done now")
        if (todo := self._todo_of(message)) is not None:
            return self.do_now(todo)
        if message.position in talk.read and message.choice != "incorporate":
            raise _refused(message, "be done now", f"run {message.run} was begun for it", ANEW)
        if talk.host is None:
            why = "no agent that converses answers in this thread"
            raise _refused(message, "be done now", why, "Start a run instead.")
        self._begins()
        parked = self._park_front(f"until {front.short(message.text)!r} is done", until=self._new)
        front.switch(
            self._moves, talk, self._find, [message], front=None, new=self._new, why="overruled"
        )
        return f"{parked}now: {front.short(message.text)}"

    def _defer(self, message: Message) -> str:
        _refuse_data(message, "be deferred")
        if self._todo_of(message) is not None:
            why = "it is a todo already"
            raise _refused(message, "be deferred", why, "Nothing more has to be done.")
        if message.position in self._talk.read:
            if message.choice != "switch" or not self._is_at_work(message.run):
                why = f"run {message.run} has read it already"
                raise _refused(message, "be deferred", why, ANEW)
            self._undo_switch(message, "be deferred")
        front.defer(self._moves, self._talk, message, "", f"overruled by {self._who.by}")
        return f"kept for later: {front.short(message.text)}"

    def _back(self, message: Message) -> str:
        todo = self._parked_for(message.run)
        if todo is None:
            why = "no run is parked until that message is done"
            instead = "See the todos for the runs that are parked."
            raise _refused(message, "bring a parked run back", why, instead)
        return self.do_now(todo)

    def _undo(self, message: Message) -> str:
        """Redirect the run to its brief again, without the message; finished work is kept."""
        if message.position in self._talk.unread:
            raise _refused(message, "be undone", "no run has read it yet", "Withdraw it instead.")
        run = self._find(message.run) if message.run else None
        if message.choice != "incorporate" or run is None or not run.alive:
            why = "it was not incorporated by a run that is still under way"
            instead = "See the transcript for what became of it."
            raise _refused(message, "be undone", why, instead)
        self._ask(run.journal, e.RedirectRequested(who=self._who, text=run.brief))
        return f"run {run.journal} goes back to: {front.short(run.brief)}"

    # ── their parts ──────────────────────────────────────────────────────────────────────────

    def _undo_switch(self, message: Message, doing: str) -> str:
        """Cancel the run that was begun for the message, and bring the parked run back."""
        todo = self._parked_for(message.run)
        if todo is None or self._talk.front != message.run:
            why = f"run {message.run} was begun for it, and no parked run can take its place"
            raise _refused(message, doing, why, "To stop that run, cancel it.")
        self._begins()
        front.bring_back(self._moves, self._talk, todo, f"overruled by {self._who.by}")
        self._ask(message.run, e.CancelRequested(who=self._who))
        return todo.run

    def _ask(self, run: str, request: Request) -> None:
        for journal, events in cover(self._view, run, "overrule", request).events.items():
            self._moves.add(journal, *events)

    def _is_at_work(self, run: str) -> bool:
        state = self._find(run) if run else None
        return state is not None and state.alive and Cause.PARKED not in state.holds

    def _parked_for(self, run: str) -> Todo | None:
        todos = (todo for todo in self._talk.todos.values() if run and todo.until == run)
        return next((todo for todo in todos if front.is_parked(todo, self._find)), None)

    def _todo_of(self, message: Message) -> Todo | None:
        todos = (todo for todo in self._talk.todos.values() if todo.kind == "deferred")
        return next((todo for todo in todos if todo.message == message.position), None)


def _refuse_data(message: Message, doing: str) -> None:
    """Refuse a message of somebody who may not steer: their words never become a brief."""
    if not message.who.role.steers:
        why = f"its author has the role {message.who.role}, which may not begin work"
        raise _refused(message, doing, why, "Write its words yourself, as a new message.")


def _refused(message: Message, doing: str, why: str, instead: str) -> InvalidRequest:
    return InvalidRequest(
        f"message {message.position} cannot {doing}, because {why}. {instead} Nothing was changed."
    )


class TodoOffer(Struct, frozen=True):
    """A todo, and what would happen if it were done now, or removed."""

    todo: int
    kind: str
    text: str
    note: str
    run: str
    message: int
    now: str = ""
    remove: str = ""


class Todos:
    """Does the verbs about the todos of a thread."""

    def __init__(self, record: Recorder) -> None:
        self.record = record

    async def offered(self, thread: str) -> list[TodoOffer]:
        """List the todos, each with what it would mean now to do it at once or to remove it."""
        talk = await self.record.thread(thread)
        found = []
        for todo in talk.next_todos:
            now = "Does it now; what is in front is parked and comes back"
            remove = "It will not be done"
            if todo.kind == "parked":
                now = "Comes back now; what is in front is parked in its turn"
                remove = await self._cost_of_removing(todo)
            about = (todo.kind, todo.text, todo.note, todo.run, todo.message)
            found.append(TodoOffer(todo.position, *about, now=now, remove=remove))
        return found

    async def _cost_of_removing(self, todo: t.Todo) -> str:
        state = await self.record.store.load(todo.run)
        assert isinstance(state, RunState)
        offer = preview(state, await runs_below(self.record.store, state))["cancel"]
        return f"Cancels that run: {offer.consequence}" if offer.enabled else "Its run has ended"

    async def do_now(self, thread: str, todo: int, *, who: Actor, key: str) -> Ack:
        """Take a todo now: a parked run comes back, a deferred message is done."""
        request = t.TodoWanted(who=who, key=key, todo=todo)
        new = self.record.new_run()

        def then(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
            taken = talk.todos[todo]
            overruling = Overruling(view, talk, moves, who=request.who, new=new)
            done = overruling.do_now(taken)
            return {"status": done, "target": taken.run or new}

        return await self.record.tell(thread, "do now", request, then)

    async def remove_todo(self, thread: str, todo: int, *, who: Actor, key: str) -> Ack:
        """Do not want it any more. A parked run is cancelled with its todo, and undone."""
        request = t.TodoRemoved(who=who, key=key, todo=todo)

        def then(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
            removed = talk.todos[todo]
            if removed.kind != "parked" or not front.is_parked(removed, finder(view)):
                return {}
            draft = cover(view, removed.run, "cancel", e.CancelRequested(who=request.who))
            bring_along(moves, draft)
            return {"did": "cancelled", "target": removed.run, "in_flight": draft.note.in_flight}

        return await self.record.tell(thread, "remove todo", request, then)
