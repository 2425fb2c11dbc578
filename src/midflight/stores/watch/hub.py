"""The watchers of a store's journals in this process.

The store publishes what it has committed before it acknowledges it, so a driver that has to act on
a cancel is told of it before the person who cancelled is answered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from midflight.kernel.fold import fold
from midflight.kernel.machine import State
from midflight.kernel.record import Recorded
from midflight.stores.protocol import PAGE, empty_state
from midflight.stores.watch.live_subscription import LiveSubscription
from midflight.stores.watch.movements import Movements
from midflight.stores.watch.subscription import Read, Subscription
from midflight.stores.watch.voices import Voice, Voices


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


class Hub:
    """All watchers of one store in this process."""

    overheard: Overheard | None = None

    def __init__(self) -> None:
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
        if not (self._watchers or self.movements):
            return
        for everywhere in self.movements:
            everywhere.publish(records)
        for record in records:
            for watcher in tuple(self._watchers.get(record.journal, ())):
                watcher.offer(record)

    def moved(self, heads: Mapping[str, int | None]) -> None:
        """Tell everybody here that another process has appended."""
        for journal, head in heads.items():
            for everywhere in self.movements:
                everywhere.note(journal)
            for watcher in tuple(self._watchers.get(journal, ())):
                watcher.moved(journal, head)

    def subscribe(self, read: Read, cursors: Mapping[str, int]) -> Subscription:
        """A watcher, which hears of its journals from the moment that it is entered."""
        return Subscription(self, read, cursors)

    def subscribe_live(self, read: Read, cursors: Mapping[str, int]) -> LiveSubscription:
        """A watcher that also hears what steps say."""
        return LiveSubscription(self, read, cursors)

    def hear_of_all(self) -> Movements:
        """Return a context in which all movements are noted, of watched and unwatched journals."""
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


def _nothing() -> None:
    pass


def _ignore(_: object) -> None:
    pass


class Watched:
    """The part of a store that is the same in all. ``expected`` is told before somebody watches."""

    def __init__(self, read: Read, expected: Callable[[], None] = _nothing) -> None:
        self._hub = Hub()
        self._on = read
        self._expected = expected

    async def load(self, journal: str) -> State:
        """See ``Store.load``. Page by page, and the loop is given back in between."""
        state = empty_state(journal)
        while True:
            page = await self._on(journal, state.head)
            fold(state, page)
            if len(page) < PAGE:
                return state

    def watch(self, cursors: Mapping[str, int]) -> Subscription:
        """See ``Store.watch``."""
        self._expected()
        return self._hub.subscribe(self._on, cursors)

    def watch_live(self, cursors: Mapping[str, int]) -> LiveSubscription:
        """See ``Store.watch_live``."""
        self._expected()
        return self._hub.subscribe_live(self._on, cursors)

    def movements(self) -> Movements:
        """See ``Store.movements``."""
        self._expected()
        return self._hub.hear_of_all()

    def wanting(self) -> Movements:
        """See ``Store.wanting``. Here nobody is told."""
        return Movements(_ignore, _ignore)

    @property
    def voices(self) -> Voices:
        """See ``Store.voices``."""
        return self._hub.voices
