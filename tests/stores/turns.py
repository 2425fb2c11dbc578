"""A turn at a store's turnstile that somebody else has, as another process would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from midflight.stores.sqlite.locks import ByteLock
from midflight.stores.sqlite.sqlite_hold import Hold


@contextmanager
def turn_of_another(path: Path) -> Iterator[None]:
    """Keep everybody else from writing to the store while the block runs."""
    with closing(Hold(path)) as hold, hold.turnstile().passed():
        yield


@contextmanager
def locked_by_another(path: Path, byte: int) -> Iterator[None]:
    """Hold one lock of the store while the block runs."""
    with closing(Hold(path)) as hold:
        lock = ByteLock(fd := hold.descriptor(), byte)
        assert lock.take(wait=False)
        try:
            yield
        finally:
            hold.give_back(fd, lock)
