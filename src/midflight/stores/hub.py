"""The watchers of a store's journals in this process.

The store publishes what it has committed before it acknowledges it, so a driver that has to act on
a cancel is told of it before the person who cancelled is answered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, Protocol

from midflight.journal.record import Recorded
from midflight.stores.hints import Movements, Voice, Voices
from midflight.stores.protocol import Committed, Killing, Read
from midflight.stores.subscription import LiveSubscription, Subscription

_JOURNAL: Final = attrgetter("journal")


class Overheard(Protocol):
    """Passes on to other processes what steps say here."""

    def spoke(self, voice: Voice) -> None:
        """Hear that a step has said something."""

    def ended(self, voice: Voice) -> None:
        """Hear that a step says nothing more."""

    def listened(self, journal: str) -> None:
        """Hear that a run has its first listener in this process."""

    def unlistened(self, journal: str) -> None:
        """Hear that the last listener of a run has left."""


def _nothing() -> None:
    pass


class Hub:
    """All watchers of one store in this process.

    They read from the store what they have missed. ``expected`` is called before somebody watches.
    """

    overheard: Overheard | None = None

    def __init__(self, read: Read, expected: Callable[[], None] = _nothing) -> None:
        self._read = read
        self._expected = expected
        self._watchers: defaultdict[str, set[Subscription]] = defaultdict(set)
        self._listeners: dict[str, set[LiveSubscription]] = {}  # those of them who hear steps
        self.voices = Voices(self._spoke, self._fell_silent)
        self.movements: set[Movements] = set()

    def _spoke(self, voice: Voice) -> None:
        for listener in self._listeners.get(voice.journal, ()):
            listener.hear(voice)
        if self.overheard is not None:
            self.overheard.spoke(voice)

    def _fell_silent(self, voice: Voice) -> None:
        if self.overheard is not None:
            self.overheard.ended(voice)

    @property
    def listened(self) -> Collection[str]:
        """Journals that somebody here watches with what is said."""
        return self._listeners.keys()

    @property
    def watched(self) -> list[str]:
        """Journals that somebody here watches."""
        return [journal for journal, watchers in self._watchers.items() if watchers]

    def publish(self, records: Sequence[Recorded]) -> None:
        """Tell everybody here what was just committed."""
        for everywhere in self.movements:
            everywhere.publish(records)
        if self._watchers:
            for journal, group in groupby(records, _JOURNAL):
                news = tuple(group)
                for watcher in tuple(self._watchers.get(journal, ())):
                    watcher.offer(journal, news)

    def deliver(self, done: object) -> None:
        """Tell everybody here of a write, if it is one that they watch for."""
        if isinstance(done, Committed) and not done.repeated:
            self.publish(done.records)
        elif isinstance(done, Committed):  # the first time may have been left open
            self.moved({r.journal: r.position for r in done.records})
        elif isinstance(done, Killing):
            self.moved(dict.fromkeys([*done.killed, *done.revoked]))

    def moved(self, heads: Mapping[str, int | None]) -> None:
        """Tell everybody here that another process has appended."""
        for journal, head in heads.items():
            for everywhere in self.movements:
                everywhere.note(journal)
            for watcher in tuple(self._watchers.get(journal, ())):
                watcher.moved(journal, head)

    def watch(self, cursors: Mapping[str, int]) -> Subscription:
        """Return a watcher, which hears of its journals from the moment that it is entered."""
        self._expected()
        return Subscription(self, self._read, cursors)

    def watch_live(self, cursors: Mapping[str, int]) -> LiveSubscription:
        """Return a watcher that also hears what steps say."""
        self._expected()
        return LiveSubscription(self, self._read, cursors)

    def watch_all(self) -> Movements:
        """Return a context in which all movements are noted, of watched and unwatched journals."""
        self._expected()
        return Movements(self.movements.add, self.movements.discard)

    def join(self, journal: str, watcher: Subscription) -> None:
        """Tell it of this journal too."""
        self._watchers[journal].add(watcher)
        if isinstance(watcher, LiveSubscription):
            if journal not in self._listeners and self.overheard is not None:
                self.overheard.listened(journal)
            self._listeners.setdefault(journal, set()).add(watcher)

    def leave(self, journal: str, watcher: Subscription) -> None:
        """Tell it no more."""
        self._watchers[journal].discard(watcher)
        if not self._watchers[journal]:
            del self._watchers[journal]
        if isinstance(watcher, LiveSubscription):
            self._listeners[journal].discard(watcher)
            if not self._listeners[journal]:
                del self._listeners[journal]
                if self.overheard is not None:
                    self.overheard.unlistened(journal)
