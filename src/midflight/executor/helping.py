"""Calls undos and checks as tools are called, and waits for them so long and no longer.

A blocking one runs in a thread, which nobody can end. After its time nobody waits for it either,
and what is said about it then says that it may still be at work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel

from midflight.executor.calls import Aborted, Call, Ending, Raised, Returned
from midflight.executor.foreign import Unknowable, words
from midflight.executor.host import Host
from midflight.kernel.phases import Effect, Phase
from midflight.tools.base import Tool, runs_of


class LookStopped(Exception):
    """Raised when nobody wants to know any more how something looks."""


def helper(name: str, function: Callable[..., Any], of: Tool) -> Tool:
    """An undo or a check of a tool, as a tool that has as much time as that."""
    return Tool(
        name=name,
        function=function,
        effect=Effect.READ,
        runs=runs_of(function),
        timeout=of.timeout,
        stops_within=of.stops_within,
    )


async def call_apart(call: Call) -> Ending:
    """Make a call in a task of its own, which ends with it.

    A function that has to be left behind leaves its cancel scopes open in the task that called it.
    """
    endings: list[Ending] = []

    async def make() -> None:
        endings.append(await call.run())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make)
    return endings[0]


async def run_helper(
    host: Host, call: Call, is_unwanted: Callable[[], bool], patience: float = 0.0
) -> Ending:
    """Make a call that is told to end when this process ends, or once it is unwanted.

    Then it has so many seconds of ``patience`` to end by itself.
    """

    async def abort() -> None:
        await host.journal.until(is_unwanted)
        await anyio.sleep(patience)
        while not call.running:  # it begins in a moment, or has ended and we are cancelled
            await anyio.lowlevel.checkpoint()
        call.abort("stopped", hurry=True)

    with host.in_flight.helping(call):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(abort)
            ending = await call_apart(call)
            tasks.cancel_scope.cancel()
    return ending


def is_hurried(host: Host) -> bool:
    """Return whether the run is to end at once: it was killed, or cancelled with ``now``."""
    state = host.journal.state
    killed = host.journal.lost and not state.driver
    return killed or (state.phase is Phase.CANCELLING and state.cancel_now)


async def look(
    host: Host,
    see: Callable[[], Awaitable[Any]],
    *,
    within: float,
    stops_within: float,
    too_late: str,
    is_unwanted: Callable[[], bool] | None = None,
    patience: float = 0.0,
) -> Any:
    """Return what code of others sees. It only looks, so it may be left behind.

    Raises what that code raises, as an ordinary ``Exception``; ``TimeoutError(too_late)`` if it has
    seen nothing ``within`` so many seconds; ``LookStopped`` once it is unwanted. A caller that is
    cancelled meanwhile waits ``stops_within`` seconds for its end, and no longer.
    """
    looking = Tool(
        name="look",
        function=see,
        effect=Effect.READ,
        runs="async",
        timeout=within,
        stops_within=stops_within,
    )
    call = Call(looking, (), {}, host.alarms)
    unwanted = is_unwanted or (lambda: is_hurried(host))
    if unwanted() and not patience:
        raise LookStopped
    endings: list[Ending] = []

    async def make(ended: anyio.Event) -> None:
        with anyio.CancelScope(shield=True):  # or anyio would cancel a deaf one again and again
            endings.append(await run_helper(host, call, unwanted, patience))
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make, ended := anyio.Event())
        try:
            await ended.wait()
        finally:
            call.abort("not waited for any more", hurry=True)
    match endings[0]:
        case Returned(value=value):
            return value
        case Raised() if call.timed_out:
            raise TimeoutError(too_late)
        case Raised(error=Exception() as error):
            raise error
        case Raised(error=error):
            raise Unknowable(words(error)) from error
        case Aborted():
            raise LookStopped
