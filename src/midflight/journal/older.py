"""A dict whose older entries stay packed until somebody asks for one of them."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    ValuesView,
)
from itertools import takewhile
from typing import Any, TypeVar

from typing_extensions import override

K = TypeVar("K")
V = TypeVar("V")


class Older(dict[K, V]):
    """A dict whose older entries come only when somebody asks for them.

    ``fill`` gets the newer entries and returns all. A key of which ``knows`` says that it is not
    among the older ones is not looked for there.
    """

    __slots__ = ("_fill", "_knows")

    def __init__(
        self,
        newer: Mapping[K, V],
        fill: Callable[[dict[K, V]], dict[K, V]],
        knows: Callable[[Any], bool],
    ) -> None:
        super().__init__(newer)
        self._fill: Callable[[dict[K, V]], dict[K, V]] | None = fill
        self._knows: Callable[[Any], bool] = knows

    @property
    def is_whole(self) -> bool:
        """True if the older entries are there."""
        return self._fill is None

    def newer(self) -> list[tuple[K, V]]:
        """Return the entries that are there."""
        return list(super().items())

    def complete(self) -> None:
        """Fetch the older entries; from here on this is a dict like any other."""
        fill, self._fill = self._fill, None
        if fill is not None:
            whole = fill(dict(super().items()))
            super().clear()
            super().update(whole)

    def _misses(self, key: Any) -> bool:
        return self._fill is not None and not super().__contains__(key) and self._knows(key)

    def __missing__(self, key: K) -> V:
        if self._misses(key):
            self.complete()
            if super().__contains__(key):
                return super().__getitem__(key)
        raise KeyError(key)

    @override
    def get(self, key: Any, default: Any = None) -> Any:
        """See ``dict.get``."""
        if self._misses(key):
            self.complete()
        return super().get(key, default)

    @override
    def pop(self, key: Any, *default: Any) -> Any:
        """See ``dict.pop``."""
        if self._misses(key):
            self.complete()
        return super().pop(key, *default)

    @override
    def setdefault(self, key: Any, default: Any = None) -> Any:
        """See ``dict.setdefault``."""
        if self._misses(key):
            self.complete()
        return super().setdefault(key, default)

    @override
    def __delitem__(self, key: K) -> None:
        if self._misses(key):
            self.complete()
        super().__delitem__(key)

    @override
    def popitem(self) -> tuple[K, V]:
        """See ``dict.popitem``."""
        self.complete()
        return super().popitem()

    @override
    def update(self, *others: Any, **more: Any) -> None:
        """See ``dict.update``."""
        self.complete()
        super().update(*others, **more)

    @override
    def copy(self) -> dict[K, V]:
        """See ``dict.copy``."""
        self.complete()
        return super().copy()

    @override
    def __or__(self, other: Any) -> Any:
        self.complete()
        return super().__or__(other)

    @override
    def __ror__(self, other: Any) -> Any:
        self.complete()
        return super().__ror__(other)

    @override
    def __ior__(self, other: Any) -> Any:
        self.complete()
        return super().__ior__(other)

    @override
    def clear(self) -> None:
        """See ``dict.clear``."""
        self._fill = None
        super().clear()

    @override
    def __contains__(self, key: object) -> bool:
        if self._misses(key):
            self.complete()
        return super().__contains__(key)

    def __bool__(self) -> bool:
        return len(self) > 0

    @override
    def __len__(self) -> int:
        self.complete()
        return super().__len__()

    @override
    def __iter__(self) -> Iterator[K]:
        self.complete()
        return super().__iter__()

    @override
    def __reversed__(self) -> Iterator[K]:
        self.complete()
        return super().__reversed__()

    @override
    def __eq__(self, other: object) -> bool:
        self.complete()
        if isinstance(other, Older):
            other.complete()
        return super().__eq__(other)

    @override
    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    @override
    def __repr__(self) -> str:
        self.complete()
        return super().__repr__()

    @override
    def keys(self) -> KeysView[K]:  # type: ignore[override]
        """See ``dict.keys``."""
        self.complete()
        return super().keys()

    @override
    def values(self) -> ValuesView[V]:  # type: ignore[override]
        """See ``dict.values``."""
        self.complete()
        return super().values()

    @override
    def items(self) -> ItemsView[K, V]:  # type: ignore[override]
        """See ``dict.items``."""
        self.complete()
        return super().items()


def newer(entries: dict[int, V], after: int, also: Collection[int]) -> list[tuple[int, V]]:
    """Return the entries after a position, and some of before; what is packed stays so."""
    if isinstance(entries, Older) and not entries.is_whole:
        return [(at, each) for at, each in entries.newer() if at > after or at in also]
    found = list(takewhile(lambda at: at > after, reversed(entries)))
    before = [at for at in also if at in entries and at <= after]
    return [(at, entries[at]) for at in (*sorted(before), *reversed(found))]
