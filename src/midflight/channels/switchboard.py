"""All chats of one channel: which thread each belongs to, what comes in, and who tells them.

Nothing that was taken is lost with the process: messages are in the journal before they are
answered, and a press is remembered, with the way to answer it, before it is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.abc import TaskGroup

from midflight.channels.base import Channel
from midflight.channels.commands import command
from midflight.channels.desk import Desk
from midflight.channels.finding import Finder
from midflight.channels.gathering import Ack
from midflight.channels.inbox import Inbox
from midflight.channels.ledger import Ledger, Memory, Pending
from midflight.channels.people import People, door
from midflight.channels.relay import Relay
from midflight.channels.shapes import Action, Form, Heard, Post
from midflight.control import Control
from midflight.errors import JournalNotFound
from midflight.inputs import Clock, wall_clock
from midflight.kernel.phases import Role
from midflight.kernel.record import Who
from midflight.run import Agent
from midflight.stores.base import THREAD_PREFIX, Query
from midflight.talks import LIVE

TAKEN_KEPT: Final = 2_048  # messages of this life; those of earlier ones are in the ledger
LATE_S: Final = 30.0  # a cancel or redirect older than this is shown again before it is done


class Switchboard:
    """Joins a channel to ``Control``. Open it with ``async with``; it works until the block ends.

    ``agent`` answers in chats where nobody does yet. ``folder`` keeps what is remembered of chats;
    ``workdir`` is where runs have their folders, whose files are shown when a run is cancelled.
    """

    def __init__(
        self,
        control: Control,
        channel: Channel,
        agent: Agent,
        *,
        folder: str | Path,
        people: People,
        workdir: str | Path | None = None,
        clock: Clock = wall_clock,
    ) -> None:
        self._find = find = Finder(control)
        self._inbox = Inbox(control, find, channel.name, agent)
        self._desk = Desk(control, find)
        self.people = people
        self._control, self._channel, self._clock = control, channel, clock
        self._workdir = Path(workdir) if workdir is not None else None
        self._ledger = Ledger(folder)
        self._relays: dict[str, Relay] = {}
        self._locks: dict[str, anyio.Lock] = {}
        self._taken: dict[tuple[str, str], None] = {}
        self._tasks: TaskGroup
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Take up every chat that is remembered."""
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        for memory in list(self._ledger.chats.values()):
            if not memory.gone:
                await self._relay(memory)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Tell nobody any more; what was not told is told by the next life."""
        self._tasks.cancel_scope.cancel()
        await self._stack.__aexit__(None, None, None)  # an error of the block is the block's

    # ── chats ────────────────────────────────────────────────────────────────────────────────

    def memory(self, chat: str) -> Memory | None:
        """What is remembered of a chat; None if it is new to us."""
        found = self._ledger.chats.get(chat)
        return found if found is not None and not found.gone else None

    @property
    def chats(self) -> list[Memory]:
        """All that are remembered."""
        return [memory for memory in self._ledger.chats.values() if not memory.gone]

    async def open(self, chat: str, *, mentions_only: bool = False, since: str = "") -> Memory:
        """Remember a chat; its thread follows from its name."""
        known = self.memory(chat)
        if known is not None:
            return known
        thread = await self._inbox.own_thread(f"{THREAD_PREFIX}{self._channel.name}-{chat}")
        memory = Memory(chat, thread, mentions_only, since, cursors=await self._heads(thread))
        await self._ledger.keep(memory, lambda _: None)
        await self._relay(memory)
        return memory

    async def join(self, chat: str, thread: str, who: Who, *, since: str = "") -> Post:
        """Go on in this chat with a thread that was begun elsewhere."""
        if not who.role.steers:
            return Post(f"This needs the role {Role.CONTROLLER}. Nothing was changed.")
        try:
            if not thread.startswith(THREAD_PREFIX):
                raise JournalNotFound(thread)
            row = await self._control.store.row(thread)
        except JournalNotFound as error:
            return Post(f"{error} Nothing was changed.")
        cursors = await self._heads(thread)
        memory = self._ledger.chats.get(chat) or Memory(chat, thread, since=since)
        relay = self._relays.pop(chat, None)
        if relay is not None:
            relay.stop()

        def joined(found: Memory) -> None:
            found.thread, found.cursors, found.posting = thread, cursors, {}
            found.status_run, found.status_message, found.gone = "", "", False
            found.cards = {}

        await self._ledger.keep(memory, joined)
        await self._relay(memory)
        return Post(
            f"This chat goes on with {row.title or thread}. {await self._find.stands(memory)}"
        )

    async def _heads(self, thread: str) -> dict[str, int]:
        """Where a thread and what lives in it are now: what came before is not told again."""
        try:
            row = await self._control.store.row(thread)
        except JournalNotFound:
            return {}
        rows = await self._control.runs(Query(thread=thread, phases=LIVE))
        return {thread: row.head, **{run.journal: run.head for run in rows}}

    async def _relay(self, memory: Memory) -> Relay:
        relay = self._relays.get(memory.chat)
        if relay is None:
            relay = Relay(
                self._control,
                self._channel,
                self._ledger,
                memory,
                clock=self._clock,
                workdir=self._workdir,
            )
            self._relays[memory.chat] = relay
            self._tasks.start_soon(relay.run)
        if await self._find.exists(memory):
            relay.follow()
        return relay

    # ── what comes in ────────────────────────────────────────────────────────────────────────

    async def hear(self, chat: str, heard: Heard, who: Who) -> None:
        """Take a text, in the order of the chat. The same one again is not taken twice."""
        memory = await self.open(chat)
        if self.has_heard(chat, heard.id):
            return
        place = (chat, heard.id)
        self._taken[place] = None
        try:
            async with self._locks.setdefault(chat, anyio.Lock()):
                answer = await self._inbox.hear(memory, heard, who)
                relay = await self._relay(memory)
        except BaseException:
            del self._taken[place]
            raise
        relay.acknowledge(Ack(heard.id, who.by, answer))
        while len(self._taken) > TAKEN_KEPT:
            del self._taken[next(iter(self._taken))]

    def has_heard(self, chat: str, message: str) -> bool:
        """Whether a text was taken before, in this life or in an earlier one."""
        memory = self.memory(chat)
        return (chat, message) in self._taken or (memory is not None and message in memory.heard)

    async def waiting(self, chat: str) -> set[str]:
        """The chat's own ids of what was written there and nobody has read yet."""
        memory = self.memory(chat)
        return await self._inbox.waiting(memory) if memory is not None else set()

    async def say(self, chat: str, post: Post) -> None:
        """Show something of the channel's own, in its turn."""
        memory = await self.open(chat)
        (await self._relay(memory)).note(post)

    async def correct(self, chat: str, message: str, text: str, *, by: str = "") -> None:
        """A message was changed in the chat; name who did it unless the chat sees to that."""
        memory = self.memory(chat)
        words = await self._inbox.correct(memory, message, text, by) if memory is not None else ""
        if memory is not None and words:
            (await self._relay(memory)).note(Post(words, f"edit:{message}"))

    async def withdraw(self, chat: str, message: str, *, by: str = "") -> None:
        """A message was removed from the chat; name who did it unless the chat sees to that."""
        memory = self.memory(chat)
        words = await self._inbox.withdraw(memory, message, by) if memory is not None else ""
        if memory is not None and words:
            (await self._relay(memory)).note(Post(words, f"gone:{message}"))

    async def form(self, chat: str, action: Action, who: Who) -> Form | Post:
        """The form that a press opens."""
        memory = self.memory(chat)
        return await self._desk.form(memory, action, who) if memory is not None else UNKNOWN

    async def remember(
        self, chat: str, key: str, code: str, who: Who, *, way: str, fields: Mapping[str, str]
    ) -> None:
        """A press is about to be done; if we die on the way the next life does and answers it."""
        memory = self.memory(chat)
        if memory is None:
            return
        pending = Pending(code, who.by, str(who.role), self._clock(), way, dict(fields))

        def add(found: Memory) -> None:
            found.pending[key] = pending

        await self._ledger.keep(memory, add)

    async def press(
        self,
        chat: str,
        code: str,
        who: Who,
        *,
        key: str,
        fields: Mapping[str, str] | None = None,
        late: bool = False,
    ) -> Post:
        """Do what a press or a command means, and give its answer."""
        memory = self.memory(chat)
        if memory is None and code.startswith("/kill"):
            memory = await self.open(chat)  # an operator may be anywhere
        if memory is None:
            return UNKNOWN
        if code.startswith("/"):
            name, _, text = code[1:].partition(" ")
            done = await command(self._desk, memory, name, text, who, key)
        else:
            action = Action.read(code)
            if action is None:
                return Post("This button is not known here any more. Nothing was changed.")
            done = await self._desk.press(memory, action, who, key=key, fields=fields, late=late)
        await self._relay(memory)
        return done

    async def answered(self, chat: str, key: str) -> None:
        """The answer to a press is there."""
        memory = self.memory(chat)
        if memory is not None and key in memory.pending:

            def forget(found: Memory) -> None:
                found.pending.pop(key, None)

            await self._ledger.keep(memory, forget)

    async def press_again(self, memory: Memory, key: str) -> Post:
        """Do a press that an earlier life has taken; under its key it is done once."""
        pending = memory.pending[key]
        who = Who(pending.by, Role(pending.role), door(self._channel.name, memory.chat))
        late = self._clock() - pending.at > LATE_S
        return await self.press(
            memory.chat, pending.code, who, key=key, fields=pending.fields, late=late
        )


UNKNOWN: Final = Post("Nothing was ever started here: write what is to be done.")
