"""The todos of a thread: looked at, done now, put in order, removed."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from midflight.control.ack import Ack
from midflight.control.descendants import cover, runs_below
from midflight.control.overrulings import Overruling
from midflight.control.recorder import Recorder, bring_along
from midflight.journal import events as e
from midflight.journal.preview import preview
from midflight.journal.record import Actor
from midflight.journal.state import RunState
from midflight.journal.threads import front
from midflight.journal.threads import thread as t
from midflight.runtime.threads.succession import finder
from midflight.stores.protocol import View


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
