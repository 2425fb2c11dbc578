"""Which journals move, anywhere in a store: for who shows a list of them.

Nothing is queued: a journal that moves a thousand times before somebody looks is named once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self

import anyio

from midflight.kernel.fold import BULK
from midflight.kernel.record import Recorded


class Movements:
    """What has moved since the last look, while it is entered."""

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
        """These were committed here."""
        for record in records:
            self.note(record.journal, more=type(record.event) not in BULK)

    def note(self, journal: str, *, more: bool = True) -> None:
        """It has moved, and ``more`` than its counters may have changed."""
        self._moved[journal] = self._moved.get(journal, False) or more
        self._news.set()

    async def wait(self) -> None:
        """Until something has moved."""
        await self._news.wait()

    def take(self) -> dict[str, bool]:
        """What has; whether more than its counters may have changed."""
        moved, self._moved = self._moved, {}
        self._news = anyio.Event()
        return moved
