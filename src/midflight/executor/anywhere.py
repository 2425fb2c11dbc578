"""Starts tasks also from a callback of the loop, where no task runs.

What a store publishes is heard where it is published, and timers ring, outside of any task. There
anyio finds the loop by itself. But where sniffio is installed, as some model SDKs have it, anyio
asks sniffio instead, which knows no loop without a task unless it was told.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from anyio.abc import TaskGroup


class Starter:
    """The task group of a driver, for whoever wants something begun."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks

    def start_soon(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        """Begin it in a task of the driver's, now or in the loop's next turn."""
        if asyncio.current_task() is not None:
            self._tasks.start_soon(work, *args)
        else:
            contextvars.copy_context().run(self._start, work, *args)

    def _start(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        sniffio = sys.modules.get("sniffio")  # where it is installed, anyio has imported it
        if sniffio is not None:
            sniffio.current_async_library_cvar.set("asyncio")
        self._tasks.start_soon(work, *args)
