"""Runs somebody else's coroutine so that it can be left behind, whatever it catches.

A coroutine that swallows every exception cannot be ended: each cancel only makes it go round once
more, and a loop that closes waits for it for ever. But it runs only while somebody resumes it. This
stands between the task and the coroutine, and stops resuming it when told to.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeVar

from anyio._backends import _asyncio as anyio_asyncio

T = TypeVar("T")

abandoned: Final[list[Coroutine[Any, Any, Any]]] = []
"""Left behind, and kept: collecting one would resume it, with a noise."""


def innermost_scope() -> Any:
    """The cancel scope in which this task is now. There is no public way to it."""
    task = asyncio.current_task()
    state = anyio_asyncio._task_states.get(task) if task is not None else None
    return state.cancel_scope if state is not None else None


def abandon(coroutine: Coroutine[Any, Any, Any], begun_in: Any) -> None:
    """Leave it behind, in the task that has resumed it so far, ``begun_in`` this cancel scope.

    The scopes that it has left open in the task are closed, and what is in them is cancelled. It
    will never do so itself, and a task that ends with an open scope breaks its task group.
    """
    abandoned.append(coroutine)
    while (scope := innermost_scope()) is not None and scope is not begun_in:
        scope.__exit__(None, None, None)
        scope.cancel()


@types.coroutine
def detachable(
    coroutine: Coroutine[Any, Any, T], detached: Callable[[], bool]
) -> Generator[Any, Any, T]:
    """Await ``coroutine``; once ``detached()``, the next exception ends us and not it."""
    value: Any = None
    thrown: BaseException | None = None
    begun_in = innermost_scope()
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
                abandon(coroutine, begun_in)
                raise
            thrown = error
        finally:
            del awaited  # it may hold what it has raised
