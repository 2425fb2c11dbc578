"""Who watches what, in this process. A slow watcher costs memory for a page, never an event.

The store publishes what it has committed before it acknowledges it, so whoever acts on a cancel
has been told of it by the time the canceller is. A watcher that cannot keep up, or hears only that
another process has moved a journal on, reads the gap from the store.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from midflight.errors import JournalNotFound
from midflight.kernel.record import Recorded
from midflight.stores.base import PAGE

BACKLOG_MAX: Final = (
    2 * PAGE
)  # records kept for one watcher before it reads the rest from the store

Read = Callable[[str, int], Awaitable[list[Recorded]]]


@asynccontextmanager
async def owned_tasks(*tasks: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[TaskGroup]:
    """Run tasks of one's own beside a block, and end them with it.

    What the block raises comes out as it is: a caller's error is not to be wrapped in a group only
    because a store or an engine has tasks.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(task)
        try:
            yield group
        except Exception as error:  # noqa: BLE001 - raised again two lines below
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


class Subscription:
    """One watcher: yields every event of its journals once, in order."""

    def __init__(self, read: Read, cursors: Mapping[str, int]) -> None:
        self._read = read
        self._next = {journal: after + 1 for journal, after in cursors.items()}
        self._backlog: deque[Recorded] = deque()
        self._behind = dict.fromkeys(cursors)  # in the order in which they are read
        self._moved: set[str] = set()
        self._news = anyio.Event()
        self._hear: Callable[[Recorded], None] | None = None
        self.joined: Callable[[str], None] = lambda journal: None

    @property
    def journals(self) -> Iterable[str]:
        """What it watches."""
        return self._next.keys()

    def add(self, journal: str, after: int) -> None:
        """Also watch this journal, from a position on."""
        if journal not in self._next:
            self._next[journal] = after + 1
            self.joined(journal)
            self._fall_behind(journal)

    def ready(self) -> list[Recorded]:
        """Give what lies here already. A driver looks once more before a tool's first line."""
        found = list(self._backlog)
        self._backlog.clear()
        return found

    def tap(self, hear: Callable[[Recorded], None]) -> None:
        """Give what is published here to ``hear`` at once, unless something older still waits."""
        self._hear = hear

    def offer(self, record: Recorded) -> None:
        """Take a record that was just committed, if it is the next one.

        Also while a page is being read, which then holds it too: a driver that has just begun must
        hear of a stop before whoever asked for it is answered.
        """
        journal, due = record.journal, self._next[record.journal]
        if record.position < due:
            return
        if record.position > due or len(self._backlog) >= BACKLOG_MAX:
            self._fall_behind(journal)
            return
        self._next[journal] = record.position + 1
        if self._hear is not None and not self._backlog:
            self._hear(record)
            return
        self._backlog.append(record)
        self._news.set()

    def moved(self, journal: str, head: int | None = None) -> None:
        """Another process has appended here, up to ``head`` if that is known."""
        if head is None or head >= self._next[journal]:
            self._fall_behind(journal)

    def _fall_behind(self, journal: str) -> None:
        self._behind[journal] = None
        self._moved.add(journal)
        self._news.set()

    async def __aiter__(self) -> AsyncIterator[Recorded]:
        while True:
            while self._backlog:
                yield self._backlog.popleft()
            if self._behind:
                await self._catch_up(next(iter(self._behind)))
            elif not self._backlog:
                self._news = anyio.Event()  # nothing can come between the look and this
                await self._news.wait()

    async def _catch_up(self, journal: str) -> None:
        """Read one page of the gap into the backlog, where it waits also for one who breaks off.

        The journal stays *behind* during the read. What was offered meanwhile and was the next is
        not taken from the page again; anything further only makes us read once more.
        """
        self._moved.discard(journal)
        try:
            page = await self._read(journal, self._next[journal] - 1)
        except JournalNotFound:
            page = []  # not written yet: it may still come
        news = [record for record in page if record.position >= self._next[journal]]
        if news:
            self._next[journal] = news[-1].position + 1
        self._backlog.extend(news)
        del self._behind[journal]
        if len(page) == PAGE or journal in self._moved:
            self._behind[journal] = None  # at the end, so that a busy journal starves no other


class Hub:
    """All watchers of one store in this process."""

    def __init__(self) -> None:
        self._watchers: defaultdict[str, set[Subscription]] = defaultdict(set)

    @property
    def watched(self) -> list[str]:
        """Journals that somebody here watches."""
        return [journal for journal, watchers in self._watchers.items() if watchers]

    def publish(self, records: Iterable[Recorded]) -> None:
        """Tell everybody here what was just committed."""
        if not self._watchers:
            return
        for record in records:
            for watcher in tuple(self._watchers.get(record.journal, ())):
                watcher.offer(record)

    def moved(self, heads: Mapping[str, int | None]) -> None:
        """Tell everybody here that another process has appended."""
        for journal, head in heads.items():
            for watcher in tuple(self._watchers.get(journal, ())):
                watcher.moved(journal, head)

    @contextmanager
    def subscribe(self, read: Read, cursors: Mapping[str, int]) -> Iterator[Subscription]:
        """Register a watcher for as long as the block runs."""
        watcher = Subscription(read, cursors)
        for journal in cursors:
            self._watchers[journal].add(watcher)
        watcher.joined = lambda journal: self._watchers[journal].add(watcher)
        try:
            yield watcher
        finally:
            for journal in watcher.journals:
                self._watchers[journal].discard(watcher)
                if not self._watchers[journal]:
                    del self._watchers[journal]
