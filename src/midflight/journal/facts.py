"""Facts: how something ended, which driver has a run, and an operator's switch.

These functions are as pure as those of ``requests``, and a store calls them inside its transaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import msgspec

from midflight.errors import InvalidRequest
from midflight.journal import events as e
from midflight.journal.phases import IN_MOTION, Outcome, Phase
from midflight.journal.record import Event, Fact
from midflight.journal.requests import Switch, refuse_if_stopped
from midflight.journal.state import CUT_OFF, WORKER_LOST, RunState
from midflight.journal.transition_table import TRANSITIONS, check, may_become

_DRIVER_NAME: Final = re.compile(r"[A-Za-z0-9_@+:-][A-Za-z0-9_@+:.-]{0,119}")


def record(state: RunState, fact: Fact) -> tuple[Event, ...]:
    """Accept how something ended: once per attempt, in any phase, from anybody who knows.

    A fact from an old driver or after the end becomes a ``LateOutcome``, which changes what is
    known and starts nothing. A read's result or a piece of text from an old driver is dropped: the
    next driver reads again.
    """
    current = fact.epoch == state.epoch and state.phase in IN_MOTION
    triaging = fact.epoch == state.epoch and state.phase is Phase.WAITING
    match fact:
        case e.AttemptSettled() | e.LateOutcome():
            attempt = state.open.get(fact.attempt) or state.effects.get(fact.attempt)
            if attempt is None or not may_become(attempt, fact.outcome):  # layer outcome-taken-once
                return ()
            known_here = (current or triaging) and fact.attempt in state.open
            fresh = known_here and isinstance(fact, e.AttemptSettled)
            # layer nobody-asked-any-more-what-has
            return (fact,) if fresh else (_late(fact), *_answered(state, fact))
        case e.StepSettled() | e.StepReused() | e.TextStreamed():
            return (fact,) if current else ()
        case e.StepLeft():
            awake = state.alive and state.entered and state.phase is not Phase.CANCELLING
            return (fact,) if awake and fact.epoch == state.epoch else ()
        case e.UndoSettled():
            return (fact,) if fact.undo in state.undos else ()
        case e.ChildSettled():
            return (fact,) if state.children.get(fact.child) == "" else ()
        case _:
            return (fact,)


def record_all(state: RunState, facts: Iterable[Fact]) -> tuple[Event, ...]:
    """Accept facts that are known at the same time, none of which bears on another."""
    return tuple(event for fact in facts for event in record(state, fact))


def _answered(state: RunState, fact: e.AttemptSettled | e.LateOutcome) -> Iterator[Event]:
    """Yield a closing for each question whether this attempt happened: that is known now."""
    if fact.outcome is Outcome.UNKNOWN or e.QuestionClosed not in TRANSITIONS[state.phase]:
        return
    for position, question in state.questions.items():
        if question.kind == "doubt" and question.about == fact.attempt:
            yield e.QuestionClosed(question=position, why=f"it is known now: {fact.outcome}")


def _late(fact: e.AttemptSettled | e.LateOutcome) -> e.LateOutcome:
    if isinstance(fact, e.LateOutcome):
        return fact
    return e.LateOutcome(
        epoch=fact.epoch,
        attempt=fact.attempt,
        outcome=fact.outcome,
        result=fact.result,
        blob=fact.blob,
        error=fact.error,
        usage=fact.usage,
        left=fact.left,
    )


def claim(
    state: RunState, driver: str, *, lease_gone: bool, switches: Iterable[Switch] = ()
) -> tuple[Event, ...]:
    """Take a run over. Empty when a living driver has it: then there is nothing to do.

    The effects that the driver before had in flight are in doubt from that moment on, and not a
    moment later.
    """
    check_driver_name(driver)
    refuse_if_stopped(switches)
    if state.driver and not (lease_gone or state.driver == driver):  # layer living-driver-keeps-run
        return ()
    # layer nobody-time-counted-for-dead
    until = state.driven_at if state.entered and state.driver != driver else None
    claimed = e.DriverClaimed(epoch=state.epoch + 1, driver=driver, driven_until=until)
    check(state, claimed)
    return (claimed, *_lost(state, claimed.epoch))


def _lost(state: RunState, epoch: int) -> Iterator[Event]:
    """Yield an end for each attempt and undo in flight: nobody here knows how it ended.

    A run without a driver was taken by a kill from a driver that lives; otherwise the driver is
    gone.
    """
    if not (state.open or state.undos):
        return
    why = WORKER_LOST if state.driver else CUT_OFF  # layer worker-run-taken-away-lives
    after = replace(state, epoch=epoch)
    for position, attempt in state.open.items():
        # layer dead-driver-had-in-flight
        outcome = Outcome.UNKNOWN if attempt.effect.touches_world else Outcome.ABORTED
        ended = e.AttemptSettled(epoch=epoch, attempt=position, outcome=outcome, error=why)
        yield from record(after, ended)
    for undo in state.undos:
        # layer undo-cut-off-done-again
        yield e.UndoSettled(epoch=epoch, undo=undo, undone=False, why=WORKER_LOST, final=False)


def is_driver_name(driver: str) -> bool:
    """Return whether a driver can have this name, and so whether a lease of it can exist."""
    return _DRIVER_NAME.fullmatch(driver) is not None


def check_driver_name(driver: str) -> None:
    """Raise InvalidRequest for a name that no store could keep a lease under.

    A lease is a file or a row of that name, so the name must be valid in every store: a run whose
    driver has a lease that nobody can look at could never be taken over.
    """
    if not is_driver_name(driver):  # layer driver-name-one-in-every-store
        raise InvalidRequest(
            f"{driver[:80]!r} cannot be the name of a driver: use up to 120 letters, digits and "
            "any of _ - . : @ +, and no dot at the beginning. Nothing was changed."
        )


def kill(state: RunState, killed: e.Killed) -> tuple[Event, ...]:
    """Apply the operator's switch to one run: end the run, or take its driver away.

    A run that rests keeps its phase. Without its driver it cannot move, and the next driver must
    claim it, which is where the switch is read.
    """
    if state.phase in IN_MOTION:  # layer kill-appended-to-runs-in-motion
        return (msgspec.structs.replace(killed, in_flight=tuple(state.open)),)
    # layer kill-revokes-drivers-of-resting
    return (e.DriverRevoked(scope=killed.scope),) if state.driver else ()
