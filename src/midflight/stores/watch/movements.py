"""The names of journals that move, anywhere in a store: for a list of runs.

Nothing is queued: a journal that moves a thousand times before somebody looks is named once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Self

import anyio

from midflight.journal.fold import BULK
from midflight.journal.record import Recorded

ANY: Final = ""  # in place of a journal: too many have moved to name them


class Movements:
    """The journals that have moved since the last look, noted while the context is entered."""

    __slots__ = ("_join", "_leave", "_moved", "_news")

    def __init__(
        self, join: Callable[[Movements], None], leave: Callable[[Movements], None]
    ) -> None:
        self._join, self._leave = join, leave
        self._moved: dict[str, bool] = {}
        self._news = anyio.Event()

    async def __aenter__(self) -> Self:
        self._join(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leave(self)

    def publish(self, records: Iterable[Recorded]) -> None:
        """Note the journals of records that were committed in this process."""
        for record in records:
            self.note(record.journal, more=type(record.event) not in BULK)

    def note(self, journal: str, *, more: bool = True) -> None:
        """Note that a journal has moved, and that ``more`` than its counters may have changed."""
        self._moved[journal] = self._moved.get(journal, False) or more
        self._news.set()

    async def wait(self) -> None:
        """Wait until something has moved."""
        await self._news.wait()

    def take(self) -> dict[str, bool]:
        """Return the journals that have moved, and whether more than counters may have changed."""
        moved, self._moved = self._moved, {}
        self._news = anyio.Event()
        return moved


def no_movements() -> Movements:
    """Return a context in which nothing is ever noted."""
    return Movements(_ignore, _ignore)


def _ignore(_: Movements) -> None:
    pass
