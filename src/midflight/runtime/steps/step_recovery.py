"""The recovery of a step that did not simply succeed: another try, or doubt whether it happened.

The wait before the next try is on record: a crash neither shortens nor forgets it.

The driver guesses nothing about an effect in doubt: it asks the tool's ``check`` first, and then
the person. For a while "not done" proves nothing, because two things may still act. First, a lost
worker is dead, or only out of reach and still running its tool. On one host the worker's lock
proves its death, and its process tools hold that lock too. Where leases run out by time, the death
is only assumed, and a worker whose run was taken away by a kill is alive. Such a worker may go on
until its timeout has passed, counted from the moment at which it was found to be lost: it began
nothing after that moment, and may have begun everything just before it. Second, a request that an
attempt has sent may still arrive, even when the attempt was aborted or has failed, or its worker is
dead: ``settles_within`` says how long a provider may take to act on it. The wait for that is on
record, too.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Any, Final

import anyio
from msgspec import Raw

from midflight.journal import events as e
from midflight.journal.phases import Effect, Outcome, Phase
from midflight.journal.record import NULL, Event
from midflight.journal.state import LOST, RETRY, SETTLE, WORKER_LOST, Attempt, RunState
from midflight.journal.transition_table import TRANSITIONS
from midflight.runtime import foreign, values
from midflight.runtime.foreign import may_be_retried, retry_after, text, traceback_of
from midflight.runtime.host import Host
from midflight.runtime.questions import attempt_in_words, choice_of
from midflight.runtime.replay.step_records import Begun
from midflight.runtime.run_journal import Choose
from midflight.runtime.steps.bounds import Aborted, Raised, Returned
from midflight.runtime.steps.side_calls import helper
from midflight.runtime.steps.step import Step
from midflight.runtime.steps.step_end import record
from midflight.runtime.steps.tool_call import Call
from midflight.tools.declaration import Done, NotDone, Tool, Unclear
from midflight.tools.options import EffectRecord
from midflight.tools.processes.supervised import OVERTIME_S
from midflight.tools.secret import from_stored

SLACK_S: Final = 1.0  # in which a supervisor that is late ends its tool
STILL_AT_IT: Final = "The worker that began it was lost and may still be at it."
MAY_ARRIVE: Final = "What was sent may still arrive."
IN_A_THREAD: Final = "Its check says that it did not, but a thread has no end that is certain."
CHOICES: Final = {
    "happened": "It did happen",
    "again": "It did not: try again",
    "fail": "Give this step up",
}
ASKED_MAX: Final = 500  # characters of a question in one line of a log

log: Final = logging.getLogger(__name__)


def _timer(step: Step) -> str:
    return f"{RETRY}{step.identity}"


def tries_left(step: Step, error: BaseException | None = None) -> int:
    """Each try but the first has a timer on record, so no crash gives a step more of them.

    An error that says ``retryable = False`` would only come again.
    """
    if not may_be_retried(error):
        return 0
    step.be_patient(retry_after(error))
    return step.tool.retry.times - step.host.history.timers.get(_timer(step), 0)


def back_off(step: Step, state: RunState) -> list[Event]:
    """Set the timer for the next try."""
    host, timer = step.host, _timer(step)
    moves = state.epoch == host.journal.epoch and state.phase in {Phase.RUNNING, Phase.PAUSING}
    if step.told or not moves:
        return []
    wait = max(
        step.tool.retry.first_after * 2 ** host.history.timers.get(timer, 0), step.wait_at_least
    )
    until = host.journal.clock.now() + wait
    tries = 1 + step.tool.retry.times
    return [e.TimerSet(epoch=host.journal.epoch, name=timer, until=until, tries=tries)]


async def wait_out(step: Step) -> None:
    """Wait for the rest of a back-off, also of one that began before a crash or an eviction."""
    if not step.host.journal.state.timers:
        return
    host, timer = step.host, _timer(step)

    def cleared(state: RunState) -> list[Event]:
        if timer not in state.timers or not host.gate.may_start(step.course):
            return []
        return [
            *host.journal.wait_over(state),
            e.TimerCleared(epoch=host.journal.epoch, name=timer),
        ]

    while timer in host.journal.state.timers:
        await step.may_start()
        left = host.journal.left_of_timer(timer)  # layer back-off-waited-out-by-takes
        if left <= 0 or step.told:
            await host.journal.decide(cleared)
            continue
        with step.idling(), anyio.move_on_after(left):
            await host.journal.until(lambda: step.told or not host.gate.may_start(step.course))


def may_act_for(host: Host, attempt: Attempt) -> float:
    """For how many seconds a lost worker may still be at this attempt; a thread has no limit."""
    return _left(host, attempt, _worker_has(host, attempt))


def may_arrive_for(host: Host, attempt: Attempt, tool: Tool) -> float:
    """For how many seconds this attempt may still take effect, by its worker or by what it sent."""
    # layer check-proves-nothing
    return _left(host, attempt, _worker_has(host, attempt) + tool.settles_within)


def _left(host: Host, attempt: Attempt, bound: float) -> float:
    if not bound:
        return 0.0
    # layer time-counted-from-when-worker
    return max(0.0, bound - host.journal.clock.age(host.history.unknown_at[attempt.position]))


def _worker_has(host: Host, attempt: Attempt) -> float:
    """The seconds from when it was found to be lost, in which a worker may be at it."""
    if attempt.at_work:
        return math.inf
    dead = attempt.why == WORKER_LOST and host.lease.proven
    if dead or attempt.why not in LOST:
        return 0.0
    begun = host.history.begun(attempt.position).event
    # layer check-proves-nothing-of-lost
    return math.inf if begun.in_thread else begun.timeout + OVERTIME_S + SLACK_S


async def begin_to_settle(host: Host, attempt: Attempt, left: float) -> None:
    """Put on record that a check has not seen it, and when it is looked up again.

    A run that has ended takes no timers. It is driven until its undo is settled all the same.
    """
    timer = f"{SETTLE}{attempt.position}"

    def begun(state: RunState) -> list[Event]:
        takes = e.TimerSet in TRANSITIONS[state.phase] and not host.journal.lost
        if timer in state.timers or not takes:
            return []
        until = host.journal.clock.now() + left
        return [
            *host.journal.wait_over(state),
            e.TimerSet(epoch=host.journal.epoch, name=timer, until=until),
        ]

    await host.journal.decide(begun)


async def end_to_settle(host: Host, attempt: Attempt) -> None:
    """Take the timer back: the time is over, or nobody waits any more."""
    timer = f"{SETTLE}{attempt.position}"

    def cleared(state: RunState) -> list[Event]:
        takes = e.TimerCleared in TRANSITIONS[state.phase] and not host.journal.lost
        return (
            [e.TimerCleared(epoch=host.journal.epoch, name=timer)]
            if timer in state.timers and takes
            else []
        )

    if timer in host.journal.state.timers:
        await host.journal.decide(cleared)


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

    A try that has ``failed`` by itself and is proven not done counts as one; a try that was cut off
    by a crash, an abort or a stop does not, nor does one that a person wants repeated. ``cause`` is
    what it raised: it may say when to try again, or never to.
    """
    first, *_ = step.host.history.attempts_of(step.identity)  # a repeat makes no key younger
    # layer how-old-key-goes-by-store
    recent = step.host.journal.clock.now() - first.at <= step.tool.key_ttl
    if step.tool.effect is Effect.WRITE and recent:  # layer must-happen-once-not-repeated
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
    # layer nobody-has-said-another-try
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
        ending = await step.run_apart(Call(check, (asked,), {}, step.host.alarms))
        step.rest()
        match ending:
            case Returned(value=Done() | Unclear() as answer):
                return answer
            case Returned(value=NotDone()) | Raised(error=NotDone()):
                if left == math.inf:
                    return Unclear(IN_A_THREAD)
                # layer check-believed-by-when-asked
                if not left:  # when it was asked: it may have looked long before it answers
                    return NotDone()
                # layer lost-worker-given-time-may-still
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
    with step.idling(), anyio.move_on_after(may_arrive_for(host, effect, step.tool)):
        await host.journal.until(
            lambda: step.told or _is_known(step, attempt) or not host.gate.may_start(step.course)
        )
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


def _about(step: Step, action: str) -> dict[str, Any]:
    tool = step.tool.name
    return {"action": action, "run": step.host.journal.run, "step": step.name, "tool": tool}


def tell_of_doubt(step: Step, error: BaseException) -> None:
    """Log that an effect has raised, so that nobody knows whether it happened."""
    log.error(
        "Tool %s failed in step %r of run %s, and it is not known whether its effect happened\n%s",
        step.tool.name,
        step.name,
        step.host.journal.run,
        traceback_of(error),
        extra=_about(step, "tool_raised"),
    )


def tell_of_question(step: Step, message: str) -> None:
    """Log that the run goes on only when a person has answered."""
    words = "Run %s waits for a person to answer: %s"
    asked = " ".join(text(message, ASKED_MAX).split())
    log.warning(words, step.host.journal.run, asked, extra=_about(step, "person_asked"))
