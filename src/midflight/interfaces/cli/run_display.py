"""Three ways to show a run as it goes: a live picture, plain lines, or lines of JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import anyio

from midflight.control.transcript import Line
from midflight.interfaces.cli.acknowledgement import Command, question_lines, tell_receipt
from midflight.interfaces.cli.console import TRACEBACK, answering, console, print_json
from midflight.interfaces.terminal import looks
from midflight.interfaces.terminal.looks import SHOWN, indented
from midflight.journal.events import MessagesTaken, ResumeRequested, StepSettled
from midflight.journal.phases import Phase
from midflight.journal.record import Recorded
from midflight.journal.status import one_line
from midflight.stores.hints import Delta
from midflight.stores.protocol import PAGE
from midflight.view import RunBook, RunSheet, StepSheet, ThreadBook
from midflight.view.data import Asked, Mark
from midflight.view.shown_values import CAP, short

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from midflight.control.any_control import AnyControl


SETTLED: Final = frozenset(looks.SIGNS) - {
    "queued",
    "running",
    "retrying",
    "waiting",
    "paused",
    "lost",
}
TICK_S: Final = 0.2
SYNC_S: Final = 5.0
TOLD: Final = frozenset(
    {
        "pause",
        "resume",
        "cancel",
        "cap",
        "limits",
        "answer",
        "closed",
        "notice",
        "recovered",
        "kill",
        "take over",
        "hand back",
    }
)
"""Marks that are worth a line; the rest is seen in the steps."""


def follower(command: Command, *, as_json: bool, plain: bool, driving: bool = False) -> Lines:
    """The one that fits: a picture needs a terminal. ``driving``: the run is ours to hold."""
    if as_json:
        return JsonLines(command)
    lines = plain or not sys.stdout.isatty()
    return Lines(command, driving) if lines else Picture(command, driving)


class Lines:
    """A line for everything that has come to an end, or that somebody has done."""

    def __init__(self, command: Command, driving: bool = False) -> None:
        self.book: RunBook
        self._driving = driving
        self.talk: Talking
        self._command = command
        self._told: dict[str, str] = {}
        self._questions: set[int] = set()
        self._out = console()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def begin(self, book: RunBook, talk: ThreadBook, now: float) -> None:
        """Show what there is already."""
        self.book = book
        self.talk = Talking(talk, self.print, book.state.journal)
        self.print(f"{book.state.journal}  {looks.one_line(book.state.brief, 100)}")
        self._news(now)
        self.driven()
        self.talk.so_far(since=book.state.created_at)

    def take(self, item: Recorded | Delta) -> None:
        """Show one thing more."""
        if isinstance(item, Delta):
            return
        if item.journal != self.book.state.journal:
            self.talk.take(item)
            return
        self.book.take(item)
        if isinstance(item.event, ResumeRequested) and item.event.diff:
            self.print(f"  Changed meanwhile  {item.event.diff}")
        self._news(item.at)

    def _news(self, now: float) -> None:
        news = self.book.news()
        for step in news.steps:
            if step.status in SETTLED and self._told.get(step.id) != step.status and step.position:
                self._told[step.id] = step.status
                self.step(step, now)
        for mark in news.marks:
            if mark.kind in TOLD and not _is_told_otherwise(mark, news.questions):
                self.print(f"  {self._words(mark)}" + (f"  ({mark.by})" if mark.by else ""))
        for change in news.changes:
            self.print(f"  Redirected  {one_line(change.was, change.now)}  ({change.by})")
        for asked in news.questions:
            if asked.question not in self._questions:
                self._questions.add(asked.question)
                self._ask(asked)

    def _words(self, mark: Mark) -> str:
        """Return what a mark says; a notice whole, of which the mark has only the beginning."""
        if mark.kind == "notice":
            texts = (text for _, text in reversed(self.book.state.notices))
            return next((text for text in texts if short(text) == mark.text), mark.text)
        return f"Handed back: {mark.text}" if mark.kind == "hand back" else mark.text

    def _ask(self, asked: Asked) -> None:
        """Print a question whole: nobody should have to approve what they cannot read."""
        message, *further = question_lines(self._command, self.book.outline(), asked)
        self.print(f"  ? {message}")
        for line in further:
            self.print(f"      {line}", room=8)

    def step(self, step: StepSheet, now: float) -> None:
        """A step has come to its end."""
        from midflight.interfaces.cli.rich_console import step_line

        self._out.print(step_line(step, now))

    def print(self, line: str, room: int = 6) -> None:
        """Print a text as it is; its further lines are indented, so that none looks like ours."""
        self._out.print(looks.indented(line, room), markup=False)

    def connected(self, there: bool) -> None:
        """The server has gone, or is back."""
        self.print("  The server is back." if there else "  Reconnecting. The agent keeps running.")

    def driven(self) -> None:
        """Nobody drives it any more; that somebody does again is on record, and told there."""
        sheet = self.book.sheet()
        if sheet.undriven_since is not None:
            word, rest = looks.headline(sheet)
            self.print(f"  {word}. {rest}.")

    async def tick(self, store: Any) -> None:
        """Lines need no clock."""

    def end(self, result: Any) -> None:
        """Show how the run ended, what it spent, and its receipt."""
        sheet = self.book.sheet()
        word, rest = looks.headline(sheet)
        self.print(f"{word}  {looks.one_line(rest, 400)}".rstrip())
        if self._driving and sheet.phase is Phase.FAILED and not os.environ.get(TRACEBACK):
            self.print(f"  ({TRACEBACK}=1 shows where)")
        self.print(looks.meter(sheet, self.book.state, sheet.updated_at))
        how = self._command("show", sheet.run[:SHOWN], "--all")
        tell_receipt(sheet.receipt, how=how)


class JsonLines(Lines):
    """Every record as it is in the journal, and what steps say in between."""

    def begin(self, book: RunBook, talk: ThreadBook, now: float) -> None:
        """Write a line with the sheet as it is now."""
        self.book = book
        self.talk = Talking(talk, self.print, book.state.journal)
        self.line("sheet", sheet=book.sheet())

    def take(self, item: Recorded | Delta) -> None:
        """Show one thing more."""
        if isinstance(item, Delta):
            self.line("delta", delta=item)
            return
        ours = item.journal == self.book.state.journal
        (self.book if ours else self.talk.book).take(item)
        self.line("record", record=item)

    def connected(self, there: bool) -> None:
        """The server has gone, or is back."""
        self.line("connection", connected=there)

    def driven(self) -> None:
        """Nobody drives it any more, or somebody does again."""
        self.line("driven", undriven_since=self.book.sheet().undriven_since)

    def end(self, result: Any) -> None:
        """Write a line with the run's end, its result and its receipt."""
        state = self.book.state
        ended = {"run": state.journal, "phase": state.phase, "error": state.error}
        self.line("ended", **ended, result=result, receipt=self.book.sheet().receipt)

    def line(self, kind: str, **what: Any) -> None:
        """One line of JSON; ``type`` says what it is."""
        print_json({"type": kind, **what})


