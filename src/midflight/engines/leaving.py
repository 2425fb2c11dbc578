"""Leaves in good order when the process is told to end, and at once when it is told twice."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final

import anyio

from midflight.tasks import owned_tasks

GRACE_S: Final = 2.0  # for what is left of the process, after its runs had their time
log: Final = logging.getLogger(__name__)


@asynccontextmanager
async def leaving_on(
    signals: Collection[signal.Signals], patience_s: float
) -> AsyncIterator[anyio.CancelScope]:
    """Give a scope that the first of these signals cancels; without signals nothing does.

    From the first one on they have their usual force again: a second one ends the process at once,
    whatever it is doing. So does the first when the patience is at its end: a tool in a thread
    cannot be ended, and its run is not to be taken over while it can still act.
    """
    scope = anyio.CancelScope()
    if not signals:
        yield scope
        return
    with anyio.open_signal_receiver(*signals) as received:

        async def listen() -> None:
            async for first in received:
                for number in signals:
                    signal.signal(number, signal.SIG_DFL)
                log.info("Leaving", extra={"action": "leaving", "signal": first.name})
                scope.cancel()
                with anyio.move_on_after(patience_s + GRACE_S):
                    await anext(received)  # one that had come before we took the first
                log.warning("Ends at once", extra={"action": "left", "signal": first.name})
                os.kill(os.getpid(), first)

        async with owned_tasks(listen):
            yield scope
