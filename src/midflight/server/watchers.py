"""A set of watchers that are woken when there is something new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Watchers:
    """The watchers of one thing. Each is a call that takes no time: it only wakes a task."""

    __slots__ = ("_stirs",)

    def __init__(self) -> None:
        self._stirs: dict[Callable[[], None], None] = {}  # in the order in which they came

    @contextmanager
    def hearing(self, stir: Callable[[], None]) -> Iterator[None]:
        """Call ``stir`` whenever there is something new, for as long as the block runs."""
        self._stirs[stir] = None
        try:
            yield
        finally:
            del self._stirs[stir]

    def stir(self) -> None:
        """Wake all watchers: there is something new."""
        for stir in tuple(self._stirs):  # a watcher that is woken may leave, or add another one
            stir()

    def __bool__(self) -> bool:
        """Return whether there is any watcher."""
        return bool(self._stirs)
