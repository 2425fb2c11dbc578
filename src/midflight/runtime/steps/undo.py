"""Compensation: newest first, one at a time, each on record before it begins.

An undo may be repeated: it has a key of its own. It is tried a few times, and if it cannot be done
the receipt says so with the reason. A crash in the middle loses nothing: the next driver finds the
effect not undone and goes on. An effect in doubt is looked into first, where it can be.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import anyio
from msgspec import Struct

from midflight.journal import events as e
from midflight.journal.phases import ENDS, Outcome, Phase
from midflight.journal.record import Event
from midflight.journal.state import Attempt, RunState
from midflight.runtime import foreign, values
from midflight.runtime.children import undo_child
from midflight.runtime.host import Host
from midflight.runtime.steps.bounds import Aborted, Ending, Raised, Returned
from midflight.runtime.steps.side_calls import (
    LookStopped,
    changed_since,
    helper,
    is_hurried,
    performed,
    run_helper,
)
from midflight.runtime.steps.step_recovery import (
    begin_to_settle,
    end_to_settle,
    may_act_for,
    may_arrive_for,
)
from midflight.runtime.steps.tool_call import Call
from midflight.tools.declaration import ChangedSince, Done, NotDone, Tool, find_tool
from midflight.tools.options import EffectRecord

TRIES: Final = 3
PAUSE_S: Final = 0.2


async def compensate(host: Host) -> None:
    """Undo what the run's phase wants undone. Ends early when the run is not ours any more."""
    await _look_into_doubts(host)  # layer in-doubt-checked-first
    while not host.journal.lost:
        effect = next_undo(host.journal.state)
        if effect is None:
            return
        await _undo_for_good(host, effect)


def calls_for_more(host: Host) -> bool:
    """Return whether there may be something to undo, to look into, or to wait for in the end."""
    return any(_calls_for_more(host, effect) for effect in host.journal.state.effects.values())


def _calls_for_more(host: Host, effect: Attempt) -> bool:
    if effect.child or effect.undoable:
        return True
    if effect.outcome not in {None, Outcome.UNKNOWN}:
        return False
    tool = find_tool(_started(host, effect).tool)
    return tool is not None and tool.check is not None


def next_undo(state: RunState) -> Attempt | None:
    """The newest effect that is to be undone now."""
    able = [effect for effect in state.effects.values() if _wanted(state, effect)]
    return max(able, key=lambda effect: effect.position, default=None)  # layer newest-effect-undone


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


async def _look_into_doubts(host: Host) -> None:
    """Ask each check that can say what became of an attempt, before anything is done about it."""
    for effect in reversed(list(host.journal.state.effects.values())):
        tool = None if effect.child else find_tool(_started(host, effect).tool)
        if tool is None or tool.check is None or not _doubted(host.journal.state, effect):
            continue
        outcome, result = await _look_up(host, effect, tool)
        if outcome is not Outcome.UNKNOWN:
            # layer check-result-cannot-stored-fails
            stored, error = values.storable(effect.name, result, happened=True)
            learned = e.LateOutcome(
                epoch=host.journal.epoch,
                attempt=effect.position,
                outcome=outcome,
                result=stored,
                error=error,
                how="check",
            )
            await host.journal.settle(learned)


async def _look_up(host: Host, effect: Attempt, tool: Tool) -> tuple[Outcome, Any]:
    """Ask the tool's check; if it has not seen the effect, again when nothing can arrive any more.

    A lost worker that may still be at it is not waited for: until it is dead the word is *unknown*.
    """
    assert tool.check is not None
    while _doubted(host.journal.state, effect) and not host.journal.lost:
        check = helper("check", tool.check, tool)
        told = Call(check, (performed(host, effect.position, None),), {}, host.alarms)
        left = may_arrive_for(host, effect, tool)  # when asked: it may answer long after its look
        outcome, result = _finding(await _run(host, told, effect))
        if outcome is not Outcome.NOT_DONE or not left:  # layer crash-lost-worker-may-still-do
            return outcome, result
        if may_act_for(host, effect):
            break
        await begin_to_settle(host, effect, left)
        with anyio.move_on_after(may_arrive_for(host, effect, tool)):
            await host.journal.until(
                lambda: host.journal.lost or not _doubted(host.journal.state, effect)
            )
        await end_to_settle(host, effect)
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


