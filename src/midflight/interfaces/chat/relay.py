"""A relay tells one chat what happens in its thread: each line once, and one live status message.

It has two tasks: one follows the journals and folds them, the other posts. While a post waits for a
rate limit, further lines gather and are then posted together; of the status only the latest is
shown. A relay remembers what it has shown before it shows more. After a crash it posts again what
was being posted, under the same key, so that the chat can tell that it is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
import msgspec

from midflight.control import Control
from midflight.inputs import Clock
from midflight.interfaces.chat import run_posts
from midflight.interfaces.chat.channel import (
    Channel,
    ChatGone,
    NotNow,
    NotTaken,
    Post,
    PostGone,
    door,
)
from midflight.interfaces.chat.chat_memory import Ledger, Memory
from midflight.interfaces.chat.incoming import Reply, answer, plainer, together
from midflight.interfaces.chat.thread_posts import Follower
from midflight.journal.phases import Phase
from midflight.journal.status import place
from midflight.tools.secret import clean_logger
from midflight.view import RunBook

log: Final = clean_logger("midflight.interfaces.chat")

GATHER_S: Final = 0.15  # lines of one moment belong together
EDIT_GAP_S: Final = 1.2  # between two edits of the status, unless it has changed its phase
REFRESH_S: Final = 10.0  # the elapsed time is shown anew while it works
RETRY_S: Final = (1.0, 2.0, 5.0, 15.0, 60.0)


class Relay:
    """One chat. ``run`` works until it is cancelled or the chat is gone."""

    def __init__(
        self,
        control: Control,
        channel: Channel,
        ledger: Ledger,
        memory: Memory,
        *,
        clock: Clock,
        workdir: Path | None = None,
    ) -> None:
        self.memory = memory
        self._control, self._channel, self._ledger = control, channel, ledger
        self._clock, self._workdir = clock, workdir
        self._removed = 0
        self._acks: list[Reply] = []
        self._notes: list[Post] = []
        self._settles: list[str] = []  # keys of presses that the notes answer
        self._stirred = anyio.Event()
        self._follows = anyio.Event()
        self._scope = anyio.CancelScope()
        self._begin()

    def _begin(self) -> None:
        """Start anew, and fold everything again from the journals."""
        self._told = Follower(
            self._control,
            self.memory,
            here=door(self._channel.name, self.memory.chat),
            workdir=self._workdir,
            stir=self._stir,
        )
        self._first = dict(self.memory.posting)  # posts that an earlier process may have made
        self._shown: Post | None = None
        self._shown_at = 0.0
        self._shown_phase = ""
        self._owed = False  # an edit that came too soon after another

    # ── from outside ─────────────────────────────────────────────────────────────────────────

    def stop(self) -> None:
        """Stop telling the chat, because it goes on with another thread."""
        self._scope.cancel()

    def follow(self) -> None:
        """Begin to follow the thread, now that it exists."""
        self._follows.set()

    def acknowledge(self, ack: Reply) -> None:
        """Answer a message that was heard."""
        self._acks.append(ack)
        self._stir()

    def note(self, post: Post, settles: str = "") -> None:
        """Show a post that is in no journal; ``settles`` is the key of a press that it answers."""
        self._notes.append(post)
        self._settles += [settles] if settles else []
        self._stir()

    def _stir(self) -> None:
        self._stirred.set()

    # ── the work ─────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Follow and post; log an unforeseen error, and begin again from the journals."""
        with self._scope:
            await self._run()

    async def _run(self) -> None:
        failures = 0
        while not self.memory.gone:
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._follow)
                    tasks.start_soon(self._post)
            except* ChatGone:
                about = {"action": "chat_gone", "chat": self.memory.chat}
                words = "Chat %s is gone: nothing more is sent there"
                log.warning(words, self.memory.chat, extra=about)
                await self._ledger.keep(self.memory, _leave)
            except* Exception as error:  # the edge of a worker: recorded, and tried again
                words, where = "Showing runs in chat %s failed; trying again", self.memory.chat
                log.error(words, where, exc_info=error, extra={"chat": where})
                await anyio.sleep(RETRY_S[min(failures, len(RETRY_S) - 1)])
                failures += 1
                self._begin()

    async def _follow(self) -> None:
        await self._follows.wait()
        await self._told.follow()

    # ── posting ──────────────────────────────────────────────────────────────────────────────

    async def _post(self) -> None:
        while True:
            with anyio.move_on_after(self._until_refresh()):
                await self._stirred.wait()
            self._stirred = anyio.Event()
            await self._answer()
            await anyio.sleep(GATHER_S)
            await self._tell()
            await self._show_cards()
            await self._show_status()

    async def _answer(self) -> None:
        if self._acks:
            acks, self._acks = self._acks, []
            spoken = [ack for ack in acks if ack.words]
            if spoken:
                await self._deliver(answer(spoken))
            ids = [ack.message for ack in acks]
            await self._ledger.keep(self.memory, lambda memory: memory.heard.extend(ids))
        notes, self._notes = self._notes, []
        settled, self._settles = self._settles, []
        for note in together(notes):
            await self._deliver(note)
        if settled:
            await self._ledger.keep(self.memory, _answered(settled))

    async def _tell(self) -> None:
        """Post what has gathered; first, as it was, what an earlier process was posting."""
        if not self._told.has_reached(self._first):
            return  # or a part of it would be posted as if it were the whole
        first, self._first = self._first, {}
        gathered = sorted(self._told.items, key=lambda i: (i.at, i.journal, i.position))
        earlier = [i for i in gathered if i.position <= first.get(i.journal, 0)]
        later = [i for i in gathered if i not in earlier]
        self._told.items = []
        for items in filter(None, (earlier, later)):
            upto: dict[str, int] = {}
            for item in items:
                upto[item.journal] = max(upto.get(item.journal, 0), item.position)
            await self._ledger.keep(self.memory, _posting(upto))
            for post in together([item.post for item in items]):
                await self._deliver(post)
            await self._ledger.keep(self.memory, _posted(upto))

    async def _show_cards(self) -> None:
        """Post a card for each open question, and edit the cards of those that are settled."""
        for card, (asked, how) in list(self._told.questions.items()):
            run = card.partition("/")[0]
            shown_as = self.memory.cards.get(card)
            is_open = not how and asked.question in self._told.runs[run].state.questions
            if is_open and shown_as is None:
                message = await self._deliver(run_posts.card(run, asked, f"card:{card}"))
                await self._ledger.keep(self.memory, _card(card, message))
            elif not is_open and shown_as is not None:
                how = how or "Not open any more"
                await self._deliver(run_posts.settled(asked, how), edits=shown_as)
                await self._ledger.keep(self.memory, _card(card, ""))

    # ── the status message ───────────────────────────────────────────────────────────────────

    def _until_refresh(self) -> float:
        if self._owed:
            return min(EDIT_GAP_S, max(0.0, self._shown_at + EDIT_GAP_S - self._clock()))
        front = self._told.runs.get(self._told.thread.state.front)
        if front is None or front.state.moving_since is None:
            return REFRESH_S * 6
        return REFRESH_S

    async def _show_status(self) -> None:
        run = self._told.thread.state.front
        book = self._told.runs.get(run)
        if book is None or not book.state.head:
            return
        post = await self._status(book)
        if self._told.items and self._shows_an_end(book):  # layer end-shown-after-last-words
            return  # lines have come since we told the others: they go first
        if run != self.memory.status_run:
            await self._leave_status()
            keyed = msgspec.structs.replace(
                post, key=f"status:{run}:{self._told.fronted}:{self._removed}"
            )
            message = await self._deliver(keyed)
            await self._ledger.keep(self.memory, _status_is(run, message))
        elif post == self._shown:
            return
        elif self._is_too_soon(book.state.phase):
            self._owed = True  # lines must not wait for it
            return
        elif not await self._deliver(post, edits=self.memory.status_message):
            await self._ledger.keep(self.memory, _status_is("", ""))  # somebody has removed it
            self._removed += 1
            self._stir()
            return
        self._owed = False
        self._shown, self._shown_at = post, self._clock()
        self._shown_phase = book.state.phase

    def _shows_an_end(self, front: RunBook) -> bool:
        left = self._told.runs.get(self.memory.status_run, front)
        return not (front.state.alive and left.state.alive)

    def _is_too_soon(self, phase: Phase) -> bool:
        quiet = phase == self._shown_phase and self._shown is not None
        return quiet and 0 <= self._clock() - self._shown_at < EDIT_GAP_S

    async def _status(self, book: RunBook) -> Post:
        has_todos = bool(self._told.thread.state.todos)
        todos = await self._control.preview_todos(self.memory.thread) if has_todos else []
        book.undriven(await self._control.undriven_since(book.state))
        sheet = book.sheet()
        return run_posts.status(run_posts.Standing(sheet, place(book.state), self._clock()), todos)

    async def _leave_status(self) -> None:
        """Take the buttons off the status message of another run, which keeps its last status."""
        book = self._told.runs.get(self.memory.status_run)
        if book is None or not self.memory.status_message or not book.state.head:
            return
        last = run_posts.status(
            run_posts.Standing(book.sheet(), place(book.state), self._clock()), []
        )
        await self._deliver(Post(last.text), edits=self.memory.status_message)

    # ── delivering ───────────────────────────────────────────────────────────────────────────

    async def _deliver(self, post: Post, *, edits: str = "") -> str:
        """Post or edit, and try again for as long as the chat is away.

        Return the chat's id of the message; empty if the message to be edited is gone.
        """
        tries, instead, where = 0, plainer(post), {"chat": self.memory.chat}
        while True:
            try:
                if not edits:
                    return await self._channel.post(self.memory.chat, post)
                await self._channel.edit(self.memory.chat, edits, post)
                return edits
            except (NotTaken, PostGone) as error:
                if edits and isinstance(error, PostGone):
                    return ""
                words = "Chat %s refused a message: %s"
                log.warning(words, self.memory.chat, error, extra=where)
                if edits and len(instead) < 2:
                    return edits  # it goes on showing what it has shown
                if instead:
                    post = instead.pop(0)
                    continue
            except NotNow as error:
                words = "Chat %s cannot be reached now; the message is sent again later: %s"
                log.warning(words, self.memory.chat, error, extra=where)
            await anyio.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
            tries += 1


def _answered(keys: list[str]) -> Callable[[Memory], None]:
    def change(memory: Memory) -> None:
        for key in keys:
            memory.pending.pop(key, None)

    return change


def _leave(memory: Memory) -> None:
    memory.gone = True


def _posting(upto: dict[str, int]) -> Callable[[Memory], None]:
    def change(memory: Memory) -> None:
        memory.posting = upto  # layer what-posted-remembered

    return change


def _posted(upto: dict[str, int]) -> Callable[[Memory], None]:
    def change(memory: Memory) -> None:
        memory.cursors.update(upto)  # layer how-far-chat-told-remembered
        memory.posting = {}

    return change


def _card(card: str, message: str) -> Callable[[Memory], None]:
    def change(memory: Memory) -> None:
        if message:
            memory.cards[card] = message
        else:
            memory.cards.pop(card, None)

    return change


def _status_is(run: str, message: str) -> Callable[[Memory], None]:
    def change(memory: Memory) -> None:
        memory.status_run, memory.status_message = run, message

    return change
