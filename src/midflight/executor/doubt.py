"""An effect of which nobody knows whether it happened; and one that may be wanted twice.

Nothing is guessed: the tool's ``check`` is asked first, and then the person.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
from msgspec import Raw

from midflight.executor import values
from midflight.executor.backoff import back_off, tries_left
from midflight.executor.calls import Aborted, Call, Raised, Returned
from midflight.executor.caps import give_notice
from midflight.executor.heard import Begun
from midflight.executor.helping import helper
from midflight.executor.logbook import Choose
from midflight.executor.lost import may_act_for
from midflight.executor.recording import record
from midflight.executor.undo import undo_now
from midflight.kernel import events as e
from midflight.kernel.phases import Effect, Outcome
from midflight.kernel.record import NULL
from midflight.tools.base import Done, NotDone, Performed, Unclear
from midflight.tools.secret import from_stored, hide

if TYPE_CHECKING:
    from midflight.executor.steps import Step

STILL_AT_IT: Final = "The worker that began it was lost and may still be at it."
IN_A_THREAD: Final = "Its check says that it did not, but a thread has no end that is certain."
CHOICES: Final = {
    "happened": "It did happen",
    "again": "It did not: try again",
    "fail": "Give this step up",
}
AS_WELL: Final = {
    "as well": "Do this as well",
    "keep": "Keep the earlier one, skip this",
    "undo": "Undo the earlier one, then do this",
}


def choice_of(choices: dict[str, str]) -> dict[str, Any]:
    """The schema of a question with a few answers, and their words."""
    return {"enum": list(choices), "x-labels": choices}


def attempt_in_doubt(step: Step) -> Begun | None:
    """The attempt at this step whose outcome nobody knows."""
    for begun in reversed(step.driver.replay.attempts_of(step.identity)):
        effect = step.driver.log.state.effects.get(begun.position)
        return begun if effect and effect.outcome is Outcome.UNKNOWN else None
    return None


async def resolve(step: Step, begun: Begun, failed: str) -> bool:
    """Find out what became of it. True: try again. False: it is on record now.

    A try that has ``failed`` by itself and is proven not done counts as one; what was cut off by a
    crash, an abort or a stop does not, nor does what a person wants done again.
    """
    first, *_ = step.driver.replay.attempts_of(step.identity)  # a repeat makes no key younger
    recent = step.driver.time_of_the_store() - first.at <= step.tool.key_ttl
    if step.tool.effect is Effect.WRITE and recent:
        return True  # the same key makes a repeat harmless
    answer, how = await _check(step, begun), "check"
    if isinstance(answer, Unclear):
        answer, how = await _ask_person(step, begun.position, answer.why, failed), "person"
    known = step.driver.log.state.effects[begun.position].outcome
    if known is not Outcome.UNKNOWN:  # who has done it has told meanwhile, and knows better
        return known is not Outcome.DONE
    if isinstance(answer, Done):
        result, error = values.storable(step.name, answer.result)
        await _learn(step, begun.position, Outcome.DONE, how, result=result, error=error)
        return False
    if not isinstance(answer, NotDone):  # another attempt of the step was told to be done
        return False
    counts = bool(failed) and how == "check"
    over = counts and tries_left(step) <= 0
    again = partial(back_off, step) if counts and not over else None
    await _learn(step, begun.position, Outcome.NOT_DONE, how, again)
    if over:
        await record(step, NULL, failed)
    return True


async def _check(step: Step, begun: Begun) -> Any:
    given = from_stored(values.decode(begun.event.input))  # a person may have edited it
    asked = Performed(step.key, given["args"], given["kwargs"])
    while not (step.told or _is_known(step, begun.position)):
        await step.may_start()
        if step.tool.check is None:
            return Unclear("the tool cannot be asked whether it happened")
        check = helper("check", step.tool.check, step.tool.timeout)
        left = may_act_for(step.driver, step.driver.log.state.effects[begun.position])
        ending = await step.run_call(Call(check, (asked,), {}, step.driver.alarms))
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
                return Unclear(f"its check failed: {values.words(error)}")
            case Returned():
                return Unclear("its check gave no answer")
            case Aborted():
                continue
    return None


async def _give_time(step: Step, attempt: int, left: float) -> None:
    """A lost worker may still do it."""
    driver = step.driver
    words = f"{step.noun}: {STILL_AT_IT} It is looked up again in {left:.0f} s."
    await give_notice(driver, f"lost:{attempt}", words)
    with anyio.move_on_after(left):
        await driver.log.until(
            lambda: step.told or _is_known(step, attempt) or not driver.gate.may_start(step.course)
        )


def _is_known(step: Step, attempt: int) -> bool:
    """Whether somebody has told meanwhile what became of it."""
    return step.driver.log.state.effects[attempt].outcome is not Outcome.UNKNOWN


async def _ask_person(step: Step, attempt: int, why: str, failed: str) -> Any:
    """Say what the tool raised, too: it is often enough to know where to look."""
    why = ". ".join(one[:1].upper() + one[1:].rstrip(".") for one in (failed, hide(why)) if one)
    message = f"It is not known whether this happened: {step.noun}. {why}".strip()
    if may_act_for(step.driver, step.driver.log.state.effects[attempt]):
        message = f"{message.rstrip('.')}. {STILL_AT_IT}"
    answer = await step.ask(f"doubt:{attempt}", "doubt", message, choice_of(CHOICES), about=attempt)
    if _is_known(step, attempt):
        return None
    choice = values.decode(answer.payload) if answer.by else "fail"
    match choice:
        case "again":
            return NotDone()
        case "happened":
            return Done()
        case _:
            return await record(step, NULL, f"outcome unknown: {why}")  # raises, unless it is known


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
        epoch=step.driver.epoch,
        attempt=attempt,
        outcome=outcome,
        result=result,
        error=error,
        how=how,
    )
    await step.driver.log.settle(learned, then)


# ── after a redirect ─────────────────────────────────────────────────────────────────────────


async def wanted_twice(step: Step) -> Raw | None:
    """Ask, after a redirect, about an effect that was done before with other arguments.

    As well, or instead of it? Gives the earlier result if that is to stand for this step.
    """
    name = f"again:{step.identity}"
    earlier = _asked_about(step, name) or _earlier(step)
    if earlier is None:
        return None
    await step.may_start()
    message = f"{step.noun} was done before the redirect, with other arguments. Do this too?"
    answer = await step.ask(name, "again", message, choice_of(AS_WELL), about=earlier.position)
    match values.decode(answer.payload) if answer.by else "keep":
        case "as well":
            return None
        case "undo":
            return await _undone(step, earlier)
        case _:
            known = step.driver.replay.outcomes[earlier.position]
            return await record(step, await step.driver.raw(known), known.error)


async def _undone(step: Step, earlier: Begun) -> Raw | None:
    """Undo the earlier one first; a stop in between is waited out."""
    effect = step.driver.log.state.effects[earlier.position]
    while effect.can_be_undone and effect.undone is None:
        await step.may_start()
        await undo_now(step.driver, effect)
    if not effect.undone:
        return await record(step, NULL, f"{step.noun}: the earlier one could not be undone")
    return None


def _asked_about(step: Step, name: str) -> Begun | None:
    """What this step has asked about before a crash: an answer is about that and nothing else."""
    replay = step.driver.replay
    if name not in replay.questions or replay.attempts_of(step.identity):
        return None
    return replay.begun(replay.asked[replay.questions[name]].about)


def _earlier(step: Step) -> Begun | None:
    """The settled attempt of an earlier brief that this one resembles.

    Rather one that this brief has not asked for.
    """
    replay, state = step.driver.replay, step.driver.log.state
    once = step.tool.effect is Effect.ONCE
    if not once or replay.attempts_of(step.identity) or _as_well(step):
        return None
    alike = [
        effect
        for effect in state.effects.values()
        if effect.name == step.name
        and effect.course < state.entered_course
        and effect.outcome is Outcome.DONE
        and not effect.undone
        and not effect.child
    ]
    if not alike:
        return None
    nearest = max(alike, key=lambda effect: (effect.reused < state.entered_course, effect.position))
    return replay.begun(nearest.position)


def _as_well(step: Step) -> bool:
    """Whether a person has said, of this course and of a step of this name: do it as well."""
    replay = step.driver.replay
    return any(
        asked.kind == "again"
        and position > replay.redirected_at
        and replay.begun(asked.about).event.name == step.name
        and (answer := replay.answers.get(position)) is not None
        and answer.by
        and values.decode(answer.payload) == "as well"
        for position, asked in replay.asked.items()
    )
