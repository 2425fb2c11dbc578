"""The look of what an effect leaves behind: right after it, and again before it is undone.

If it looks different then, others have changed it, and their work is not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Raw

from midflight.executor import values
from midflight.executor.helping import look
from midflight.guards import Fingerprint
from midflight.kernel.phases import Phase
from midflight.tools.declaration import Tool
from midflight.tools.options import EffectRecord
from midflight.tools.secret import from_stored

if TYPE_CHECKING:
    from midflight.executor.drive import Driver
    from midflight.executor.steps import Step

LOOK_S: Final = 10.0
HURRY_S: Final = 1.0  # what a look has in a run that is to end at once
UNSEEN: Final = "?"  # the tool says what it leaves, and that could not be seen


def performed(driver: Driver, attempt: int, result: object, left: str = "") -> EffectRecord:
    """Return the record of an attempt for its undo, its check or a look."""
    begun = driver.replay.begun(attempt).event
    given = from_stored(values.decode(begun.input) or {})
    args, kwargs = given.get("args", []), given.get("kwargs", {})
    return EffectRecord(begun.idempotency_key, args, kwargs, result, left)


async def fingerprint(step: Step, attempt: int, result: Raw) -> str:
    """Return how the thing that an effect has just made looks; empty if its tool does not say."""
    if step.tool.fingerprint is None:
        return ""
    try:
        done = performed(step.driver, attempt, values.decode(result))
        return await _look(step.driver, step.tool, done, _is_cancelled_now(step), HURRY_S)
    except Exception:  # noqa: BLE001 - a user's code: the effect is done all the same
        return UNSEEN


def _is_cancelled_now(step: Step) -> Callable[[], bool]:
    """Return a test for a cancel in a hurry. A kill does not count: an undo may follow later."""
    log = step.driver.log
    return lambda: log.state.phase is Phase.CANCELLING and log.state.cancel_now


async def changed_since(
    driver: Driver, tool: Tool, done: EffectRecord, is_unwanted: Callable[[], bool]
) -> str:
    """In words why it must not be touched. Raises if that cannot be told now."""
    if tool.fingerprint is None or not done.left:
        return ""
    if done.left == UNSEEN:
        return "what it left could not be seen then, so nobody knows whether it has changed"
    return (
        ""
        if await _look(driver, tool, done, is_unwanted) == done.left
        else "changed by others since"
    )


async def _look(
    driver: Driver,
    tool: Tool,
    done: EffectRecord,
    is_unwanted: Callable[[], bool],
    patience: float = 0.0,
) -> str:
    assert tool.fingerprint is not None
    seen: str = await look(
        driver,
        partial(Fingerprint(tool.name, partial(tool.fingerprint, done)).look, 0.0),
        within=LOOK_S,
        stops_within=tool.stops_within,
        too_late=f"what it left could not be seen within {LOOK_S:g} s",
        is_unwanted=is_unwanted,
        patience=patience,
    )
    return seen
