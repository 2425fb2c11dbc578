"""How a step is done: a read until it is on record, an effect attempt by attempt.

The rules in one sentence each: nothing starts while anything holds the run; what touches the world
is on record before its first line; after the record comes one more look, without an await, before
that line; what ended without a known outcome is checked or asked about, never guessed and never
silently repeated.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Raw

from midflight.executor import doubt, values
from midflight.executor.backoff import back_off, tries_left, wait_out
from midflight.executor.calls import Aborted, Ending, Raised, Returned
from midflight.executor.caps import NOTHING, tell_if_uncounted
from midflight.executor.left import fingerprint
from midflight.executor.logbook import Choose
from midflight.executor.permission import permitted
from midflight.executor.recording import end_wait, record, recorded
from midflight.inputs import steady
from midflight.kernel import events as e
from midflight.kernel.phases import Effect, Outcome
from midflight.kernel.record import NULL, Event
from midflight.kernel.state import RunState
from midflight.tools.base import NotDone
from midflight.tools.secret import hide

if TYPE_CHECKING:
    from midflight.executor.steps import Step


async def perform(step: Step) -> Raw:
    """Do it, however often that has to be tried; gives what is on record in the end."""
    return await (_read(step) if step.tool.effect is Effect.READ else _effect(step))


async def _read(step: Step) -> Raw:
    while not step.unwanted:
        await wait_out(step)
        await step.may_start()
        if (step.tool.approval or step.tool.relies_on) and not await permitted(step):
            continue
        await end_wait(step)
        if not step.starts():
            continue
        ending = await step.run_tool()
        if (spent := step.speech.usage) != NOTHING:
            await step.driver.log.settle(e.UsageSpent(epoch=step.driver.epoch, usage=spent))
        match ending:
            case Returned(value=value):
                return await record(step, *values.storable(step.name, value))
            case Raised(error=error) if tries_left(step, error) <= 0:
                await step.speech.keep()
                return await record(step, NULL, values.words(error), cause=error)
            case Raised():
                await step.driver.log.decide(partial(back_off, step))
            case Aborted():
                await step.speech.keep()
                step.resting = True
    return NULL


async def _effect(step: Step) -> Raw:
    kept = await doubt.wanted_twice(step)
    if kept is not None:
        return kept
    failed = ""  # how the last try came to nothing by itself
    while True:
        await wait_out(step)
        if step.told:  # by a worker that was taken for lost, since we looked for its record
            return await recorded(step, NULL)
        unknown = doubt.attempt_in_doubt(step)
        if unknown is not None and not await doubt.resolve(step, unknown, failed):
            return await recorded(step, NULL)
        position = await _begin(step)
        if position is None:
            continue
        step.attempt = position
        ending = await step.run_tool()
        outcome, result, error = _judge(step, ending)
        failed = error if isinstance(ending, Raised) else ""
        clear = outcome is not Outcome.UNKNOWN or step.tool.effect is Effect.WRITE
        over = isinstance(ending, Raised) and clear and tries_left(step, ending.error) <= 0
        again = partial(back_off, step) if failed and clear and not over else None
        if outcome is not Outcome.DONE:
            await step.speech.keep()
        left = await fingerprint(step, position, result) if outcome is Outcome.DONE else ""
        done = outcome is Outcome.DONE
        await _settle(step, position, outcome, result, error, again, left=left, rests=not done)
        if done:
            await tell_if_uncounted(step)
            # Before the run is said to be paused: what others change from then on is theirs.
            await step.driver.guards.refresh(step.intact)
            step.resting = True
            return await recorded(step, result)
        if over:
            assert isinstance(ending, Raised)
            return await record(step, NULL, error, cause=ending.error)


async def _begin(step: Step) -> int | None:
    """Get the start on record. None if a stop came in between: then look again from the top."""
    driver = step.driver
    await step.may_start()
    if not await permitted(step):
        return None
    written = await driver.log.decide(partial(_start_events, step))
    if not written:
        return None
    position = written[-1].position
    step.begins_at = steady()  # if we are frozen between these lines, its time is running
    if step.told or not driver.gate.may_start(step.course):  # no await from here to its first line
        await _settle(step, position, Outcome.NOT_STARTED, NULL, "")
        return None
    return position


def _start_events(step: Step, state: RunState) -> list[Event]:
    if step.told or not step.driver.gate.may_start(step.course):
        return []
    epoch, tool = step.driver.epoch, step.tool
    return [
        *step.driver.wait_over(state),
        e.AttemptStarted(
            epoch=epoch,
            step=step.identity,
            name=step.name,
            tool=tool.name,
            effect=tool.effect,
            idempotency_key=step.key,
            noun=step.noun,
            input=step.given,
            undoable=tool.undo is not None,
            irreversible=tool.irreversible,
            release_always=tool.release_always,
            in_thread=tool.runs == "thread",
            timeout=tool.timeout,
            reserved=step.reserved,
        ),
    ]


def _judge(step: Step, ending: Ending) -> tuple[Outcome, Raw, str]:
    """For an effect an exception is never more than *unknown*, unless the tool knows better."""
    touches = step.tool.effect.touches_world
    match ending:
        case Returned(value=value):
            return Outcome.DONE, *values.storable(step.name, value)
        case Raised(error=NotDone() as error) if touches:
            return Outcome.NOT_DONE, NULL, hide(str(error)) or "not done"
        case Raised(error=error, began=False) if touches:
            return Outcome.NOT_DONE, NULL, values.words(error)
        case Raised(error=error):
            return Outcome.UNKNOWN if touches else Outcome.FAILED, NULL, values.words(error)
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
) -> None:
    settled = e.AttemptSettled(
        epoch=step.driver.epoch,
        attempt=attempt,
        outcome=outcome,
        result=result,
        error=error,
        usage=step.speech.usage,
        left=left,
    )
    await step.driver.log.settle(settled, then)
    step.resting = rests
