"""Undos and checks, called as tools are, and waited for so long and no longer.

A blocking one runs in a thread, which nobody can end. After its time nobody waits for it either,
and what is said about it then says that it may still be at work.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

from midflight.kernel.phases import Effect
from midflight.tools.base import Tool


class StillAtWork(Exception):
    """A blocking function has not ended in its time."""


def helper(name: str, function: Callable[..., Any], timeout: float) -> Tool:
    """An undo or a check as a tool, which has ``timeout`` seconds."""
    if inspect.iscoroutinefunction(function):
        return Tool(name=name, function=function, effect=Effect.READ, timeout=timeout)
    bounded = functools.partial(_in_time, function, timeout)
    return Tool(name=name, function=bounded, effect=Effect.READ, runs="thread")


def _in_time(function: Callable[..., Any], timeout: float, *args: Any) -> Any:
    """Call it in a thread of its own, so that ours need not wait for ever."""
    result: list[Any] = []
    failure: list[BaseException] = []
    context = contextvars.copy_context()

    def call() -> None:
        try:
            result.append(context.run(function, *args))
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            failure.append(error)

    thread = threading.Thread(target=call, name="midflight-helper", daemon=True)
    thread.start()
    thread.join(timeout)
    if failure:
        raise failure[0]
    if not result:
        raise StillAtWork(f"it did not end within {timeout:g} s and may still be at work")
    return result[0]
