"""The part of every store that is built on its reading: folded journals, and their watchers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from midflight.errors import StoreUnavailable
from midflight.kernel.fold import fold
from midflight.kernel.machine import State
from midflight.stores.base import PAGE, empty_state
from midflight.stores.hub import Hub
from midflight.stores.movements import Movements
from midflight.stores.subscription import LiveSubscription, Read, Subscription
from midflight.stores.voices import Voices


def _nothing() -> None:
    pass


def _ignore(_: object) -> None:
    pass


def closed() -> StoreUnavailable:
    """The refusal of a store that was closed."""
    return StoreUnavailable("the store is closed. Nothing was appended.")


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
