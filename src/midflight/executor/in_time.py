"""Lets a tool go on only while it has time.

Its timer is not enough where the whole process was stopped, or the machine slept: what the tool
waited for may have come before that, and then its next line is run on waking, before any timer.
Others may by then have looked up what became of it, and rely on its timeout.
"""

from __future__ import annotations

import types
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from midflight.executor.detach import abandon, innermost_scope
from midflight.inputs import steady


@types.coroutine
def in_time(
    work: Coroutine[Any, Any, Any],
    until: float,
    is_late: Callable[[], bool],
    is_left: Callable[[], bool] = lambda: False,
) -> Generator[Any, Any, Any]:
    """Await it; what would go on after ``until``, by the steady clock, is cancelled there.

    ``is_late`` has a say: not what is being ended already, which may take its time for that. Once
    ``is_left()``, the next exception ends us and not the work, which is not resumed any more.
    """
    error: BaseException | None = None
    begun_in = innermost_scope()
    if steady() >= until and is_late():
        work.close()
        raise CancelledError
    try:
        while True:
            try:
                awaited = work.send(None) if error is None else work.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            try:
                yield awaited
            except GeneratorExit:
                work.close()
                raise
            except BaseException as raised:
                if is_left():
                    abandon(work, begun_in)
                    raise
                error = raised
            else:
                if steady() >= until and is_late():
                    error = CancelledError()
    finally:
        error = None  # or its traceback would keep us, and we it