class Picture(Lines):
    """Finished steps scroll away above; below them stands what is being done, and what it costs."""

    def __init__(self, command: Command, driving: bool) -> None:
        super().__init__(command, driving)
        self._after = "the run is held where it is" if driving else "the run goes on"
        self._texts: dict[str, str] = {}
        self._offset = 0.0  # of the store's clock from ours
        self._there = True
        self._live: Live | None = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._live is not None:
            with answering():
                self._live.stop()

    def begin(self, book: RunBook, talk: ThreadBook, now: float) -> None:
        """Show what there is already."""
        self._offset = now - anyio.current_time()
        super().begin(book, talk, now)
        from rich.live import Live

        self._live = Live(
            console=self._out, auto_refresh=False, transient=True, get_renderable=self._picture
        )
        self._live.start(refresh=True)

    def take(self, item: Recorded | Delta) -> None:
        """Show one thing more."""
        if isinstance(item, Delta):
            before = self._texts.get(item.step, "")
            self._texts[item.step] = before[: item.offset] + item.text
        elif isinstance(item.event, StepSettled):
            self._texts.pop(item.event.step, None)
        super().take(item)

    def connected(self, there: bool) -> None:
        """The server has gone, or is back."""
        self._there = there

    def driven(self) -> None:
        """The picture shows it."""

    async def tick(self, store: Any) -> None:
        """Draw anew, with our clock kept to the store's."""
        while True:
            self._offset = await store.now() - anyio.current_time()
            for _ in range(int(SYNC_S / TICK_S)):
                if self._live is not None:
                    self._live.refresh()
                await anyio.sleep(TICK_S)

    def end(self, result: Any) -> None:
        """Take the live picture away, and show how the run ended."""
        self._stop()
        super().end(result)

    def _picture(self) -> RenderableType:
        from midflight.interfaces.cli.rich_console import picture_of

        now = anyio.current_time() + self._offset
        leaves = f"Ctrl-C leaves; {self._after}"
        sheet = self.book.outline()
        self._texts = _still_said(self.book, sheet, self._texts)
        state, width = self.book.state, self._out.width
        return picture_of(sheet, state, self._texts, now, width, leaves, there=self._there)


