"""Compensation: newest first, one at a time, each on record before it begins.

An undo may be repeated: it has a key of its own. It is tried a few times, and what cannot be undone
is said so in the receipt with the reason. A crash in the middle loses nothing: the next driver
finds the effect not undone and goes on.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import anyio

from midflight.executor import values
from midflight.executor.calls import Call, Raised, Returned
from midflight.kernel import events as e
from midflight.kernel.phases import Outcome, Phase
from midflight.kernel.record import Event
from midflight.kernel.state import Attempt, RunState
from midflight.tools.base import REGISTRY, ChangedSince, Performed, Tool

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

TRIES: Final = 3
PAUSE_S: Final = 0.2


async def compensate(driver: Driver, *, only_releases: bool = False) -> None:
    """Undo what can be undone. Ends early when the run is not ours any more, or is held."""
    while True:
        effect = _next(driver, only_releases)
        if effect is None or not _may_undo(driver):
            return
        for attempt in range(1, TRIES + 1):
            if await _undo(driver, effect, final=attempt == TRIES):
                break
            await anyio.sleep(PAUSE_S * attempt)


def _may_undo(driver: Driver) -> bool:
    held = driver.log.state.phase in {Phase.PAUSING, Phase.PAUSED, Phase.WAITING}
    return not held and not driver.lost


def _next(driver: Driver, only_releases: bool) -> Attempt | None:
    state = driver.log.state
    able = [
        effect
        for effect in state.effects.values()
        if effect.can_be_undone
        and effect.undone is None
        and not effect.child
        and not _skipped(state, effect)
        and (effect.release_always or not only_releases)
    ]
    return max(able, key=lambda effect: effect.position, default=None)


def _skipped(state: RunState, effect: Attempt) -> bool:
    return state.phase is Phase.CANCELLING and state.cancel_now and not effect.release_always


async def _undo(driver: Driver, effect: Attempt, *, final: bool) -> bool:
    """Try once. True when there is nothing more to try."""
    started = driver.replay.started(effect.position)
    tool = REGISTRY.get(started.tool)

    def begin(state: RunState) -> list[Event]:
        if not _may_undo(driver) or state.undos:
            return []
        if not state.effects[effect.position].can_be_undone or _skipped(state, effect):
            return []
        key = f"{effect.key}:undo"
        return [e.UndoStarted(epoch=driver.epoch, effect=effect.position, idempotency_key=key)]

    written = await driver.log.decide(begin)
    if not written:
        return True
    undone, why, over = await _call(driver, effect, started, tool)
    settled = e.UndoSettled(
        epoch=driver.epoch,
        undo=written[-1].position,
        undone=undone,
        why=why,
        final=undone or over or final,
    )
    await driver.log.settle(settled)
    return undone or over


async def _call(
    driver: Driver, effect: Attempt, started: e.AttemptStarted, tool: Tool | None
) -> tuple[bool, str, bool]:
    """Whether it is undone, if not why, and whether trying again is pointless."""
    if tool is None or tool.undo is None:
        return False, f"no tool {started.tool} with an undo is registered here", True
    given = values.decode(started.input) or {}
    result = None
    if effect.outcome is Outcome.DONE:
        record = driver.replay.records.get(started.step)
        result = await driver.value(record) if record is not None else None
    about = Performed(effect.key, given.get("args", []), given.get("kwargs", {}), result)
    ending = await Call(_as_tool(tool.undo), (about,), {}).run()
    match ending:
        case Returned():
            return True, "", True
        case Raised(error=ChangedSince() as error):
            return False, f"changed by others since{f': {error}' if str(error) else ''}", True
        case Raised(error=error):
            return False, f"{type(error).__name__}: {error}", False
        case _:
            return False, "it was stopped", False


def _as_tool(function: Any) -> Tool:

    is_async = inspect.iscoroutinefunction(function)
    return Tool(name="undo", function=function, runs="async" if is_async else "thread")
