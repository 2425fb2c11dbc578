"""Records the end of a step for good, and gives it to the function.

The function is given what is on record, so that this time is like every later one. A worker that
began the step before us may have told of it meanwhile: a failure of ours does not outdo that.
"""

from __future__ import annotations

from functools import partial

from msgspec import Raw

from midflight.errors import StepFailed
from midflight.journal import events as e
from midflight.journal.facts import record as accepted
from midflight.journal.phases import Effect, Phase
from midflight.journal.record import NULL, Earlier, Event
from midflight.journal.state import RunState
from midflight.runtime.steps.step import Step


async def end_wait(step: Step) -> None:
    """Something happens in a run that waits for a person: it does not only wait any more."""
    journal = step.host.journal
    if journal.busy or journal.state.phase is Phase.WAITING:
        await journal.decide(journal.wait_over)


async def record(
    step: Step,
    result: Raw,
    error: str,
    *,
    cause: BaseException | None = None,
    earlier: Earlier | None = None,
) -> Raw:
    """Write down how the step ended; raises if that is a failure.

    ``cause`` is what the tool raised: it is not on record, but a traceback shows where it was. A
    failure does not outdo what was told of the step meanwhile: then that is given. ``earlier`` is
    the effect whose result it has taken over.
    """
    settled = e.StepSettled(
        epoch=step.host.journal.epoch,
        step=step.identity,
        name=step.name,
        result=result,
        error=error,
        earlier=earlier,
        tool="" if step.tool.effect is Effect.MODEL else step.tool.name,
        input=NULL if step.tool.effect is Effect.MODEL else step.shown,
    )
    await end_wait(step)  # or the run would not take it
    journal = step.host.journal
    if error:
        written = await journal.decide(partial(_failed, step, settled))
    else:
        written = await journal.settle(settled)
    step.rest_unheard()
    if error and step.told and not written:
        journal.stir()
        return await recorded(step, NULL)
    if not written:
        journal.stir()
        await step.may_start()  # the run is not ours any more, or at rest: says which
    else:
        step.host.history.learn(written[-1].at)
    if error:
        raise StepFailed(step.name, error) from cause
    return result


def _failed(step: Step, settled: e.StepSettled, state: RunState) -> tuple[Event, ...]:
    return () if step.told else accepted(state, settled)  # layer successor-failure-does-not-outdo


async def recorded(step: Step, result: Raw) -> Raw:
    """Give what is on record."""
    known = step.host.history.records.get(step.identity)
    if known is None:  # the run is not ours any more, and somebody else knew already
        return result
    step.host.history.learn(known.at)
    if known.error:
        raise StepFailed(step.name, known.error)
    if known.blob is None:
        return known.result
    step.host.journal.stir()  # it rests, and the blob may take long
    return await step.host.journal.raw(known)
