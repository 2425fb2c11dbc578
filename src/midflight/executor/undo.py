"""Compensation: newest first, one at a time, each on record before it begins.

An undo may be repeated: it has a key of its own. It is tried a few times, and if it cannot be done
the receipt says so with the reason. A crash in the middle loses nothing: the next driver finds the
effect not undone and goes on. An effect in doubt is looked into first, where it can be.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
from msgspec import Struct

from midflight.executor import foreign, values
from midflight.executor.calls import Aborted, Call, Ending, Raised, Returned
from midflight.executor.helping import LookStopped, helper, is_hurried, run_helper
from midflight.executor.left import changed_since, performed
from midflight.executor.lost import may_act_for, may_arrive_for
from midflight.executor.settling import begin_to_settle, end_to_settle
from midflight.executor.undo_child import undo_child
from midflight.kernel import events as e
from midflight.kernel.phases import ENDS, Outcome, Phase
from midflight.kernel.record import Event
from midflight.kernel.state import Attempt, RunState
from midflight.tools.declaration import ChangedSince, Done, NotDone, Tool, find_tool
from midflight.tools.options import EffectRecord

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
    """Return whether an effect is not undone now.

    An effect with ``always_undo`` is undone at every end; the others only when a person cancels
    and does not hurry.
    """
    if effect.release_always:
        at_its_end = state.phase is Phase.RUNNING and not state.pending
        return not (at_its_end or state.phase is Phase.CANCELLING)
    return state.phase is not Phase.CANCELLING or state.cancel_now


# ── what is in doubt ─────────────────────────────────────────────────────────────────────────


async def _look_into_doubts(driver: Driver) -> None:
    """Ask each check that can say what became of an attempt, before anything is done about it."""
    for effect in reversed(list(driver.log.state.effects.values())):
        tool = None if effect.child else find_tool(_started(driver, effect).tool)
        if tool is None or tool.check is None or not _doubted(driver.log.state, effect):
            continue
        outcome, result = await _look_up(driver, effect, tool)
        if outcome is not Outcome.UNKNOWN:
            stored, error = values.storable(effect.name, result, happened=True)
            learned = e.LateOutcome(
                epoch=driver.epoch,
                attempt=effect.position,
                outcome=outcome,
                result=stored,
                error=error,
                how="check",
            )
            await driver.log.settle(learned)


async def _look_up(driver: Driver, effect: Attempt, tool: Tool) -> tuple[Outcome, Any]:
    """Ask the tool's check; if it has not seen the effect, again when nothing can arrive any more.

    A lost worker that may still be at it is not waited for: until it is dead the word is *unknown*.
    """
    assert tool.check is not None
    while _doubted(driver.log.state, effect) and not driver.lost:
        check = helper("check", tool.check, tool)
        told = Call(check, (performed(driver, effect.position, None),), {}, driver.alarms)
        left = may_arrive_for(driver, effect, tool)  # when asked: it may answer long after its look
        outcome, result = _finding(await _run(driver, told, effect))
        if outcome is not Outcome.NOT_DONE or not left:
            return outcome, result
        if may_act_for(driver, effect):
            break
        await begin_to_settle(driver, effect, left)
        with anyio.move_on_after(may_arrive_for(driver, effect, tool)):
            await driver.log.until(lambda: driver.lost or not _doubted(driver.log.state, effect))
        await end_to_settle(driver, effect)
    return Outcome.UNKNOWN, None


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
    """The end of one try at an undo, and whether another try could do better."""

    undone: bool
    why: str = ""
    over: bool = True
    at_work: bool = False  # it would not end, and may still act


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
        at_work=undoing.at_work,
    )
    await driver.log.settle(settled)
    return undoing.over


async def _cancel_child(driver: Driver, effect: Attempt) -> Undoing:
    return Undoing(*await undo_child(driver, effect.child))


async def _touched(driver: Driver, effect: Attempt) -> str:
    """Return the reason why an effect must be left alone, or nothing."""
    tool = None if effect.child else find_tool(_started(driver, effect).tool)
    if tool is None or tool.undo is None or tool.fingerprint is None:
        return ""
    why = ""
    for attempt in range(1, TRIES + 1):
        done, unwanted = await _done(driver, effect), partial(_is_unwanted, driver, effect)
        try:
            return await changed_since(driver, tool, done, unwanted)
        except LookStopped:
            return ""  # then the undo is not wanted either
        except Exception as error:  # noqa: BLE001 - a user's code: what it cannot tell is said so
            why = f"cannot be compared with what it left: {foreign.words(error)}"
            await anyio.sleep(PAUSE_S * attempt)
    return why


async def _done(driver: Driver, effect: Attempt) -> EffectRecord:
    record = driver.replay.outcomes.get(effect.position)
    if record is None:
        return performed(driver, effect.position, None)
    return performed(driver, effect.position, await driver.value(record), record.left)


async def _call(driver: Driver, effect: Attempt) -> Undoing:
    name = _started(driver, effect).tool
    tool = find_tool(name)
    if tool is None or tool.undo is None:
        return Undoing(False, f"no tool {name} with an undo is registered here")
    undo = helper("undo", tool.undo, tool)
    call = Call(undo, (await _done(driver, effect),), {}, driver.alarms)
    match await _run(driver, call, effect):
        case Returned():
            return Undoing(True)
        case Raised(error=ChangedSince() as error):
            why = foreign.words_of(error)
            return Undoing(False, f"changed by others since{f': {why}' if why else ''}")
        case Raised(error=error, left=True, at_work=at_work):
            return Undoing(False, str(error), at_work=at_work)  # no second one beside it
        case Raised(error=error):
            return Undoing(False, foreign.words(error), over=False)
        case Aborted(why=why, left=True, at_work=at_work):
            return Undoing(False, why, at_work=at_work)
        case Aborted():
            return Undoing(False, "it was stopped half-way")


def _started(driver: Driver, effect: Attempt) -> e.AttemptStarted:
    return driver.replay.begun(effect.position).event


async def _run(driver: Driver, call: Call, effect: Attempt) -> Ending:
    """Make a call that a kill ends, and a cancel that does not want the effect undone any more."""
    return await run_helper(driver, call, partial(_is_unwanted, driver, effect))


def _is_unwanted(driver: Driver, effect: Attempt) -> bool:
    state = driver.log.state
    killed = driver.lost and not state.driver  # now; one killed before may well be undone
    return killed or (is_hurried(driver) and not effect.release_always)
