"""Compensation: newest first, one at a time, each on record before it begins.

An undo may be repeated: it has a key of its own. It is tried a few times, and what cannot be undone
is said so in the receipt with the reason. A crash in the middle loses nothing: the next driver
finds the effect not undone and goes on. What is in doubt is looked into first, where it can be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import anyio
from msgspec import Struct

from midflight.executor import values
from midflight.executor.calls import Aborted, Call, Ending, Raised, Returned
from midflight.executor.helping import StillAtWork, helper
from midflight.executor.left import changed_since, performed
from midflight.executor.lost import may_act_for
from midflight.executor.undo_child import undo_child
from midflight.kernel import events as e
from midflight.kernel.phases import ENDS, Outcome, Phase
from midflight.kernel.record import Event
from midflight.kernel.state import Attempt, RunState
from midflight.tools.base import REGISTRY, ChangedSince, Done, NotDone, Performed
from midflight.tools.secret import hide

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

TRIES: Final = 3
PAUSE_S: Final = 0.2


async def compensate(driver: Driver) -> None:
    """Undo what the run's phase wants undone. Ends early when the run is not ours any more."""
    await _look_into_doubts(driver)
    while not driver.lost:
        effect = next_undo(driver.log.state)
        if effect is None:
            return
        await _undo_for_good(driver, effect)


def next_undo(state: RunState) -> Attempt | None:
    """The newest effect that is to be undone now."""
    able = [effect for effect in state.effects.values() if _wanted(state, effect)]
    return max(able, key=lambda effect: effect.position, default=None)


def _wanted(state: RunState, effect: Attempt) -> bool:
    if not effect.can_be_undone or state.repeated(effect):
        return False
    if state.phase in ENDS:
        return effect.position in state.undo_wanted
    left_alone = effect.child and not state.cancel_tree
    return effect.undone is None and not left_alone and not _skipped(state, effect)


def _skipped(state: RunState, effect: Attempt) -> bool:
    """What must go at every end goes; the rest only when a person cancels and does not hurry."""
    if effect.release_always:
        at_its_end = state.phase is Phase.RUNNING and not state.pending
        return not (at_its_end or state.phase is Phase.CANCELLING)
    return state.phase is not Phase.CANCELLING or state.cancel_now


# ── what is in doubt ─────────────────────────────────────────────────────────────────────────


async def _look_into_doubts(driver: Driver) -> None:
    """Whoever can say what became of an attempt is asked, before anything is done about it."""
    for effect in reversed(list(driver.log.state.effects.values())):
        tool = None if effect.child else REGISTRY.get(_started(driver, effect).tool)
        if tool is None or tool.check is None or not _doubted(driver.log.state, effect):
            continue
        check = helper("check", tool.check, tool.timeout)
        told = Call(check, (performed(driver, effect.position, None),), {}, driver.alarms)
        too_early = may_act_for(driver, effect) > 0  # for a "not done" to prove anything
        outcome, result = _finding(await _run(driver, told, effect))
        early = outcome is Outcome.NOT_DONE and too_early
        if outcome is not Outcome.UNKNOWN and not early:
            stored, error = values.storable(effect.name, result)
            learned = e.LateOutcome(
                epoch=driver.epoch,
                attempt=effect.position,
                outcome=outcome,
                result=stored,
                error=error,
                how="check",
            )
            await driver.log.settle(learned)


def _doubted(state: RunState, effect: Attempt) -> bool:
    if effect.outcome is not Outcome.UNKNOWN or effect.undone is not None:
        return False
    if state.phase in ENDS:
        return effect.position in state.undo_wanted
    return state.phase is Phase.CANCELLING and not state.cancel_now


def _finding(ending: Ending) -> tuple[Outcome, Any]:
    match ending:
        case Returned(value=Done(result=result)):
            return Outcome.DONE, result
        case Returned(value=NotDone()) | Raised(error=NotDone()):
            return Outcome.NOT_DONE, None
        case _:
            return Outcome.UNKNOWN, None


# ── undoing ──────────────────────────────────────────────────────────────────────────────────


class Undoing(Struct, frozen=True):
    """How one try at an undo ended, and whether another could do better."""

    undone: bool
    why: str = ""
    over: bool = True


Wanted = Callable[[RunState, Attempt], bool]


async def undo_now(driver: Driver, effect: Attempt) -> None:
    """Undo one effect in the middle of a run, because a person wants something else instead."""
    await _undo_for_good(driver, effect, lambda s, a: s.phase is Phase.RUNNING and a.can_be_undone)


