"""Who wants to hear that there is something new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Watchers:
    """Each is a call that takes no time: it only wakes somebody who then looks."""

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
        """There is something new."""
        for stir in tuple(self._stirs):  # who hears of it may leave, or bring somebody
            stir()

    def __bool__(self) -> bool:
        """Whether anybody is there."""
        return bool(self._stirs)
