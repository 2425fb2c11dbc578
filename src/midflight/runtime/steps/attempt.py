"""Does a step: a read until it is on record, an effect attempt by attempt.

The rules in one sentence each: nothing starts while anything holds the run; an effect on the world
is on record before its first line; after the record comes one more look, without an await, before
that line; an attempt that ended without a known outcome is checked or asked about, never guessed
and never silently repeated.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from msgspec import Raw

from midflight.errors import CorruptEntry, IllegalEvent, StepFailed
from midflight.inputs import steady
from midflight.journal import events as e
from midflight.journal.phases import Effect, Outcome
from midflight.journal.record import NULL, Event, Fact
from midflight.journal.state import RunState
from midflight.run import Redirected
from midflight.runtime import foreign, values
from midflight.runtime.run_journal import Choose
from midflight.runtime.steps import repeats, step_recovery
from midflight.runtime.steps.bounds import Aborted, Ending, Raised, Returned
from midflight.runtime.steps.budget import tell_if_uncounted
from midflight.runtime.steps.preconditions import permitted
from midflight.runtime.steps.side_calls import fingerprint
from midflight.runtime.steps.speech import NOTHING
from midflight.runtime.steps.step import LeftBehind, NotReserved, Step
from midflight.runtime.steps.step_end import end_wait, record, recorded
from midflight.runtime.steps.step_recovery import back_off, tell_of_doubt, tries_left, wait_out
from midflight.stores.codec import INLINE_MAX
from midflight.tools.declaration import NotDone

SHORT_S: Final = 0.005  # a call that took longer would be dear to repeat


async def do_plainly(step: Step) -> None:
    """Do a plain write of a calm run. Whatever is unusual goes on in ``perform``, by name.

    The function is told the outcome before it is on record: the next append of the run has the
    record. A crash in between repeats the step, under its key, so this is for short writes that may
    be repeated. Where anybody counts, watches or wants to stop what the run does, no run is calm.
    """
    journal, ending = step.host.journal, None
    try:
        began = await journal.start(partial(_plain_start, step))
        let_go = steady()  # if we are frozen from here on, its time is running
        if began:
            step.begin(began, let_go)
            if _may_still_begin(step):  # no await from here to its first line
                ending = await step.run_tool(partial(_tell_late, step, began))
            else:
                ending = Aborted("", began=False)
    except BaseException as error:  # noqa: BLE001 - the edge of a step: the caller raises it
        _fail(step, error)
        return
    if isinstance(ending, Returned) and _is_still_plain(step):
        result, unstorable = values.storable(step.name, ending.value, happened=True)
        short = steady() - let_go < SHORT_S and len(result) <= INLINE_MAX
        if short and not unstorable and journal.keep(began, result, step.spent):
            step.future.set_result(result)
            step.be_over()
            return
    await perform(step, ending)


def _plain_start(step: Step, state: RunState) -> list[Event]:
    plain = _is_still_plain(step) and not step.host.history.circles.possible
    return [_started(step)] if plain else []


def _is_still_plain(step: Step) -> bool:
    """Return whether nobody stops, counts or watches it, or has told of it: see ``perform``."""
    host = step.host
    awaited = not step.unwanted and step.course == host.signals.number
    # layer begins-only-while-nobody-stops
    return host.journal.calm and awaited and host.lease.held and not step.told


async def perform(step: Step, left: Ending | None = None) -> None:
    """Do a step, and tell the function that waits for it.

    ``left`` is how its tool has ended, where that was in another task or on the plain way.
    """
    try:
        try:
            result = await _done(step, left)
        except NotReserved as failed:
            result = await record(step, NULL, str(failed), cause=failed.__cause__)
        step.raise_if_told()
    except BaseException as error:  # noqa: BLE001 - a signal or a failure goes to the caller
        _fail(step, error)
        return
    if not step.future.done():
        step.future.set_result(result)
    step.be_over()


def _fail(step: Step, error: BaseException) -> None:
    """Have the function raise it, or go on in another task if a tool was left behind."""
    if isinstance(error, LeftBehind):
        step.host.tasks.begin(perform, step, error.ending)
        return
    try:
        if isinstance(error, asyncio.CancelledError | IllegalEvent | CorruptEntry):
            raise error  # the driver's own affair: the function cannot do anything about it
        if isinstance(error, StepFailed):
            step.raise_if_told()
        step.tell(error)
    except Redirected as redirected:
        step.tell(redirected)
    finally:
        step.be_over()


async def _done(step: Step, left: Ending | None) -> Raw:
    """Do it, however often that has to be tried; gives what is on record in the end.

    ``left`` is how the last try ended, where its tool had to be left behind. That try is settled
    and counted as any other.
    """
    if step.tool.effect is Effect.READ:
        return await _read(step, left)
    return await _effect(step, left)


def _tell_late(step: Step, attempt: int, ending: Ending) -> None:
    """Record the outcome of a call that was left behind and has ended after all."""
    outcome, result, error = _judge(step, ending)
    settled = e.AttemptSettled(
        epoch=step.host.journal.epoch, attempt=attempt, outcome=outcome, result=result, error=error
    )
    step.host.afterwards(step.host.journal.settle, settled)


async def _read(step: Step, left: Ending | None) -> Raw:
    while left is not None or not step.unwanted:
        ending, left = left or await _try_read(step), None
        if ending is None:
            continue
        if isinstance(ending, Aborted):
            await _be_cut(step, *_spent(step), *step.speech.take())
            step.host.signals.raise_if_told(step.course)
            continue
        for spent in _spent(step):
            await step.host.journal.settle(spent)
        match ending:
            case Returned(value=value):
                return await record(step, *values.storable(step.name, value))
            case Raised(error=error) if tries_left(step, error) <= 0:
                await step.speech.keep()
                return await record(step, NULL, foreign.words(error), cause=error)
            case Raised():
                await step.host.journal.decide(partial(back_off, step))
    return NULL


def _spent(step: Step) -> list[e.UsageSpent]:
    """Return what a read has spent, for the journal; nothing, mostly."""
    usage, epoch = step.spent, step.host.journal.epoch
    return [] if usage == NOTHING else [e.UsageSpent(epoch=epoch, usage=usage)]


async def _be_cut(step: Step, *facts: Fact) -> None:
    """Come to rest after an abort, with what is known of it on record; in a cancel soon after."""
    journal = step.host.journal
    if facts and not journal.keep_for_end(*facts):
        await journal.settle(facts[-1], before=facts[:-1])
    step.rest()


async def _try_read(step: Step) -> Ending | None:
    """Call the tool once. None if it may not begin now: then look again from the top."""
    await wait_out(step)
    await step.may_start()
    if (step.tool.approval or step.tool.relies_on) and not await permitted(step):
        return None
    await end_wait(step)
    # layer known-on-record-before-read
    await step.host.journal.flush()  # nothing begins before all that is known is on record
    return await step.run_tool() if step.starts() else None


async def _effect(step: Step, left: Ending | None) -> Raw:
    earlier = await repeats.result_instead(step) if left is None else None
    if earlier is not None:
        return earlier
    failed, cause = "", None  # how the last try came to nothing by itself, and what it raised
    while True:
        ending, left = left, None
        if ending is None:
            if _has_a_past(step) and await _is_settled_already(step, failed, cause):
                return await recorded(step, NULL)
            position = await _begin(step)
            if not position:
                continue
            late = partial(_tell_late, step, position) if step.tool.effect.touches_world else None
            ending = await step.run_tool(late)
        outcome, result, error = _judge(step, ending)
        cause = ending.error if isinstance(ending, Raised) else None
        failed = error if cause is not None else ""
        clear = outcome is not Outcome.UNKNOWN or step.tool.effect is Effect.WRITE
        over = cause is not None and _is_over(step, cause, outcome, clear=clear)
        again = partial(back_off, step) if failed and clear and not over else None
        if outcome is Outcome.DONE:
            return await _be_done(step, result, error)
        at_work = not isinstance(ending, Returned) and ending.at_work  # layer thread-left-behind
        await _settle(step, step.attempt, outcome, result, error, again, at_work=at_work)
        if over:
            return await record(step, NULL, error, cause=cause)


def _has_a_past(step: Step) -> bool:
    """Return whether it may have been tried before. A plain step has not."""
    host = step.host
    return bool(host.journal.state.timers) or step.told or host.history.has_begun(step.identity)


async def _is_settled_already(step: Step, failed: str, cause: BaseException | None) -> bool:
    """Wait out a back-off, and find out about an attempt in doubt. True: it is on record now."""
    await wait_out(step)
    # layer told-what-came-of-step
    if step.told:  # by a worker that was taken for lost, since we looked for its record
        return True
    unknown = step_recovery.attempt_in_doubt(step)
    if unknown is None:
        return False
    if not await step_recovery.resolve(step, unknown, failed, cause):
        return True
    # layer check-allows-to-tried-again
    await wait_out(step)  # a check that proves it not done has set the next try's timer
    return False


async def _be_done(step: Step, result: Raw, error: str) -> Raw:
    """Put on record that the tool has done it, and what it left."""
    host, tool, left = step.host, step.tool, ""
    if tool.fingerprint is not None:
        left = await fingerprint(host, tool, step.attempt, result)
    settling = step.attempt, Outcome.DONE, result, error
    await _settle(step, *settling, left=left, rests=False)
    if tool.effect is Effect.MODEL:
        await tell_if_uncounted(host, step, step.spent)
    if step.intact:  # before the run is said to be paused: what others change then is theirs
        await step.guards.refresh(step.intact)
    step.rest_unheard()
    return await recorded(step, result)


def _is_over(step: Step, cause: BaseException, outcome: Outcome, *, clear: bool) -> bool:
    """Return whether a step whose tool has raised is not tried again; log what is in doubt."""
    if outcome is Outcome.UNKNOWN:
        tell_of_doubt(step, cause)
    return clear and tries_left(step, cause) <= 0


async def _begin(step: Step) -> int:
    """Get the start on record. 0 if a stop came in between: then look again from the top."""
    host = step.host
    await step.may_start()
    if _needs_permission(step):
        await host.journal.flush()
        if not await permitted(step):
            return 0
    _ = step.reserved  # of arguments that a person may have edited; it may fail, a decision may not
    position = await host.journal.start(partial(_start_events, step))
    if not position:
        return 0
    step.begin(position, steady())  # if we are frozen between these lines, its time is running
    if not _may_still_begin(step):  # no await from here to its first line
        await _settle(step, position, Outcome.NOT_STARTED, NULL, "")
        return 0
    return position


def _may_still_begin(step: Step) -> bool:
    """Return whether nobody has stopped a step, or told of it, since its start is on record."""
    # layer stop-before-first-line-prevents
    return _is_still_plain(step) or (not step.told and step.host.gate.may_start(step.course))


def _needs_permission(step: Step) -> bool:
    """Return whether a person or the world has a say. A plain step needs nothing of that."""
    tool = step.tool
    return bool(
        tool.approval or tool.undo_window or tool.relies_on or step.host.journal.state.guards
    )


def _start_events(step: Step, state: RunState) -> list[Event]:
    if step.told or not step.host.gate.may_start(step.course):  # layer start-decided-on-what-read
        return []
    return [*step.host.journal.wait_over(state), _started(step)]


def _started(step: Step) -> e.AttemptStarted:
    tool = step.tool
    return e.AttemptStarted(
        epoch=step.host.journal.epoch,
        step=step.identity,
        name=step.name,
        tool=tool.name,
        effect=tool.effect,
        idempotency_key=step.key,
        noun=tool.label or step.name,
        input=step.given,
        undoable=tool.undo is not None,
        irreversible=tool.irreversible,
        release_always=tool.always_undo,
        in_thread=tool.runs == "thread",
        timeout=tool.timeout,
        reserved=NOTHING if tool.reserves is None else step.reserved,
        label=step.label if tool.effect.touches_world else "",
    )


def _judge(step: Step, ending: Ending) -> tuple[Outcome, Raw, str]:
    """For an effect an exception is never more than *unknown*, unless the tool knows better."""
    touches = step.tool.effect.touches_world
    match ending:
        case Returned(value=value):
            return Outcome.DONE, *values.storable(step.name, value, happened=touches)
        case Raised(error=NotDone() as error) if touches:
            return Outcome.NOT_DONE, NULL, foreign.words_of(error) or "not done"
        case Raised(error=error, began=False) if touches:
            return Outcome.NOT_DONE, NULL, foreign.words(error)
        case Raised(error=error):
            return Outcome.UNKNOWN if touches else Outcome.FAILED, NULL, foreign.words(error)
        case Aborted(began=False):
            return Outcome.NOT_STARTED, NULL, ""
        case Aborted(why=why, proven=True) if touches:
            return Outcome.NOT_DONE, NULL, f"aborted: {why}"
        case Aborted(why=why):
            outcome = Outcome.UNKNOWN if touches else Outcome.ABORTED
            return outcome, NULL, f"aborted: {why}"


async def _settle(
    step: Step,
    attempt: int,
    outcome: Outcome,
    result: Raw,
    error: str,
    then: Choose | None = None,
    *,
    left: str = "",
    rests: bool = True,
    at_work: bool = False,
) -> None:
    done = outcome is Outcome.DONE
    settled = e.AttemptSettled(
        epoch=step.host.journal.epoch,
        attempt=attempt,
        outcome=outcome,
        result=result,
        error=error,
        usage=step.spent,
        left=left,
        at_work=at_work,
        said=step.speech.said if done and step.tool.effect is Effect.MODEL else "",
    )
    said = () if done else step.speech.take()
    if not (done or then or at_work):
        await _be_cut(step, *said, settled)
        return
    await step.host.journal.settle(settled, then, before=said)
    if rests:
        step.rest()
