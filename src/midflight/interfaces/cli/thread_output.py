"""A conversation in lines: all that was said so far and its outcome, then news as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Final

from midflight.control.transcript import Line
from midflight.interfaces.terminal import looks
from midflight.interfaces.terminal.looks import indented
from midflight.journal.events import MessagesTaken
from midflight.journal.record import Recorded
from midflight.stores.protocol import PAGE
from midflight.view import ThreadBook

if TYPE_CHECKING:
    from midflight.control.any_control import AnyControl

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
