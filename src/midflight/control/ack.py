"""The acknowledgement of a request, and the receipts that tell what became of it."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from midflight.errors import NoSuchRequest
from midflight.journal.events import Killed, MessagesTaken, RunFinished
from midflight.journal.record import Recorded
from midflight.journal.requests import ASIDE
from midflight.journal.state import Delivery, RunState
from midflight.journal.threads import thread as t
from midflight.stores.protocol import Query, Store


class Ack(Struct, frozen=True):
    """A verb is on record: at which position, and what was in flight at that moment.

    A message is answered with ``status``: how the run it goes to stands, in one line. So is a
    resume, with the changes made meanwhile, and a stop that waits for the end of a step. ``did``
    names its effect at once, and ``target`` the run: ``started``, ``paused`` or ``redirected``.

    Fields tell a front door more about a message than those words: ``phase`` is that of the run
    that it goes to, ``doing`` the work of that run, if it works, ``note`` a remark beside the run's
    status, ``asks`` a question back, and ``kept`` the reason why nothing was begun for it.
    """

    run: str
    verb: str
    position: int
    in_flight: tuple[str, ...] = ()
    status: str = ""
    did: str = ""
    target: str = ""
    phase: str = ""
    doing: str = ""
    note: str = ""
    asks: str = ""
    kept: str = ""


class Turn(Struct, frozen=True):
    """A turn of a conversation: its messages are on record, and ``run`` is to answer them.

    ``run`` and ``messages`` are empty when nothing was said.
    """

    run: str
    messages: tuple[Ack, ...] = ()
    started: bool = False


ACCEPTED: Final = "accepted"
VERBS: Final[dict[type[Any], str]] = {
    t.MessageSent: "send",
    t.AsideAsked: "ask aside",
    t.MessageEdited: "edit",
    t.MessageWithdrawn: "withdraw",
    t.ChoiceOverruled: "overrule",
    t.SpeechHeard: "heard",
    t.TodoWanted: "do now",
    t.TodosReordered: "reorder",
    t.TodoRemoved: "remove todo",
}
WAITING: Final = (t.MessageSent, t.AsideAsked)
"""Requests that something else must follow; all others are applied by the record itself."""


class _Asked:
    """One request, and the journal's answer to it so far."""

    def __init__(self, thread: str, position: int) -> None:
        self.thread, self.position = thread, position
        self.head = position - 1
        self.event: Any = None
        self.delivery = Delivery("")
        self.answerer = ""  # the run that answers a question aside

    def is_settled(self) -> bool:
        """Return whether the request is settled: it is more than accepted."""
        return self.delivery.status != ACCEPTED

    async def look(self, store: Store) -> None:
        """Read on, as far as it is written."""
        while page := await store.read(self.thread, after=self.head):
            self.event = self.event or page[0].event
            if isinstance(self.event, t.AsideAsked) and not self.answerer:
                self.answerer = await self._find_answerer(store)
            for record in page:
                self.take(record)
        if not self.delivery.verb:
            raise NoSuchRequest(self.thread, self.position)
        if self.answerer and not self.is_settled():
            state = await store.load(self.answerer)
            if isinstance(state, RunState) and not state.alive:  # and will not answer any more
                self.delivery = Delivery(self.delivery.verb, "superseded", self.head)

    async def _find_answerer(self, store: Store) -> str:
        for row in await store.rows(Query(thread=self.thread)):
            state = await store.load(row.journal) if row.agent.endswith(ASIDE) else None
            if isinstance(state, RunState) and state.thread_at == self.position - 1:
                return row.journal
        return ""

    def take(self, record: Recorded) -> None:
        """Take one more event of the thread."""
        event, at = record.event, record.position
        self.head = max(self.head, at)
        if at == self.position:
            verb, waits = VERBS.get(type(event), ""), isinstance(event, WAITING)
            self.delivery = Delivery(verb) if waits else Delivery(verb, "applied", at)
        elif not self.is_settled() and (word := self._settles(event, at)):
            self.delivery = Delivery(self.delivery.verb, word, at)

    def _settles(self, event: Any, at: int) -> str:
        mine = self.position
        match event:
            case MessagesTaken() if mine in event.messages or (
                not event.messages and mine <= event.upto
            ):
                return "read"
            case t.TodoAdded() if event.message == mine:
                return "put off"
            case t.MessageWithdrawn() if event.message == mine:
                return "withdrawn"
            case t.Said(kind="aside") if isinstance(self.event, t.AsideAsked):
                at_once = event.run == self.event.run and at == mine + 1
                return "applied" if at_once or event.run == self.answerer else ""
            case _:
                return ""


async def delivery(store: Store, thread: str, position: int) -> Delivery:
    """Return the delivery receipt of a request to a thread as it is now."""
    asked = _Asked(thread, position)
    await asked.look(store)
    return asked.delivery


async def settled(store: Store, thread: str, position: int) -> Delivery:
    """Wait until something has become of it."""
    asked = _Asked(thread, position)
    await asked.look(store)
    if asked.is_settled():
        return asked.delivery
    cursors = {thread: asked.head} | ({asked.answerer: 0} if asked.answerer else {})
    async with store.watch(cursors) as news:
        async for record in news:
            if record.journal == thread:
                asked.take(record)
            elif isinstance(record.event, RunFinished | Killed):
                await asked.look(store)
            if asked.is_settled():
                break
    return asked.delivery
