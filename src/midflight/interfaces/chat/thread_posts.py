"""The posts for a chat, folded from the journals of its thread and of the runs in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from midflight.control import Control
from midflight.control.transcript import Line
from midflight.interfaces.chat.channel import FILE_BYTES_MAX, Action, Button, Post, mark, shown
from midflight.interfaces.chat.chat_memory import Memory
from midflight.interfaces.chat.incoming import message_id
from midflight.interfaces.chat.run_posts import ended, label
from midflight.journal import events as e
from midflight.journal.phases import LIVE
from midflight.journal.preview import Offer
from midflight.journal.record import Recorded
from midflight.journal.status import place, word_diff
from midflight.journal.threads import thread as t
from midflight.stores.protocol import LiveWatch, Query
from midflight.view import RunBook, ThreadBook
from midflight.view.data import Asked
from midflight.view.question_form import read_back
from midflight.view.run_book import asked as asked_of
from midflight.view.shown_values import short

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
        self.questions: dict[str, tuple[Asked, str]] = {}  # what was asked, and how it was settled
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
        scene = Scene(
            line,
            f"{record.journal}/{record.position}",
            here=about is not None and about.here,  # layer nobody-hears-own-words-again
            via=who.channel.partition(":")[0] if who is not None else "",
            text=todo.text if todo is not None else about.text if about is not None else "",
            parked=todo is not None and todo.kind == "parked",
            place=place(book.state) if book is not None else "the work",
            answers=about.id if about is not None else "",
            files=files,
            not_shown=others,
            cancel=book.sheet().preview["cancel"] if book is not None else None,
        )
        return told(scene)

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
                self._settle(record.journal, event.question, self._answer(record.journal, event))
            case e.QuestionClosed():
                self._settle(record.journal, event.question, f"Closed: {event.why}")
            case e.NoticeGiven():
                yield Post(f"⚠ {event.text}", key)
            case e.RedirectDelivered():
                yield Post(redirected(before, event.brief), key)
            case e.RunFinished() | e.Killed() if not book.state.aside_of:
                yield ended(book.sheet(), key)
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

    def _answer(self, run: str, event: e.QuestionAnswered) -> str:
        known = self.questions.get(f"{run}/{event.question}")
        schema = msgspec.json.decode(known[0].schema) if known is not None else None
        given = short(read_back(schema, msgspec.json.decode(event.payload)))
        return f"{shown(event.who.by)}: {'declined' if event.declined else given}"

    def _files(self, run: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the paths of files in a run's folder that chats take, and names of the others."""
        folder = self._workdir / run if self._workdir is not None and run else None
        if folder is None or folder.is_symlink() or not folder.is_dir():
            return (), ()
        plain = [f for f in sorted(folder.iterdir()) if f.is_file() and not f.is_symlink()]
        small = [f for f in plain if f.stat().st_size <= FILE_BYTES_MAX][:FILES_MAX]
        others = tuple(f.name for f in plain if f not in small)
        return tuple(map(str, small)), others


# ── the lines of a thread ────────────────────────────────────────────────────────────────────────

LINE_MAX: Final = 160


class Scene(Struct, frozen=True):
    """One line of a thread, with all that its post needs: the chat, and what the line refers to."""

    line: Line
    key: str
    here: bool = False  # written in this very chat
    via: str = ""
    text: str = ""  # of the message or todo that it is about
    parked: bool = False  # whether that todo is a run
    place: str = ""
    answers: str = ""
    files: tuple[str, ...] = ()
    not_shown: tuple[str, ...] = ()  # files that are too large or too many
    cancel: Offer | None = None


def told(scene: Scene) -> Post | None:
    """Return one line of a thread as a post; None where this chat need not be told."""
    tell = _TOLD.get(scene.line.kind)
    return tell(scene) if tell else None


def _message(scene: Scene) -> Post | None:
    line = scene.line
    if scene.here:
        return None
    return Post(f"**{shown(line.by)}** ({scene.via}): {line.text}", scene.key)


def _said(scene: Scene) -> Post:
    return Post(scene.line.text, scene.key)


