"""The look of what an effect leaves behind: right after it, and again before it is undone.

If it looks different then, others have changed it, and their work is not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Raw

from midflight.executor import values
from midflight.executor.helping import look
from midflight.executor.host import Host
from midflight.guards import Fingerprint
from midflight.kernel.phases import Phase
from midflight.tools.base import EffectRecord, Tool
from midflight.tools.secret import from_stored

LOOK_S: Final = 10.0
HURRY_S: Final = 1.0  # what a look has in a run that is to end at once
UNSEEN: Final = "?"  # the tool says what it leaves, and that could not be seen


def performed(host: Host, attempt: int, result: object, left: str = "") -> EffectRecord:
    """Return the record of an attempt for its undo, its check or a look."""
    begun = host.history.begun(attempt).event
    given = from_stored(values.decode(begun.input) or {})
    args, kwargs = given.get("args", []), given.get("kwargs", {})
    return EffectRecord(begun.idempotency_key, args, kwargs, result, left)


async def fingerprint(host: Host, tool: Tool, attempt: int, result: Raw) -> str:
    """Return how the thing that an effect has just made looks; empty if its tool does not say."""
    if tool.leaves is None:
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
    if tool.leaves is None or not done.left:
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
    assert tool.leaves is not None
    seen: str = await look(
        host,
        partial(Fingerprint(tool.name, partial(tool.leaves, done)).look, 0.0),
        within=LOOK_S,
        stops_within=tool.stops_within,
        too_late=f"what it left could not be seen within {LOOK_S:g} s",
        is_unwanted=is_unwanted,
        patience=patience,
    )
    return seen
