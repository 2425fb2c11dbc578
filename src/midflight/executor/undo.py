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
from midflight.executor.children import undo_child
from midflight.kernel import events as e
from midflight.kernel.phases import Outcome, Phase
from midflight.kernel.record import NULL, Event
from midflight.kernel.state import Attempt, RunState
from midflight.tools.base import REGISTRY, ChangedSince, Done, NotDone, Performed, Tool
from midflight.tools.secret import from_stored

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

TRIES: Final = 3
PAUSE_S: Final = 0.2


async def compensate(driver: Driver, *, only_releases: bool = False) -> None:
    """Undo what can be undone. Ends early when the run is not ours any more."""
    while not driver.lost:
        effect = _next(driver, only_releases or driver.log.state.cancel_now)
        if effect is None:
            return
        if effect.outcome is Outcome.UNKNOWN and effect.position not in driver.looked_up:
            await _find_out(driver, effect)
        if effect.can_be_undone:
            await undo_one(driver, effect)


async def undo_one(driver: Driver, effect: Attempt) -> None:
    """Undo one effect, trying a few times."""
    for attempt in range(1, TRIES + 1):
        if await _undo(driver, effect, final=attempt == TRIES):
            return
        await anyio.sleep(PAUSE_S * attempt)


def _next(driver: Driver, only_releases: bool) -> Attempt | None:
    state = driver.log.state
    wanted = state.undo_wanted if state.phase not in {Phase.CANCELLING, Phase.RUNNING} else None
    able = [
        effect
        for effect in state.effects.values()
        if effect.can_be_undone
        and (effect.undone is None or (wanted is not None and effect.position in wanted))
        and (effect.release_always or not only_releases)
        and (wanted is None or effect.position in wanted)
        and (not effect.child or state.cancel_tree)
    ]
    return max(able, key=lambda effect: effect.position, default=None)


async def _find_out(driver: Driver, effect: Attempt) -> None:
    """Nobody knows whether it happened: ask its check, before undoing what may not be there."""
    begun = driver.replay.begun(effect.position).event
    tool = REGISTRY.get(begun.tool)
    driver.looked_up.add(effect.position)
    if tool is None or tool.check is None:
        return
    ending = await Call(helper(tool.check), (_performed(begun, None),), {}).run()
    learned: tuple[Outcome, Any] | None = None
    match ending:
        case Returned(value=Done(result=result)):
            learned = Outcome.DONE, values.encode(effect.name, "its result", result)
        case Returned(value=NotDone()) | Raised(error=NotDone()):
            learned = Outcome.NOT_DONE, NULL
        case _:
            pass
    if learned is not None:
        outcome, result = learned
        late = e.LateOutcome(
            epoch=driver.epoch,
            attempt=effect.position,
            outcome=outcome,
            result=result,
            how="check",
        )
        await driver.log.settle(late)


async def _undo(driver: Driver, effect: Attempt, *, final: bool) -> bool:
    """Try once. True when there is nothing more to try."""

    def begin(state: RunState) -> list[Event]:
        skips = state.cancel_now and not effect.release_always
        able = state.effects[effect.position].can_be_undone and not state.undos
        if driver.lost or not able or (state.phase is Phase.CANCELLING and skips):
            return []
        key = f"{effect.key}:undo"
        return [e.UndoStarted(epoch=driver.epoch, effect=effect.position, idempotency_key=key)]

    written = await driver.log.decide(begin)
    if not written:
        return True
    if effect.child:
        undone, why = await undo_child(driver, effect.child)
        over = True
    else:
        undone, why, over = await _call(driver, effect)
    settled = e.UndoSettled(
        epoch=driver.epoch,
        undo=written[-1].position,
        undone=undone,
        why=why,
        final=undone or over or final,
    )
    await driver.log.settle(settled)
    return undone or over


async def _call(driver: Driver, effect: Attempt) -> tuple[bool, str, bool]:
    """Whether it is undone, if not why, and whether trying again is pointless."""
    begun = driver.replay.begun(effect.position).event
    tool = REGISTRY.get(begun.tool)
    if tool is None or tool.undo is None:
        return False, f"no tool {begun.tool} with an undo is registered here", True
    result = None
    if effect.outcome is Outcome.DONE:
        result = await driver.value(driver.replay.outcomes[effect.position])
    ending = await Call(helper(tool.undo), (_performed(begun, result),), {}).run()
    match ending:
        case Returned():
            return True, "", True
        case Raised(error=ChangedSince() as error):
            return False, f"changed by others since{f': {error}' if str(error) else ''}", True
        case Raised(error=error):
            return False, f"{type(error).__name__}: {error}", False
        case _:
            return False, "it was stopped", False


def _performed(begun: e.AttemptStarted, result: Any) -> Performed:
    given = from_stored(values.decode(begun.input) or {})
    return Performed(begun.idempotency_key, given.get("args", []), given.get("kwargs", {}), result)


def helper(function: Any) -> Tool:
    """A check or an undo, callable like a tool."""
    is_async = inspect.iscoroutinefunction(function)
    return Tool(name="helper", function=function, runs="async" if is_async else "thread")