def _aside(scene: Scene) -> Post:
    return Post(f"**Aside:** {scene.line.text}", scene.key)


def _report(scene: Scene) -> Post:
    return Post(f"**Background work reports:** {scene.line.text}", scene.key)


def _partial(scene: Scene) -> Post:
    """Show the first paragraph of saved work; the whole of it and the run's files go beside it."""
    head, _, rest = scene.line.text.partition("\n\n")
    texts = (("partial-work.md", scene.line.text),) if rest else ()
    others = short(", ".join(scene.not_shown), 200)
    note = f"\n-# Not shown here, but kept in the run's folder: {others}" if others else ""
    return Post(head + note, scene.key, files=scene.files, texts=texts)


def _cancel_asked(scene: Scene) -> Post:
    """Offer Resume and Cancel after a panic word has paused the run; Cancel says what it does.

    Its presses name no position: the pause itself may not have been told here yet.
    """
    offer = scene.cancel
    if offer is None or not offer.enabled:
        return Post(scene.line.text, scene.key)
    run = mark(scene.line.run)
    cancel = Button(label(f"{offer.label} · {offer.consequence}"), Action("cancel", run), "bad")
    resume = Button("Resume · Continues with context kept", Action("resume", run), "good")
    return Post(scene.line.text, scene.key, buttons=(resume, cancel))


def _choice(scene: Scene) -> Post | None:
    """Say what was chosen for a message, in one line, with a button for another choice."""
    line = scene.line
    about = f"“{short(scene.text, 60)}”"
    words = {
        "incorporate": (f"**Incorporated** into {scene.place}: {about}", "Undo", "undo"),
        "switch": (f"**Switched** to this now: {about}", "Go back", "back"),
        "defer": (f"**Deferred** to later: {about}", "Do it now", "switch"),
    }
    if line.choice not in words:
        return None
    text, way_back, choice = words[line.choice]
    why = f" — {line.why}" if line.why else ""
    which = label(f"{way_back} “{short(scene.text, 40)}”")  # it may stand beside others
    button = Button(which, Action("overrule", "", line.message, choice))
    return Post(f"↳ {text}{why}", scene.key, buttons=(button,), answers=scene.answers)


def _overruled(scene: Scene) -> Post:
    wanted = {"back": "go back", "undo": "leave it out", "switch": "do it now"}
    choice = wanted.get(scene.line.choice, scene.line.choice)
    return Post(
        f"↳ **{shown(scene.line.by)}** wants: {choice}: “{short(scene.text, 60)}”", scene.key
    )


def _parked(scene: Scene) -> Post:
    return Post(f"⏸ **Parked**, comes back by itself: {short(scene.line.text)}", scene.key)


def _taken(scene: Scene) -> Post:
    head = "Back to" if scene.parked else "Now, from the list"
    return Post(f"▶ **{head}:** {short(scene.text)}", scene.key)


def _gone(scene: Scene) -> Post:
    return Post(f"**Off the list:** {short(scene.text)}", scene.key)


_TOLD: Final[dict[str, Callable[[Scene], Post | None]]] = {
    "message": _message,
    "question aside": _message,
    "said: text": _said,
    "said: triage": _said,
    "said: aside": _aside,
    "said: report": _report,
    "said: partial": _partial,
    "said: cancel?": _cancel_asked,
    "choice": _choice,
    "overruled": _overruled,
    "todo: parked": _parked,
    "todo taken": _taken,
    "todo removed": _gone,
    "todo dropped": _gone,
}


def redirected(before: str, now: str) -> str:
    """Return the change that a redirect made, in one line: words struck out and words in bold."""
    marks = {"same": "", "removed": "~~", "added": "**"}
    words = " ".join(f"{marks[p.kind]}{p.text}{marks[p.kind]}" for p in word_diff(before, now))
    if len(words) > LINE_MAX:  # many small marks say less than both in short
        words = f"from “{short(before, 60)}” to “{short(now, 60)}”"
    return f"↳ **Redirected:** {words}"