async def undo_now(host: Host, effect: Attempt) -> None:
    """Undo one effect in the middle of a run, because a person wants something else instead."""
    await _undo_for_good(host, effect, lambda s, a: s.phase is Phase.RUNNING and a.can_be_undone)


async def _undo_for_good(host: Host, effect: Attempt, wanted: Wanted = _wanted) -> None:
    """Try until it is undone, cannot be, or is not wanted any more."""
    log = host.journal
    for attempt in range(1, TRIES + 1):
        if attempt > 1:
            with anyio.move_on_after(PAUSE_S * (attempt - 1)):
                await log.until(lambda: host.journal.lost or not wanted(log.state, effect))
        if await _undo(host, effect, final=attempt == TRIES, wanted=wanted):
            return


async def _undo(host: Host, effect: Attempt, *, final: bool, wanted: Wanted = _wanted) -> bool:
    """Try once. True when there is nothing more to try.

    An effect that others have changed since is settled in the append that begins its undo: nothing
    is called, and no crash can fall between. Once an undo was begun it may have changed something
    itself, so then it is repeated without a look.
    """
    touched = "" if effect.position in host.history.undoing else await _touched(host, effect)

    def begin(state: RunState) -> list[Event]:
        # layer undoing-wanted-or-not-at-moment
        if host.journal.lost or state.undos or not wanted(state, state.effects[effect.position]):
            return []
        epoch, key, undo = host.journal.epoch, f"{effect.key}:undo", state.head + 1
        started = e.UndoStarted(epoch=epoch, effect=effect.position, idempotency_key=key)
        left_alone = e.UndoSettled(epoch=epoch, undo=undo, undone=False, why=touched)
        return [started, left_alone] if touched else [started]

    written = await host.journal.decide(begin)
    if not written or touched:
        return True
    undoing = await (_cancel_child if effect.child else _call)(host, effect)
    settled = e.UndoSettled(
        epoch=host.journal.epoch,
        undo=written[-1].position,
        undone=undoing.undone,
        why=undoing.why,
        final=undoing.over or final,
        at_work=undoing.at_work,
    )
    await host.journal.settle(settled)
    return undoing.over


async def _cancel_child(host: Host, effect: Attempt) -> Undoing:
    return Undoing(*await undo_child(host, effect.child))


async def _touched(host: Host, effect: Attempt) -> str:
    """Return the reason why an effect must be left alone, or nothing."""
    tool = None if effect.child else find_tool(_started(host, effect).tool)
    if tool is None or tool.undo is None or tool.fingerprint is None:
        return ""
    why = ""
    for attempt in range(1, TRIES + 1):
        done, unwanted = await _done(host, effect), partial(_is_unwanted, host, effect)
        try:
            return await changed_since(host, tool, done, unwanted)
        except LookStopped:
            return ""  # then the undo is not wanted either
        except Exception as error:  # noqa: BLE001 - a user's code: what it cannot tell is said so
            why = f"cannot be compared with what it left: {foreign.words(error)}"
            await anyio.sleep(PAUSE_S * attempt)
    return why


async def _done(host: Host, effect: Attempt) -> EffectRecord:
    record = host.history.outcomes.get(effect.position)
    if record is None:
        return performed(host, effect.position, None)
    return performed(
        host, effect.position, values.decode(await host.journal.raw(record)), record.left
    )


async def _call(host: Host, effect: Attempt) -> Undoing:
    name = _started(host, effect).tool
    tool = find_tool(name)
    if tool is None or tool.undo is None:
        return Undoing(False, f"no tool {name} with an undo is registered here")
    undo = helper("undo", tool.undo, tool)
    call = Call(undo, (await _done(host, effect),), {}, host.alarms)
    match await _run(host, call, effect):
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


def _started(host: Host, effect: Attempt) -> e.AttemptStarted:
    return host.history.begun(effect.position).event


async def _run(host: Host, call: Call, effect: Attempt) -> Ending:
    """Make a call that a kill ends, and a cancel that does not want the effect undone any more."""
    return await run_helper(host, call, partial(_is_unwanted, host, effect))


def _is_unwanted(host: Host, effect: Attempt) -> bool:
    state = host.journal.state
    killed = host.journal.lost and not state.driver  # now; one killed before may well be undone
    return killed or (is_hurried(host) and not effect.release_always)
