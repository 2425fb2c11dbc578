"""Calls beside a step: undos, checks, and looks at what an effect left. All are bounded in time.

A blocking call runs in a thread, which nobody can end. When its time is over the driver stops
waiting, and its record says that the call may still be at work.

The look of what an effect leaves is taken right after it, and again before it is undone. If it
looks different then, others have changed it, and their work is not touched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel
from msgspec import Raw

from midflight.guards import Fingerprint
from midflight.journal.phases import Effect, Phase
from midflight.runtime import values
from midflight.runtime.foreign import Unknowable, words
from midflight.runtime.host import Host
from midflight.runtime.steps.bounds import Aborted, Ending, Raised, Returned
from midflight.runtime.steps.tool_call import Call
from midflight.tools.declaration import Tool, runs_of
from midflight.tools.options import EffectRecord
from midflight.tools.secret import from_stored

LOOK_S: Final = 10.0
HURRY_S: Final = 1.0  # seconds for a look in a run that is to end at once
UNSEEN: Final = "?"  # the tool says what it leaves, and that could not be seen


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
            tasks.start_soon(abort)  # layer undo-under-way-hears-hurried
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


def performed(host: Host, attempt: int, result: object, left: str = "") -> EffectRecord:
    """Return the record of an attempt for its undo, its check or a look."""
    begun = host.history.begun(attempt).event
    given = from_stored(values.decode(begun.input) or {})
    args, kwargs = given.get("args", []), given.get("kwargs", {})
    return EffectRecord(begun.idempotency_key, args, kwargs, result, left)


async def fingerprint(host: Host, tool: Tool, attempt: int, result: Raw) -> str:
    """Return how the thing that an effect has just made looks; empty if its tool does not say."""
    if tool.fingerprint is None:
        return ""
    try:
        done = performed(host, attempt, values.decode(result))
        return await _look(host, tool, done, _is_cancelled_now(host), HURRY_S)
    except Exception:  # noqa: BLE001 - a user's code: the effect is done all the same
        return UNSEEN


def _is_cancelled_now(host: Host) -> Callable[[], bool]:
    """Return a test for a cancel in a hurry. A kill does not count: an undo may follow later."""
    journal = host.journal
    return lambda: journal.state.phase is Phase.CANCELLING and journal.state.cancel_now


async def changed_since(
    host: Host, tool: Tool, done: EffectRecord, is_unwanted: Callable[[], bool]
) -> str:
    """In words why it must not be touched. Raises if that cannot be told now."""
    if tool.fingerprint is None or not done.left:
        return ""
    if done.left == UNSEEN:
        return "what it left could not be seen then, so nobody knows whether it has changed"
    return (
        "" if await _look(host, tool, done, is_unwanted) == done.left else "changed by others since"
    )


async def _look(
    host: Host,
    tool: Tool,
    done: EffectRecord,
    is_unwanted: Callable[[], bool],
    patience: float = 0.0,
) -> str:
    assert tool.fingerprint is not None
    seen: str = await look(
        host,
        partial(Fingerprint(tool.name, partial(tool.fingerprint, done)).look, 0.0),
        within=LOOK_S,
        stops_within=tool.stops_within,
        too_late=f"what it left could not be seen within {LOOK_S:g} s",
        is_unwanted=is_unwanted,
        patience=patience,
    )
    return seen
