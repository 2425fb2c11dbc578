"""Runs somebody else's coroutine so that it can be left behind, whatever it catches.

A coroutine that swallows every exception cannot be ended: each cancel only makes it go round once
more, and a loop that closes waits for it for ever. But it runs only while somebody resumes it. This
stands between the task and the coroutine, and stops resuming it when told to.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeVar

T = TypeVar("T")

abandoned: Final[list[Coroutine[Any, Any, Any]]] = []
"""Left behind, and kept: collecting one would resume it, with a noise."""


@types.coroutine
def detachable(
    coroutine: Coroutine[Any, Any, T], detached: Callable[[], bool]
) -> Generator[Any, Any, T]:
    """Await ``coroutine``; once ``detached()``, the next exception ends us and not it."""
    value: Any = None
    thrown: BaseException | None = None
    while True:
        try:
            awaited = coroutine.send(value) if thrown is None else coroutine.throw(thrown)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            thrown = None  # it knows this frame, and neither would go
        try:
            value = yield awaited
        except BaseException as error:
            if detached():
                abandoned.append(coroutine)
                raise
            thrown = error
        finally:
            del awaited  # it may hold what it has raised
