"""What an effect leaves behind: seen right after it, and again before it is undone.

If it looks different then, others have been there, and their work is not touched.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from msgspec import Raw

from midflight.executor import values
from midflight.guards import Fingerprint
from midflight.tools.base import Performed, Tool
from midflight.tools.secret import from_stored

if TYPE_CHECKING:
    from midflight.executor.drive import Driver
    from midflight.executor.steps import Step

LOOK_S: Final = 10.0
UNSEEN: Final = "?"  # the tool says what it leaves, and that could not be seen


def performed(driver: Driver, attempt: int, result: object, left: str = "") -> Performed:
    """What an undo, a check or a look is told about an attempt: as it is on record."""
    begun = driver.replay.begun(attempt).event
    given = from_stored(values.decode(begun.input) or {})
    args, kwargs = given.get("args", []), given.get("kwargs", {})
    return Performed(begun.idempotency_key, args, kwargs, result, left)


async def fingerprint(step: Step, attempt: int, result: Raw) -> str:
    """How what the effect has just made looks; empty for a tool that does not say."""
    if step.tool.leaves is None:
        return ""
    try:
        return await _look(step.tool, performed(step.driver, attempt, values.decode(result)))
    except Exception:  # noqa: BLE001 - a user's code: the effect is done all the same
        return UNSEEN


async def changed_since(tool: Tool, done: Performed) -> str:
    """In words why it must not be touched. Raises if that cannot be told now."""
    if tool.leaves is None or not done.left:
        return ""
    if done.left == UNSEEN:
        return "what it left could not be seen then, so nobody knows whether it has changed"
    return "" if await _look(tool, done) == done.left else "changed by others since"


async def _look(tool: Tool, done: Performed) -> str:
    assert tool.leaves is not None
    with anyio.move_on_after(LOOK_S):
        return await Fingerprint(tool.name, partial(tool.leaves, done)).look(0.0)
    raise TimeoutError(f"what it left could not be seen within {LOOK_S:g} s")
