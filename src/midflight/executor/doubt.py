"""Finds out about an effect of which nobody knows whether it happened.

Nothing is guessed: the tool's ``check`` is asked first, and then the person.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

import anyio
from msgspec import Raw

from midflight.executor import foreign, values
from midflight.executor.backoff import back_off, tries_left
from midflight.executor.calls import Aborted, Call, Raised, Returned
from midflight.executor.details import attempt_in_words, choice_of
from midflight.executor.heard import Begun
from midflight.executor.helping import helper
from midflight.executor.logbook import Choose
from midflight.executor.lost import may_act_for, may_arrive_for
from midflight.executor.recording import record
from midflight.executor.reporting import tell_of_question
from midflight.executor.settling import begin_to_settle, end_to_settle
from midflight.executor.steps import Step
from midflight.kernel import events as e
from midflight.kernel.phases import Effect, Outcome
from midflight.kernel.record import NULL
from midflight.tools.base import Done, EffectRecord, NotDone, Unclear
from midflight.tools.secret import from_stored

STILL_AT_IT: Final = "The worker that began it was lost and may still be at it."
MAY_ARRIVE: Final = "What was sent may still arrive."
IN_A_THREAD: Final = "Its check says that it did not, but a thread has no end that is certain."
CHOICES: Final = {
    "happened": "It did happen",
    "again": "It did not: try again",
    "fail": "Give this step up",
}


def attempt_in_doubt(step: Step) -> Begun | None:
    """Return the last attempt at this step if nobody knows its outcome, or None."""
    for begun in reversed(step.host.history.attempts_of(step.identity)):
        effect = step.host.journal.state.effects.get(begun.position)
        return begun if effect and effect.outcome is Outcome.UNKNOWN else None
    return None


async def resolve(
    step: Step, begun: Begun, failed: str, cause: BaseException | None = None
) -> bool:
    """Find out what became of it. True: try again. False: it is on record now.

    A try that has ``failed`` by itself and is proven not done counts as one; what was cut off by a
    crash, an abort or a stop does not, nor does what a person wants done again. ``cause`` is what
    it raised: it may say when to try again, or never to.
    """
    first, *_ = step.host.history.attempts_of(step.identity)  # a repeat makes no key younger
    recent = step.host.journal.clock.now() - first.at <= step.tool.key_ttl
    if step.tool.effect is Effect.WRITE and recent:
        return True  # the same key makes a repeat harmless
    answer, how = await _check(step, begun), "check"
    if isinstance(answer, Unclear):
        answer, how = await _ask_person(step, begun.position, answer.why, failed), "person"
    known = step.host.journal.state.effects[begun.position].outcome
    if known is not Outcome.UNKNOWN:  # its worker has told meanwhile, and knows better
        return known is not Outcome.DONE
    if isinstance(answer, Done):
        result, error = values.storable(step.name, answer.result, happened=True)
        await _learn(step, begun.position, Outcome.DONE, how, result=result, error=error)
        return False
    if not isinstance(answer, NotDone):  # another attempt of the step was told to be done
        return False
    counts = bool(failed) and how == "check"
    over = counts and tries_left(step, cause) <= 0
    again = partial(back_off, step) if counts and not over else None
    await _learn(step, begun.position, Outcome.NOT_DONE, how, again)
    if over:
        await record(step, NULL, failed, cause=cause)
    return True


async def _check(step: Step, begun: Begun) -> Any:
    given = from_stored(values.decode(begun.event.input))  # a person may have edited it
    asked = EffectRecord(step.key, given["args"], given["kwargs"])
    while not (step.told or _is_known(step, begun.position)):
        await step.may_start()
        if step.tool.check is None:
            return Unclear("this tool has no check, so only a person can find out")
        check = helper("check", step.tool.check, step.tool)
        effect = step.host.journal.state.effects[begun.position]
        left = may_arrive_for(step.host, effect, step.tool)
        ending = await step.run_call(Call(check, (asked,), {}, step.host.alarms), apart=True)
        step.resting = True
        match ending:
            case Returned(value=Done() | Unclear() as answer):
                return answer
            case Returned(value=NotDone()) | Raised(error=NotDone()):
                if left == math.inf:
                    return Unclear(IN_A_THREAD)
                if not left:  # when it was asked: it may have looked long before it answers
                    return NotDone()
                await _give_time(step, begun.position, left)  # then it is looked up again
            case Raised(error=error):
                return Unclear(f"its check failed: {foreign.words(error)}")
            case Returned():
                return Unclear("its check gave no answer")
            case Aborted():
                continue
    return None


async def _give_time(step: Step, attempt: int, left: float) -> None:
    """Wait until neither a lost worker nor what was sent can bring it about any more."""
    host, effect = step.host, step.host.journal.state.effects[attempt]
    why = STILL_AT_IT if may_act_for(host, effect) else MAY_ARRIVE
    await host.journal.give_notice(
        f"unseen:{attempt}",
        f"{step.label}: its check has not seen it. {why} It is looked up again after {left:.0f} s; "
        "until then nobody knows whether it happened.",
    )
    await begin_to_settle(host, effect, left)
    step.idle = True
    with anyio.move_on_after(may_arrive_for(host, effect, step.tool)):
        await host.journal.until(
            lambda: step.told or _is_known(step, attempt) or not host.gate.may_start(step.course)
        )
    step.idle = False
    if not may_arrive_for(host, effect, step.tool):
        await end_to_settle(host, effect)


def _is_known(step: Step, attempt: int) -> bool:
    """Return whether somebody has told meanwhile what became of the attempt."""
    return step.host.journal.state.effects[attempt].outcome is not Outcome.UNKNOWN


async def _ask_person(step: Step, attempt: int, why: str, failed: str) -> Any:
    """Say what the tool raised, too: it is often enough to know where to look."""
    why = ". ".join(
        one[:1].upper() + one[1:].rstrip(".") for one in (failed, foreign.text(why)) if one
    )
    message = f"It is not known whether this happened: {step.label}. {why}".strip()
    if may_act_for(step.host, step.host.journal.state.effects[attempt]):
        message = f"{message.rstrip('.')}. {STILL_AT_IT}"
    if f"doubt:{attempt}" not in step.host.history.questions:
        tell_of_question(step, message)
    begun = step.host.history.begun(attempt).event
    schema = choice_of(CHOICES) | attempt_in_words(begun)
    answer = await step.ask(f"doubt:{attempt}", "doubt", message, schema, about=attempt)
    if _is_known(step, attempt):
        return None
    choice = values.decode(answer.payload) if answer.by else "fail"
    match choice:
        case "again":
            return NotDone()
        case "happened":
            return Done()
        case _:
            cut = step.host.history.cuts.get(attempt)
            words = cut.words() if cut is not None else why
            return await record(step, NULL, f"outcome unknown: {words}")  # raises, unless known


async def _learn(
    step: Step,
    attempt: int,
    outcome: Outcome,
    how: str,
    then: Choose | None = None,
    *,
    result: Raw = NULL,
    error: str = "",
) -> None:
    learned = e.LateOutcome(
        epoch=step.host.journal.epoch,
        attempt=attempt,
        outcome=outcome,
        result=result,
        error=error,
        how=how,
    )
    await step.host.journal.settle(learned, then)
