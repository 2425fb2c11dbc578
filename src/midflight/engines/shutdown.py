"""Leaves in good order when the process is told to end, and at once when it is told twice.

A terminal that closes tells its programs with SIGHUP, and may do so several times: the system tells
them, and so does the shell. So SIGHUP never counts as the second time.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final

import anyio

from midflight.tasks import owned_tasks

LEAVING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that every program of ours leaves on: it was ended, Ctrl-C, its terminal closed."""
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

    A SIGHUP that was ignored when the process began, as ``nohup`` does, is ignored here too.
    """
    scope = anyio.CancelScope()
    heard = [number for number in signals if not _is_ignored_hangup(number)]
    if not heard:
        yield scope
        return
    with anyio.open_signal_receiver(*heard) as received:

        async def listen() -> None:
            first = await anext(received)
            for number in heard:
                again = _ignore if number is signal.SIGHUP else signal.SIG_DFL
                signal.signal(number, again)
            log.info("Leaving", extra={"action": "leaving", "signal": first.name})
            scope.cancel()
            with anyio.move_on_after(patience_s + GRACE_S):
                while await anext(received) is signal.SIGHUP:
                    pass  # one that had come before we took the first, and not a second order
            log.warning("Ends at once", extra={"action": "left", "signal": first.name})
            signal.signal(first, signal.SIG_DFL)
            os.kill(os.getpid(), first)

        async with owned_tasks(listen):
            yield scope


def _is_ignored_hangup(number: signal.Signals) -> bool:
    return number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


def _ignore(*_: object) -> None:
    """Do nothing. Unlike ``SIG_IGN`` this is not inherited by programs that we start."""
