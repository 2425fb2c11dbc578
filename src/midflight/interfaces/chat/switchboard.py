"""The switchboard takes texts, presses and commands from the chats of one channel.

Each chat belongs to a thread, and a relay tells it what happens there. Nothing that was taken is
lost with the process: messages are in the journal before they are answered, and a press is
remembered, with the way to answer it, before it is done. So the next process goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
import msgspec
from anyio.abc import TaskGroup

from midflight.agents import Agent
from midflight.audit import Deed
from midflight.client import Client, control_of
from midflight.control import Control
from midflight.control.audit_trail import record_refusal
from midflight.errors import JournalNotFound, MidflightError
from midflight.inputs import Clock, new_id, wall_clock
from midflight.interfaces.chat.channel import Action, Channel, Form, Heard, People, Post, door
from midflight.interfaces.chat.chat_memory import (
    NOT_KNOWN,
    NOTHING,
    Finder,
    Ledger,
    Memory,
    Pending,
)
from midflight.interfaces.chat.chat_presses import (
    OPERATING,
    Desk,
    Given,
    command,
    operate,
)
from midflight.interfaces.chat.incoming import STEERING, Inbox, meant, parts, steers
from midflight.interfaces.chat.relay import Relay
from midflight.journal.phases import LIVE, Role
from midflight.journal.record import Actor
from midflight.stores.protocol import THREAD_PREFIX, Query
from midflight.view.shown_values import short

log: Final = logging.getLogger("midflight.interfaces.chat")

TAKEN_KEPT: Final = 2_048  # messages of this process; those of earlier ones are in the ledger
MEANT_S: Final = 1.0  # to look up which run a command means, before it is acknowledged
LATE_S: Final = 30.0  # a cancel or redirect older than this is shown again before it is done


class Switchboard:
    """Joins a channel to the runs of a client of ``midflight.open``.

    Open it with ``async with``; it works until the block ends.

    ``agent`` answers in chats that have no agent yet. ``folder`` keeps the memories of chats;
    ``workdir`` is where runs have their folders, whose files are shown when a run is cancelled.
    """

    def __init__(
        self,
        client: Client | Control,
        channel: Channel,
        agent: Agent,
        *,
        folder: str | Path,
        people: People,
        workdir: str | Path | None = None,
        clock: Clock = wall_clock,
    ) -> None:
        self.people = people
        self._control = control = control_of(client)
        self._find = find = Finder(control)
        self._inbox = Inbox(control, find, channel.name, agent)
        self._desk = Desk(control, find)
        self._channel, self._clock = channel, clock
        self._workdir = Path(workdir) if workdir is not None else None
        self._ledger = Ledger(folder)
        self._relays: dict[str, Relay] = {}
        self._opening = anyio.Lock()
        self._tasks: TaskGroup
        self._stack = AsyncExitStack()
        self._locks: dict[str, anyio.Lock] = {}
        self._taken: dict[tuple[str, str], None] = {}

    # ── the chats ────────────────────────────────────────────────────────────────────────────

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
            return Post(
                f"To go on here with another thread needs the role {Role.CONTROLLER}; yours is "
                f"{who.role}. Nothing was changed."
            )
        others = f"{THREAD_PREFIX}{self._channel.name}-"
        if thread.startswith(others) and thread != others + chat and who.role != Role.OPERATOR:
            return Post(
                f"{thread} is the conversation of another chat: to go on with it here needs the "
                f"role {Role.OPERATOR}; yours is {who.role}. Nothing was changed."
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

    async def turn_away(
        self, chat: str, action: str, *, user: str, why: str = "not_listed"
    ) -> None:
        """Record that somebody was refused, or count it where that has happened too often.

        A channel that is attached to a server has no store, and so no record of this.
        """
        if isinstance(self._control, Control):
            asked = Deed(
                id=new_id(),
                action=action,
                door=door(self._channel.name, chat),
                address=f"{self._channel.name} user {user}",
                why=why,
            )
            await record_refusal(self._control, asked)

    # ── texts ────────────────────────────────────────────────────────────────────────────────

    async def hear(self, chat: str, heard: Heard, who: Actor) -> None:
        """Take a text, in the order of the chat. The same one again is not taken twice."""
        memory = await self.open(chat)
        if self.has_heard(chat, heard.id):  # layer delivered-twice-heard-once
            return
        place = (chat, heard.id)
        self._taken[place] = None
        try:
            async with self._locks.setdefault(chat, anyio.Lock()):
                ack = await self._inbox.hear(memory, heard, who)
                relay = await self._relay(memory)
        except BaseException:
            del self._taken[place]
            raise
        relay.acknowledge(ack)
        while len(self._taken) > TAKEN_KEPT:
            del self._taken[next(iter(self._taken))]

    def has_heard(self, chat: str, message: str) -> bool:
        """Return whether a text was taken before, by this process or an earlier one."""
        memory = self.memory(chat)
        return (chat, message) in self._taken or (memory is not None and message in memory.heard)

    async def waiting(self, chat: str) -> set[str]:
        """Return the chat's own ids of messages that were written there and not read yet."""
        memory = self.memory(chat)
        return await self._inbox.waiting(memory) if memory is not None else set()

    async def say(self, chat: str, post: Post, *, settles: str = "") -> None:
        """Show a post of the channel's own: in its turn, or at once in a chat without a thread.

        ``settles`` is the key of a press that it answers, and that is answered once it is shown.
        """
        memory = self.memory(chat)
        if memory is not None:
            (await self._relay(memory)).note(post, settles)
            return
        try:
            await self._channel.post(chat, post)
        except MidflightError as error:
            words = "A message could not be shown in chat %s: %s"
            log.warning(words, chat, error, extra={"chat": chat})

    async def correct(self, chat: str, message: str, text: str, *, by: str = "") -> None:
        """Correct a message; ``by`` is the person, unless the chat lets only its author do so."""
        memory = self.memory(chat)
        words = await self._inbox.correct(memory, message, text, by) if memory is not None else ""
        if memory is not None and words:
            (await self._relay(memory)).note(Post(words, f"edit:{message}"))

    async def withdraw(self, chat: str, message: str, *, by: str = "") -> None:
        """Withdraw a message; ``by`` is the person, unless the chat lets only its author do so."""
        memory = self.memory(chat)
        words = await self._inbox.withdraw(memory, message, by) if memory is not None else ""
        if memory is not None and words:
            (await self._relay(memory)).note(Post(words, f"gone:{message}"))

    # ── presses ──────────────────────────────────────────────────────────────────────────────

    async def form(self, chat: str, action: Action, who: Actor) -> Form | Post:
        """Return the form that a press opens, or a post that says why it opens none."""
        memory = self.memory(chat)
        return await self._desk.form(memory, action, who) if memory is not None else UNKNOWN

    async def remember(
        self, chat: str, key: str, code: str, who: Actor, *, way: str, fields: Mapping[str, str]
    ) -> None:
        """Remember a press before it is carried out; after a crash the next process answers it."""
        memory = self.memory(chat)
        if memory is None:
            return
        given = dict(fields)
        with anyio.move_on_after(MEANT_S):  # or they would be told that the press failed
            code, given = await meant(self._find, memory, code, fields)
        pending = Pending(code, who.by, str(who.role), self._clock(), way, given)
        await self._ledger.keep(memory, _pends(key, pending))

    async def press(
        self,
        chat: str,
        code: str,
        who: Actor,
        *,
        key: str,
        fields: Mapping[str, str] | None = None,
        late: bool = False,
    ) -> Post:
        """Carry out a press or a command, and return its answer."""
        memory, (name, text) = self.memory(chat), parts(code)
        if memory is None and name in OPERATING:
            return await operate(self._control, name, Given(text, who, key, late))
        if memory is None:
            return UNKNOWN
        code, fields = await self._meaning(memory, code, key, fields)
        if name and name not in STEERING:
            done = await command(self._desk, memory, name, Given(text, who, key, late))
        elif (action := Action.read(code)) is not None:
            done = await self._desk.press(memory, action, who, key=key, fields=fields, late=late)
        else:
            return Post(NOT_KNOWN)
        await self._relay(memory)
        return done

    async def _meaning(
        self, memory: Memory, code: str, key: str, fields: Mapping[str, str] | None
    ) -> tuple[str, Mapping[str, str]]:
        """Return the action under a key: the remembered one, so that it stays the same."""
        pending = memory.pending.get(key)
        if pending is None:
            return await meant(self._find, memory, code, fields)
        if steers(pending.code):  # its run could not be looked up in time before
            code, given = await meant(self._find, memory, pending.code, pending.fields)
            pending = msgspec.structs.replace(pending, code=code, fields=given)
            await self._ledger.keep(memory, _pends(key, pending))
        return pending.code, pending.fields

    async def answered(self, chat: str, key: str) -> None:
        """Forget a press, because its answer was given."""
        memory = self.memory(chat)
        if memory is not None and key in memory.pending:

            def forget(found: Memory) -> None:
                found.pending.pop(key, None)

            await self._ledger.keep(memory, forget)

    async def press_again(self, memory: Memory, key: str) -> Post:
        """Carry out a press that an earlier process has taken; under its key it is done once."""
        pending = memory.pending[key]
        if steers(pending.code):  # never begun, and another run may be in front by now
            return Post(
                f"You gave {short(pending.code)} just before this bot ended. Nothing was changed. "
                "If it is still meant, give it again."
            )
        then = Actor(pending.by, Role(pending.role), door(self._channel.name, memory.chat))
        who = self.people.still(then)
        if who is None:
            return Post(
                "You pressed this before the bot was started anew, and are not on the list of "
                "people any more. It was not done now; ask whoever runs the bot."
            )
        late = self._clock() - pending.at > LATE_S
        return await self.press(
            memory.chat, pending.code, who, key=key, fields=pending.fields, late=late
        )


def _pends(key: str, pending: Pending) -> Callable[[Memory], None]:
    def change(memory: Memory) -> None:
        memory.pending[key] = pending

    return change


UNKNOWN: Final = Post(f"{NOTHING[0].upper()}{NOTHING[1:]}")