def _still_said(book: RunBook, outline: RunSheet, texts: dict[str, str]) -> dict[str, str]:
    """Drop what settled steps have said. A plain read is not on record before it has settled."""
    unsettled = {step.id for step in outline.steps}
    return {s: text for s, text in texts.items() if s in unsettled or not book.knows(s)}


def _is_told_otherwise(mark: Mark, questions: list[Asked]) -> bool:
    """Return whether a mark repeats another line: a question about a cap, or its raising."""
    asked = any(one.kind == CAP for one in questions)
    return (mark.kind == "cap" and asked) or (mark.kind == "closed" and mark.text == "raised")


INDENT: Final = " " * 6


async def talk_of(control: AnyControl, thread: str) -> ThreadBook:
    """A thread with all its records, a page at a time."""
    book = ThreadBook(thread)
    async for record in news_of(control, book):
        book.take(record)
    return book


async def news_of(control: AnyControl, book: ThreadBook) -> AsyncIterator[Recorded]:
    """Yield the records that the book has not taken; the caller gives each of them to it."""
    while page := await control.store.read(book.state.journal, after=book.state.head):
        for record in page:
            yield record
        if len(page) < PAGE:
            return


async def book_of(control: AnyControl, run: str) -> RunBook:
    """Return the run with all its records, and whether anybody drives it."""
    book = RunBook(run)
    while page := await control.store.read(run, after=book.state.head):
        for record in page:
            book.take(record)
        if len(page) < PAGE:
            break
    book.undriven(await control.undriven_since(book.state))
    return book


class Talking:
    """Prints a conversation; with ``run`` what concerns that run only."""

    def __init__(self, book: ThreadBook, tell: Callable[[str], None], run: str = "") -> None:
        self.book = book
        self._tell = tell
        self._run = run

    def so_far(self, since: float = 0.0) -> None:
        """Each thing that was said, and under a message what became of it."""
        for line in self.book.sheet().lines:
            if line.at >= since and self._concerns(line):
                self._print(_said(line))
                if line.kind == "message":
                    self._tell(INDENT + looks.outcome(line))

    def take(self, record: Recorded) -> None:
        """One record more."""
        self.book.take(record)
        line = self.book.line(record.position)
        if line is not None and self._concerns(line):
            self._print(_said(line) or filter(None, [looks.event(line)]))
        elif isinstance(record.event, MessagesTaken):
            self._print(f"{message} Read" for message in record.event.messages)

    def _concerns(self, line: Line) -> bool:
        """Return whether a line is for this run: not if another run of the thread says it."""
        said = line.said not in {"", "aside"}
        return not (self._run and said and line.run != self._run)

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._tell(indented(line if line[:1] == " " else INDENT + line))


def _said(line: Line) -> list[str]:
    """Every line of what was said; messages with the number by which one can overrule them."""
    told = looks.told(line)
    if told is None:
        return []
    number = f"{line.position:>4}  " if line.kind == "message" else INDENT
    first, *more = told.text.splitlines() or [""]
    return [f"{number}{told.who}: {first}", *(INDENT + text for text in more)]
