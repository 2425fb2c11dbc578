"""The sheet of a thread, folded from its records one by one."""

from __future__ import annotations

from collections.abc import Iterable

from midflight.control.todos import TodoOffer
from midflight.control.transcript import Line, Lines
from midflight.kernel.fold import advance
from midflight.kernel.record import Recorded
from midflight.kernel.thread import ThreadState
from midflight.stores.protocol import Row
from midflight.view.data import ThreadSheet
from midflight.view.run_fields import unread


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
        """Return the line that a reader sees for the record at a position, if there is one."""
        return self._lines.at(position)

    def sheet(self, rows: Iterable[Row] = (), todos: Iterable[TodoOffer] = ()) -> ThreadSheet:
        """Make the sheet of the thread as it stands; ``rows`` and ``todos`` need other journals."""
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
