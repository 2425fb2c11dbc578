"""The chats of one channel: each belongs to a thread, and a relay tells it what happens there.

The memory of a chat outlives the process, so that the next one goes on where this one was.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

from midflight.agents import Agent
from midflight.control import Control
from midflight.errors import JournalNotFound
from midflight.inputs import Clock
from midflight.interfaces.chat.channel import Channel, Post
from midflight.interfaces.chat.chat_memory import Finder, Ledger, Memory
from midflight.interfaces.chat.incoming import Inbox
from midflight.interfaces.chat.relay import Relay
from midflight.journal.phases import LIVE, Role
from midflight.journal.record import Actor
from midflight.stores.protocol import THREAD_PREFIX, Query


class Chats:
    """Remembers chats and has each of them told, until the block ends."""

    def __init__(
        self,
        control: Control,
        channel: Channel,
        agent: Agent,
        *,
        folder: str | Path,
        workdir: str | Path | None,
        clock: Clock,
    ) -> None:
        self._find = find = Finder(control)
        self._inbox = Inbox(control, find, channel.name, agent)
        self._control, self._channel, self._clock = control, channel, clock
        self._workdir = Path(workdir) if workdir is not None else None
        self._ledger = Ledger(folder)
        self._relays: dict[str, Relay] = {}
        self._opening = anyio.Lock()
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
        """Stop telling the chats; the next process tells them what this one has not."""
        self._tasks.cancel_scope.cancel()
        await self._stack.__aexit__(None, None, None)  # an error of the block is the block's

    def memory(self, chat: str) -> Memory | None:
        """Return the memory of a chat; None if the chat is unknown or gone."""
        found = self._ledger.chats.get(chat)
        return found if found is not None and not found.gone else None

    @property
    def chats(self) -> list[Memory]:
        """The memories of all chats that are not gone."""
        return [memory for memory in self._ledger.chats.values() if not memory.gone]

    async def open(self, chat: str, *, mentions_only: bool = False, since: str = "") -> Memory:
        """Remember a chat; its thread follows from its name."""
        if (known := self.memory(chat)) is not None:
            return known
        async with self._opening:  # or two first messages would make two memories of one chat
            if (known := self.memory(chat)) is not None:
                return known
            thread = await self._inbox.own_thread(f"{THREAD_PREFIX}{self._channel.name}-{chat}")
            told_from, cursors = await self._now(thread)
            memory = Memory(chat, thread, mentions_only, since, told_from, cursors=cursors)
            await self._ledger.keep(memory, lambda _: None)
            await self._relay(memory)
            return memory

    async def join(
        self, chat: str, thread: str, who: Actor, *, mentions_only: bool = False, since: str = ""
    ) -> Post:
        """Go on in this chat with a thread that was begun elsewhere."""
        if not who.role.steers:
            return Post(f"This needs the role {Role.CONTROLLER}. Nothing was changed.")
        others = f"{THREAD_PREFIX}{self._channel.name}-"
        if thread.startswith(others) and thread != others + chat and who.role != Role.OPERATOR:
            return Post(
                f"That is the conversation of another chat: this needs the role {Role.OPERATOR}. "
                "Nothing was changed."
            )
        try:
            if not thread.startswith(THREAD_PREFIX):
                raise JournalNotFound(thread)
            row = await self._control.store.row(thread)
        except JournalNotFound as error:
            return Post(f"{error} Nothing was changed.")
        async with self._opening:
            told_from, cursors = await self._now(thread)
            known = self._ledger.chats.get(chat)
            memory = known or Memory(chat, thread, mentions_only, since)

            def joined(found: Memory) -> None:
                found.thread, found.cursors, found.posting = thread, cursors, {}
                found.told_from, found.cards = told_from, {}
                found.status_run, found.status_message, found.gone = "", "", False

            self._stop(chat)
            await self._ledger.keep(memory, joined)
            await self._relay(memory)
        return Post(
            f"This chat goes on with {row.title or thread}. {await self._find.stands(memory)}"
        )

    async def _now(self, thread: str) -> tuple[float, dict[str, int]]:
        """Return the time, and the heads of a thread and its live runs: nothing older is told."""
        now = await self._control.store.now()
        try:
            row = await self._control.store.row(thread)
        except JournalNotFound:
            return 0.0, {}  # there is nothing before it
        rows = await self._control.runs(Query(thread=thread, phases=LIVE))
        return now, {thread: row.head, **{run.journal: run.head for run in rows}}

    def _stop(self, chat: str) -> None:
        relay = self._relays.pop(chat, None)
        if relay is not None:
            relay.stop()

    async def _relay(self, memory: Memory) -> Relay:
        relay = self._relays.get(memory.chat)
        if relay is None or relay.memory is not memory:
            self._stop(memory.chat)
            relay = Relay(
                self._control,
                self._channel,
                self._ledger,
                memory,
                clock=self._clock,
                workdir=self._workdir,
            )
            self._relays[memory.chat] = relay
            self._tasks.start_soon(self._work, relay)
        if await self._find.exists(memory):
            relay.follow()
        return relay

    async def _work(self, relay: Relay) -> None:
        await relay.run()
        if self._relays.get(relay.memory.chat) is relay:  # the chat is gone, and may come back
            del self._relays[relay.memory.chat]
