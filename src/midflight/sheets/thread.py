"""The sheet of a thread, folded from its records one by one."""

from __future__ import annotations

from collections.abc import Iterable

from midflight.kernel.fold import advance
from midflight.kernel.record import Recorded
from midflight.kernel.thread import ThreadState
from midflight.sheets.shapes import ThreadSheet
from midflight.sheets.view import unread
from midflight.stores.base import Row
from midflight.verbs.todos import TodoOffer
from midflight.verbs.transcript import Line, Lines


class ThreadBook:
    """Takes the records of one thread, in order, and gives its sheet."""

    def __init__(self, journal: str) -> None:
        self.state = ThreadState(journal)
        self._lines = Lines()

    def take(self, record: Recorded) -> None:
        """Fold one more record."""
        advance(self.state, record)
        self._lines.take(record)

    def line(self, position: int) -> Line | None:
        """What the record at a position says to a reader, if anything."""
        return self._lines.at(position)

    def sheet(self, rows: Iterable[Row] = (), todos: Iterable[TodoOffer] = ()) -> ThreadSheet:
        """How it stands; the rows of its runs and what its todos cost are in other journals."""
        state = self.state
        return ThreadSheet(
            thread=state.journal,
            head=state.head,
            title=state.title,
            front=state.front,
            hosted=state.host is not None,
            created_at=state.created_at,
            updated_at=state.at,
            lines=self._lines.all(),
            todos=list(todos),
            unread=unread(state),
            runs=list(rows),
        )
