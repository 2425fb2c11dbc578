"""Runs blocking functions in threads of their own, which do not keep the process from ending."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio

THREADS: Final = 256  # at once, over all runs; a function that never ends keeps its thread

_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, anyio.CapacityLimiter] = WeakKeyDictionary()


def _limiter() -> anyio.CapacityLimiter:
    loop = asyncio.get_running_loop()
    if loop not in _limiters:
        _limiters[loop] = anyio.CapacityLimiter(THREADS)
    return _limiters[loop]


Ended = asyncio.Future[tuple[Any, BaseException | None]]
"""The value that a function in a thread has returned, or the error that it has raised."""


async def in_thread(
    function: Callable[[], Any],
    is_left: Callable[[], bool],
    late: Callable[[Any, BaseException | None], None],
) -> Any:
    """Call it in a daemon thread and wait for its end, through every cancel.

    A thread cannot be ended. Once ``is_left()``, the next cancel ends the wait and not the thread;
    how that ends then is told ``late``.
    """
    async with _limiter():
        ended = _begin(function)
        with anyio.CancelScope(shield=True):  # or anyio would cancel us again and again
            while True:
                try:
                    await asyncio.wait({ended})  # which a cancel of ours does not cancel
                except asyncio.CancelledError:
                    if is_left() and not ended.done():
                        ended.add_done_callback(lambda ended: late(*ended.result()))
                        raise
                    continue
                result, error = ended.result()
                if error is not None:
                    raise error
                return result


def _begin(function: Callable[[], Any]) -> Ended:
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    ended: Ended = loop.create_future()

    def call() -> None:
        try:
            told: tuple[Any, BaseException | None] = (context.run(function), None)
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            told = (None, error)
        with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody waits any more
            loop.call_soon_threadsafe(_tell, ended, told)

    threading.Thread(target=call, name="midflight-tool", daemon=True).start()
    return ended


def _tell(ended: Ended, told: tuple[Any, BaseException | None]) -> None:
    if not ended.done():
        ended.set_result(told)
