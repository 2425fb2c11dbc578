"""Tasks that end with their owner."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def owned_tasks(*tasks: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[TaskGroup]:
    """Run tasks of one's own beside a block, and end them with it.

    What the block raises comes out as it is: a caller's error is not to be wrapped in a group only
    because a store or an engine has tasks.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(task)
        try:
            yield group
        except Exception as error:  # noqa: BLE001 - raised again two lines below
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
