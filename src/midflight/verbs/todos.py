"""The todos of a thread: looked at, done now, put in order, removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from msgspec import Struct

from midflight.kernel import events as e
from midflight.kernel import front
from midflight.kernel import thread as t
from midflight.kernel.preview import preview
from midflight.kernel.state import RunState
from midflight.runtime.threads.succession import finder
from midflight.stores.protocol import RUN_PREFIX, View
from midflight.verbs.auditing import audited
from midflight.verbs.covering import Ack, cover, runs_below
from midflight.verbs.overruling import Overruling
from midflight.verbs.telling import By, Telling, bring_along


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


class Todos(Telling):
    """The part of ``Control`` that is about todos."""

    async def todos(self, thread: str) -> list[t.Todo]:
        """List the todos of a thread, in the order in which they will be done."""
        return (await self._thread(thread)).next_todos

    async def preview_todos(self, thread: str) -> list[TodoOffer]:
        """List the todos, each with what it would mean now to do it at once or to remove it."""
        talk = await self._thread(thread)
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
        state = await self.store.load(todo.run)
        assert isinstance(state, RunState)
        offer = preview(state, await runs_below(self.store, state))["cancel"]
        return f"Cancels that run: {offer.consequence}" if offer.enabled else "Its run has ended"

    @audited("do now")
    async def do_now(self, thread: str, todo: int, **by: Unpack[By]) -> Ack:
        """Take a todo now: a parked run comes back, a deferred message is done."""
        request = self._by(t.TodoWanted, todo=todo, **by)
        new = RUN_PREFIX + self._ids()

        def then(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
            taken = talk.todos[todo]
            overruling = Overruling(view, talk, moves, who=request.who, new=new)
            done = overruling.do_now(taken)
            return {"status": done, "target": taken.run or new}

        return await self._tell(thread, "do now", request, then)

    @audited("reorder")
    async def reorder(self, thread: str, order: Sequence[int], **by: Unpack[By]) -> Ack:
        """Put todos in the person's order; what is left out follows in the usual one."""
        return await self._tell(
            thread, "reorder", self._by(t.TodosReordered, order=tuple(order), **by)
        )

    @audited("remove todo")
    async def remove_todo(self, thread: str, todo: int, **by: Unpack[By]) -> Ack:
        """Do not want it any more. A parked run is cancelled with its todo, and undone."""
        request = self._by(t.TodoRemoved, todo=todo, **by)

        def then(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
            removed = talk.todos[todo]
            if removed.kind != "parked" or not front.is_parked(removed, finder(view)):
                return {}
            draft = cover(view, removed.run, "cancel", e.CancelRequested(who=request.who))
            bring_along(moves, draft)
            return {"did": "cancelled", "target": removed.run, "in_flight": draft.note.in_flight}

        return await self._tell(thread, "remove todo", request, then)
