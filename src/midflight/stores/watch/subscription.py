"""One watcher of journals. A slow one costs memory for a page, never an event.

One that cannot keep up, or hears only that another process has moved a journal on, reads the gap
from the store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, Protocol, Self

import anyio
from msgspec import Raw, Struct

from midflight.errors import JournalNotFound
from midflight.journal.record import Recorded
from midflight.stores.protocol import PAGE, Read
from midflight.stores.watch.voices import Voices

BACKLOG_MAX: Final = 2 * PAGE  # records kept for one watcher; the rest it reads from the store
BACKLOG_BYTES_MAX: Final = 4 * 1024 * 1024  # and their bytes, beside the first few
UNWEIGHED: Final = 8  # records of a backlog that are not worth weighing: they hold 8 MB at most
READ_FIRST: Final = 32  # records of the first page, whose size nobody knows; the next one adapts


class Journals(Protocol):
    """Tells watchers of the journals that they have joined: see ``Hub``."""

    voices: Voices

    def join(self, journal: str, watcher: Subscription) -> None:
        """Tell a watcher of this journal too."""

    def leave(self, journal: str, watcher: Subscription) -> None:
        """Tell it no more."""


class Subscription:
    """One watcher: yields every event of its journals once, in order, while it is entered.

    Every run in memory has one, so it makes only what it needs.
    """

    __slots__ = (
        "_backlog",
        "_behind",
        "_fell",
        "_hear",
        "_hub",
        "_kept",
        "_moved",
        "_news",
        "_next",
        "_page",
        "_read",
    )

    def __init__(self, hub: Journals, read: Read, cursors: Mapping[str, int]) -> None:
        self._hub = hub
        self._read = read
        self._next = {journal: after + 1 for journal, after in cursors.items()}
        self._backlog: list[Any] = []  # records; for a live watcher also whose turn it is
        self._behind = dict.fromkeys(cursors)  # in the order in which they are read
        self._moved: dict[str, None] = {}
        self._kept = 0  # bytes that were added to the backlog since it was short
        self._page = READ_FIRST  # records to read next
        self._news: anyio.Event | None = None  # made by the task that waits for it
        self._hear: Callable[[Recorded], None] | None = None
        self._fell: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        for journal in self._next:
            self._hub.join(journal, self)
        return self

    async def __aexit__(self, *_: object) -> None:
        for journal in self._next:
            self._hub.leave(journal, self)
        self._hear = self._fell = None

    def add(self, journal: str, after: int) -> None:
        """Also watch this journal, from a position on."""
        if journal not in self._next:
            self._next[journal] = after + 1
            self._hub.join(journal, self)
            self._fall_behind(journal)

    def ready(self) -> list[Recorded]:
        """Give what lies here already. A driver looks once more before a tool's first line."""
        found, self._backlog = self._backlog, []
        return found

    def tap(
        self, hear: Callable[[Recorded], None], behind: Callable[[], None] | None = None
    ) -> None:
        """Give what is published here to ``hear`` at once, unless something older still waits."""
        self._hear, self._fell = hear, behind
        if behind is not None and self._behind:
            behind()

    async def catch_up(self) -> None:
        """See ``Watch.catch_up``."""
        assert self._hear is not None
        while self._behind or self._backlog:
            for record in self.ready():
                self._hear(record)
            if self._behind:
                await self._read_on(next(iter(self._behind)))

    def offer(self, record: Recorded) -> None:
        """Take a record that was just committed, if it is the next one.

        Also while a page is being read, which then holds it too: a driver that has just begun must
        hear of a stop before the person who asked for it is answered.
        """
        journal, due = record.journal, self._next[record.journal]
        if record.position < due:
            return
        if record.position > due or (self._backlog and self._is_full(record)):
            self._fall_behind(journal)
            return
        self._next[journal] = record.position + 1
        if self._hear is not None and not self._backlog:
            self._hear(record)
            return
        self._backlog.append(record)
        self._wake()

    def _is_full(self, record: Recorded) -> bool:
        if len(self._backlog) < UNWEIGHED:
            self._kept = 0
            return False
        self._kept += weight(record.event)
        return len(self._backlog) >= BACKLOG_MAX or self._kept > BACKLOG_BYTES_MAX

    def moved(self, journal: str, head: int | None = None) -> None:
        """Note that another process has appended, up to ``head`` if that is known."""
        if head is None or head >= self._next[journal]:
            self._fall_behind(journal)

    def _fall_behind(self, journal: str) -> None:
        self._behind[journal] = None
        self._moved[journal] = None
        self._wake()

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()
        if self._fell is not None:
            self._fell()

    async def __aiter__(self) -> AsyncIterator[Recorded]:
        while True:
            while self._backlog:
                yield self._backlog.pop(0)
            await self._more()

    async def _more(self) -> None:
        """Read what is missing, or wait for news."""
        if self._behind:
            await self._read_on(next(iter(self._behind)))
        elif not self._backlog:
            self._news = anyio.Event()  # nothing can come between the look and this
            await self._news.wait()

    async def _read_on(self, journal: str) -> None:
        """Read one page of the gap into the backlog, where it waits also for one who breaks off.

        The journal stays *behind* during the read. A record that was offered meanwhile and was the
        next one is not taken from the page again; a later record only makes us read once more.
        """
        self._moved.pop(journal, None)
        wanted = self._page
        try:
            page = await self._read(journal, self._next[journal] - 1, wanted)
        except JournalNotFound:
            page = []  # not written yet: it may still come
        self._adapt(page)
        news = [record for record in page if record.position >= self._next[journal]]
        if news:
            self._next[journal] = news[-1].position + 1
        self._backlog.extend(news)
        del self._behind[journal]
        if len(page) == wanted or journal in self._moved:
            self._behind[journal] = None  # at the end, so that a busy journal starves no other
        else:
            self._caught_up(journal)

    def _adapt(self, page: list[Recorded]) -> None:
        """Read as many next time as will hold about as much as a backlog may."""
        if page:
            each = max(1, sum(weight(record.event) for record in page) // len(page))
            self._page = max(1, min(PAGE, 2 * self._page, BACKLOG_BYTES_MAX // each))

    def _caught_up(self, journal: str) -> None:
        """All that the store has of this journal is in the backlog."""


def weight(value: Any) -> int:
    """Return about how many bytes the texts in a value hold."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Raw):
        return len(bytes(value))
    if isinstance(value, Struct):
        return sum(weight(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, dict):
        return sum(weight(key) + weight(inner) for key, inner in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return sum(map(weight, value))
    return 8
