"""The posts for a chat, folded from the journals of its thread and of the runs in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from midflight.control import Control
from midflight.interfaces.chat import run_posts
from midflight.interfaces.chat.allow_list import shown
from midflight.interfaces.chat.channel import FILE_BYTES_MAX, Post
from midflight.interfaces.chat.chat_memory import Memory
from midflight.interfaces.chat.incoming import message_id
from midflight.journal import events as e
from midflight.journal.phases import LIVE
from midflight.journal.record import Recorded
from midflight.journal.status import place
from midflight.journal.threads import thread as t
from midflight.stores.protocol import LiveWatch, Query
from midflight.view import RunBook, ThreadBook
from midflight.view.exact_text import short
from midflight.view.run_book import asked as asked_of

FILES_MAX: Final = 9  # beside the partial work itself


class Item(Struct, frozen=True):
    """A post that follows from one record of a journal; ``at`` is the time of that record."""

    at: float
    journal: str
    position: int
    post: Post


class Written(Struct, frozen=True):
    """A message of the thread, as far as a chat has to know it later."""

    text: str
    here: bool
    id: str


class Follower:
    """Folds everything from the first record on; ``items`` are posts that lie behind a cursor.

    ``here`` is the name of this chat among the doors to its thread. ``stir`` is called at news.
    """

    def __init__(
        self,
        control: Control,
        memory: Memory,
        *,
        here: str,
        workdir: Path | None,
        stir: Callable[[], None],
    ) -> None:
        self.thread = ThreadBook(memory.thread)
        self.runs: dict[str, RunBook] = {}
        self.questions: dict[str, tuple[Any, str]] = {}  # what was asked, and how it was settled
        self.items: list[Item] = []
        self.fronted = 0  # the position at which the run in front came there
        self._control, self._memory, self._here = control, memory, here
        self._workdir, self._stir = workdir, stir
        self._messages: dict[int, Written] = {}
        self._news: LiveWatch | None = None

    def has_reached(self, upto: dict[str, int]) -> bool:
        """Return whether everything up to these positions was folded."""
        heads = {run: book.state.head for run, book in self.runs.items()}
        heads[self._memory.thread] = self.thread.state.head
        return all(heads.get(journal, 0) >= position for journal, position in upto.items())

    async def follow(self) -> None:
        """Take what is there and what comes, for as long as it is not cancelled."""
        rows = await self._control.runs(Query(thread=self._memory.thread, phases=LIVE))
        memory = self._memory
        shown = [memory.status_run, *(card.partition("/")[0] for card in memory.cards)]
        shown += [journal for journal in memory.posting if journal != memory.thread]
        wanted = dict.fromkeys([*(row.journal for row in rows), *filter(None, shown)])
        self.runs = {run: RunBook(run) for run in wanted}
        cursors = dict.fromkeys([memory.thread, *wanted], 0)
        async with self._control.watch_live(cursors) as news:
            self._news = news
            async for item in news:
                if isinstance(item, Recorded):
                    self._take(item)

    def _take(self, record: Recorded) -> None:
        if record.journal == self._memory.thread:
            posts = list(self._take_line(record))
        else:
            posts = list(self._take_step(record))
        if self._is_new(record):
            told = (post for post in posts if post is not None)
            self.items += [Item(record.at, record.journal, record.position, post) for post in told]
        self._stir()

    def _is_new(self, record: Recorded) -> bool:
        told = self._memory.cursors.get(record.journal)
        return record.position > told if told is not None else record.at >= self._memory.told_from

    def _take_line(self, record: Recorded) -> Iterable[Post | None]:
        event, state = record.event, self.thread.state
        todo = state.todos.get(getattr(event, "todo", 0))
        self.thread.take(record)
        match event:
            case t.MessageSent() | t.AsideAsked():
                here = event.who.channel == self._here
                chat_id = message_id(event.key) if here else ""
                self._messages[record.position] = Written(event.text, here, chat_id)
            case t.FrontChanged():
                self.fronted = record.position
                self._watch(event.run)
            case _:
                pass
        yield self._told(record, todo)

    def _told(self, record: Recorded, todo: t.Todo | None) -> Post | None:
        line = self.thread.line(record.position)
        if line is None:
            return None
        about = self._messages.get(line.message or line.position)
        book = self.runs.get(line.run)
        who = getattr(record.event, "who", None)
        files, others = self._files(line.run) if line.kind == "said: partial" else ((), ())
        scene = run_posts.Scene(
            line,
            f"{record.journal}/{record.position}",
            here=about is not None and about.here,
            via=who.channel.partition(":")[0] if who is not None else "",
            text=todo.text if todo is not None else about.text if about is not None else "",
            parked=todo is not None and todo.kind == "parked",
            place=place(book.state) if book is not None else "the work",
            answers=about.id if about is not None else "",
            files=files,
            not_shown=others,
            cancel=book.sheet().preview["cancel"] if book is not None else None,
        )
        return run_posts.told(scene)

    def _take_step(self, record: Recorded) -> Iterable[Post | None]:
        event, key = record.event, f"{record.journal}/{record.position}"
        book = self.runs.setdefault(record.journal, RunBook(record.journal))
        before = book.state.brief
        book.take(record)
        match event:
            case e.ChildSpawned():
                self._watch(event.child)
            case e.QuestionOpened():
                asked = asked_of(record.position, event)
                self.questions[f"{record.journal}/{record.position}"] = (asked, "")
            case e.QuestionAnswered():
                words = "declined" if event.declined else _words(event.payload)
                self._settle(record.journal, event.question, f"{shown(event.who.by)}: {words}")
            case e.QuestionClosed():
                self._settle(record.journal, event.question, f"Closed: {event.why}")
            case e.NoticeGiven():
                yield Post(f"⚠ {event.text}", key)
            case e.RedirectDelivered():
                yield Post(run_posts.redirected(before, event.brief), key)
            case e.RunFinished() | e.Killed() if not book.state.aside_of:
                yield run_posts.ended(book.sheet(), key)
            case _:
                pass

    def _watch(self, run: str) -> None:
        if run and run not in self.runs:
            self.runs[run] = RunBook(run)
            if self._news is not None:
                self._news.add(run, 0)

    def _settle(self, run: str, question: int, how: str) -> None:
        card = f"{run}/{question}"
        if card in self.questions:
            self.questions[card] = (self.questions[card][0], how)

    def _files(self, run: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the paths of files in a run's folder that chats take, and names of the others."""
        folder = self._workdir / run if self._workdir is not None and run else None
        if folder is None or folder.is_symlink() or not folder.is_dir():
            return (), ()
        plain = [f for f in sorted(folder.iterdir()) if f.is_file() and not f.is_symlink()]
        small = [f for f in plain if f.stat().st_size <= FILE_BYTES_MAX][:FILES_MAX]
        others = tuple(f.name for f in plain if f not in small)
        return tuple(map(str, small)), others


def _words(payload: msgspec.Raw) -> str:
    value = msgspec.json.decode(payload)
    return short(value if isinstance(value, str) else bytes(payload).decode())
