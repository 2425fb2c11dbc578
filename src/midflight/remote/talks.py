"""The verbs over a thread, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from msgspec import Struct

from midflight.errors import InvalidRequest, JournalNotFound
from midflight.inputs import Ids
from midflight.kernel.record import Actor
from midflight.kernel.thread import Todo
from midflight.remote.journals import RemoteJournals, place_of
from midflight.remote.link import Link
from midflight.stores.protocol import THREAD_PREFIX
from midflight.verbs.covering import Ack
from midflight.verbs.telling import By
from midflight.verbs.todos import TodoOffer
from midflight.verbs.transcript import Line


class _Thread(Struct):
    todos: list[Todo]


class _Offers(Struct):
    todos: list[TodoOffer]


class _Transcript(Struct):
    lines: list[Line]
    next: int | None = None


class RemoteTalks:
    """The part of ``RemoteControl`` that is about threads."""

    store: RemoteJournals
    _link: Link
    _ids: Ids

    async def send(self, to: str, text: str, **by: Unpack[By]) -> Ack:
        """Write a message into a thread, or into that of a run. When accepted it is stored."""
        return await self._press(to, "messages", {"text": text}, **by)

    async def edit_message(self, thread: str, message: int, text: str, **by: Unpack[By]) -> Ack:
        """Give a message that nobody has read yet another text. Its sender only."""
        return await self._tell(thread, "edit_message", {"message": message, "text": text}, **by)

    async def withdraw_message(self, thread: str, message: int, **by: Unpack[By]) -> Ack:
        """Take a message back that nobody has read yet. Its sender only."""
        return await self._tell(thread, "withdraw_message", {"message": message}, **by)

    async def overrule(self, thread: str, message: int, choice: str, **by: Unpack[By]) -> Ack:
        """Want something else done about a message than was chosen."""
        return await self._tell(thread, "overrule", {"message": message, "choice": choice}, **by)

    async def heard(
        self, thread: str, text: str, *, run: str, of: int = 0, how: str = "", **by: Unpack[By]
    ) -> Ack:
        """Note how much of what ``run`` has said a listener heard before cutting it short."""
        body = {"text": text, "run": run, "of": of, "how": how}
        return await self._tell(thread, "heard", body, **by)

    async def todos(self, thread: str) -> list[Todo]:
        """List the todos of a thread, in the order in which they will be done."""
        return (await self._link.get(_of_thread(thread), _Thread)).todos

    async def preview_todos(self, thread: str) -> list[TodoOffer]:
        """List the todos, each with what it would mean now to do it at once or to remove it."""
        return (await self._link.get(f"{_of_thread(thread)}/todos", _Offers)).todos

    async def do_now(self, thread: str, todo: int, **by: Unpack[By]) -> Ack:
        """Take a todo now: a parked run comes back, a deferred message is done."""
        return await self._tell(thread, "do_now", {"todo": todo}, **by)

    async def reorder(self, thread: str, order: Sequence[int], **by: Unpack[By]) -> Ack:
        """Put todos in the person's order; what is left out follows in the usual one."""
        return await self._tell(thread, "reorder", {"order": list(order)}, **by)

    async def remove_todo(self, thread: str, todo: int, **by: Unpack[By]) -> Ack:
        """Do not want it any more. A parked run is cancelled with its todo, and undone."""
        return await self._tell(thread, "remove_todo", {"todo": todo}, **by)

    async def transcript(self, thread: str) -> list[Line]:
        """All that was said and chosen in a thread, in order."""
        lines: list[Line] = []
        after: int | None = 0
        while after is not None:
            params = {"after": after}
            page = await self._link.get(f"{_of_thread(thread)}/transcript", _Transcript, params)
            lines += page.lines
            after = page.next
        return lines

    async def ask_aside(self, to: str, text: str, **by: Unpack[By]) -> Ack:
        """Ask something about a run without touching it, also while it is paused."""
        return await self._press(to, "ask_aside", {"text": text}, **by)

    async def _tell(self, thread: str, verb: str, body: Mapping[str, Any], **by: Unpack[By]) -> Ack:
        _of_thread(thread)
        return await self._press(thread, verb, body, **by)

    async def _press(
        self,
        journal: str,
        verb: str,
        body: Mapping[str, Any],
        *,
        who: Actor | None = None,
        key: str = "",
        **more: Any,
    ) -> Ack:
        """Have a verb done to a run or a thread, under a key."""
        check_who(who)
        place = f"{place_of(journal)}/{verb}"
        return await self._link.post(place, Ack, {**body, **more}, key=key or self._ids())


def check_who(who: Actor | None) -> None:
    """Refuse a name that the server would not believe."""
    if who is not None:
        raise InvalidRequest(
            "over HTTP the token says who asks: open one connection for each person instead of "
            "giving who=. Nothing was sent."
        )


def _of_thread(thread: str) -> str:
    if not thread.startswith(THREAD_PREFIX):
        raise JournalNotFound(thread)
    return place_of(thread)