async def _undo_for_good(driver: Driver, effect: Attempt, wanted: Wanted = _wanted) -> None:
    """Try until it is undone, cannot be, or is not wanted any more."""
    log = driver.log
    for attempt in range(1, TRIES + 1):
        if attempt > 1:
            with anyio.move_on_after(PAUSE_S * (attempt - 1)):
                await log.until(lambda: driver.lost or not wanted(log.state, effect))
        if await _undo(driver, effect, final=attempt == TRIES, wanted=wanted):
            return


async def _undo(driver: Driver, effect: Attempt, *, final: bool, wanted: Wanted = _wanted) -> bool:
    """Try once. True when there is nothing more to try.

    What others have changed since is settled in the append that begins: nothing is called, and no
    crash falls between. Once an undo was begun it may have changed something itself, so then it is
    repeated without a look.
    """
    touched = "" if effect.position in driver.replay.undoing else await _touched(driver, effect)

    def begin(state: RunState) -> list[Event]:
        if driver.lost or state.undos or not wanted(state, state.effects[effect.position]):
            return []
        epoch, key, undo = driver.epoch, f"{effect.key}:undo", state.head + 1
        started = e.UndoStarted(epoch=epoch, effect=effect.position, idempotency_key=key)
        left_alone = e.UndoSettled(epoch=epoch, undo=undo, undone=False, why=touched)
        return [started, left_alone] if touched else [started]

    written = await driver.log.decide(begin)
    if not written or touched:
        return True
    undoing = await (_cancel_child if effect.child else _call)(driver, effect)
    settled = e.UndoSettled(
        epoch=driver.epoch,
        undo=written[-1].position,
        undone=undoing.undone,
        why=undoing.why,
        final=undoing.over or final,
    )
    await driver.log.settle(settled)
    return undoing.over


async def _cancel_child(driver: Driver, effect: Attempt) -> Undoing:
    return Undoing(*await undo_child(driver, effect.child))


async def _touched(driver: Driver, effect: Attempt) -> str:
    """Why it must be left alone, if it must."""
    tool = None if effect.child else REGISTRY.get(_started(driver, effect).tool)
    if tool is None or tool.undo is None or tool.leaves is None:
        return ""
    why = ""
    for attempt in range(1, TRIES + 1):
        compare = helper("look", changed_since, tool.timeout)
        look = Call(compare, (tool, await _done(driver, effect)), {}, driver.alarms)
        match await _run(driver, look, effect):
            case Returned(value=str(words)):
                return words
            case Raised(error=error):
                why = f"cannot be compared with what it left: {type(error).__name__}: {error}"
                await anyio.sleep(PAUSE_S * attempt)
            case _:
                return ""  # stopped: then it is not wanted either
    return why


async def _done(driver: Driver, effect: Attempt) -> Performed:
    record = driver.replay.outcomes.get(effect.position)
    if record is None:
        return performed(driver, effect.position, None)
    return performed(driver, effect.position, await driver.value(record), record.left)


async def _call(driver: Driver, effect: Attempt) -> Undoing:
    name = _started(driver, effect).tool
    tool = REGISTRY.get(name)
    if tool is None or tool.undo is None:
        return Undoing(False, f"no tool {name} with an undo is registered here")
    undo = helper("undo", tool.undo, tool.timeout)
    call = Call(undo, (await _done(driver, effect),), {}, driver.alarms)
    match await _run(driver, call, effect):
        case Returned():
            return Undoing(True)
        case Raised(error=ChangedSince() as error):
            why = hide(str(error))
            return Undoing(False, f"changed by others since{f': {why}' if why else ''}")
        case Raised(error=StillAtWork() as error):
            return Undoing(False, str(error))  # a second one beside it could only do harm
        case Raised(error=error):
            return Undoing(False, values.words(error), over=False)
        case Aborted():
            return Undoing(False, "it was stopped half-way")


def _started(driver: Driver, effect: Attempt) -> e.AttemptStarted:
    return driver.replay.begun(effect.position).event


async def _run(driver: Driver, call: Call, effect: Attempt) -> Ending:
    """Make a call that a kill ends, and a person who says that it shall not be undone at all."""

    def unwanted() -> bool:
        state = driver.log.state
        hurried = state.phase is Phase.CANCELLING and state.cancel_now
        killed = driver.lost and not state.driver  # now; one killed before may well be undone
        return killed or (hurried and not effect.release_always)

    async def abort() -> None:
        await driver.log.until(unwanted)
        call.abort("stopped")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(abort)
        ending = await call.run()
        tasks.cancel_scope.cancel()
    return ending
