"""Stops a run that comes back to another world than the one it left, and asks a person.

Either what it relied on has changed, or its own code has. The hold and its question are one
decision, and the meaning of the answer is written down with the question, so that any driver can
act on it later.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from midflight.executor import foreign, values
from midflight.executor.difference import difference
from midflight.executor.forking import fork_and_stop
from midflight.executor.heard import Answered
from midflight.executor.line import done_below, own_spawns
from midflight.executor.repeats import TAKE_OVER
from midflight.guards import Age
from midflight.kernel import events as e
from midflight.kernel.decide import WITHDRAWN
from midflight.kernel.phases import Cause, Phase
from midflight.kernel.record import Event
from midflight.kernel.state import RunState

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

ACCEPTED: Final = "*"  # the look of a guard that could not be seen: whatever it is, a person said
TAKEN_OVER: Final = "Go on, and do nothing again that was done: take over its results"
CHOICES: Final = {
    "go on": "Go on with it as it is now",
    "fork": "Begin a new run from there",
    "cancel": "Cancel the run",
}


async def hold_for_guards(
    driver: Driver, changed: Mapping[str, str], looks: Mapping[str, str]
) -> None:
    """Hold the run because what it relied on has changed, and ask whether it may go on.

    A person who says *go on* accepts these looks; what changes after the question is asked again.
    """
    told = "; ".join(f"{name} {words}" for name, words in changed.items())
    text = f"What this run relies on has changed: {told}. Go on?"
    places = (place for name, place in driver.replay.guarded_at.items() if name in changed)
    run, at = next(places, (driver.run, 0))  # in the order of their noting
    await _hold(driver, text, {"guards": dict(looks), "fork_of": run, "fork_at": at})


async def hold_for_end(driver: Driver) -> None:
    """The function has ended before it has asked for all that it asked for before."""
    await hold_for_code(driver)


async def hold_for_code(driver: Driver, left: Collection[str] = ()) -> None:
    """The function asks for other things than before: it must not go on by itself.

    ``left`` are steps that it gave up waiting for, and now does not. If what it relies on has
    changed it may be for that: then this is what is asked about first.
    """
    if await driver.guards.hold_if_changed():
        return
    missing = [*driver.replay.missing(), *left]
    below = await done_below(driver, own_spawns(driver, missing))
    found = difference(driver, missing, below)
    at = min((driver.replay.began_at(step) for step in missing), default=driver.log.state.head)
    choices = {TAKE_OVER: TAKEN_OVER, **CHOICES} if found.effects else CHOICES
    about = {"steps": missing, "fork_at": at}
    await _hold(driver, found.message, about, choices=choices, details=found.details)


async def _hold(
    driver: Driver,
    told: str,
    about: dict[str, Any],
    *,
    choices: Mapping[str, str] = CHOICES,
    details: Mapping[str, str] | None = None,
) -> None:
    text = foreign.text(told)
    schema = {"enum": list(choices), "x-labels": choices, "x-about": about}
    if details:
        schema["x-details"] = details

    def held(state: RunState) -> list[Event]:
        if state.phase not in {Phase.RUNNING, Phase.WAITING} or driver.lost:
            return []
        return [
            e.HoldPlaced(cause=Cause.STALE, why=text),
            e.QuestionOpened(
                epoch=driver.epoch,
                kind="stale",
                message=text,
                schema=values.encode("stale", "its schema", schema),
                step=f"stale:{state.head}",
            ),
        ]

    await driver.log.decide(held)


def is_answered(driver: Driver) -> bool:
    """Return whether the run's question is answered, so that the hold can be acted on."""
    state = driver.log.state
    asks = any(question.kind == "stale" for question in state.questions.values())
    return Cause.STALE in state.holds and not asks


async def resolve(driver: Driver) -> None:
    """Do what the person has answered."""
    question = driver.replay.stale_question
    answer = driver.replay.answers.get(question) if question else None
    if question is None or answer is None:
        await _lift(driver, [])  # held without a question: by an older version
        return
    about = msgspec.json.decode(driver.replay.asked[question].schema).get("x-about", {})
    match values.decode(answer.payload) if answer.by else "":
        case "cancel":
            await _cancel(driver, answer, question)
        case "fork" if not driver.source_gone:
            place = about.get("fork_of", driver.run), about.get("fork_at", 0)
            await fork_and_stop(driver, answer, question, place)
        case "go on" | "take over" | "fork" as said:  # a fork of nothing ends where it is called
            taken = said == TAKE_OVER
            await _lift(driver, _accepting(driver, about, answer.at, take_over=taken))
        case _:  # withdrawn or expired: what was to be decided still is
            await _ask_again(driver, question)


def _accepting(driver: Driver, about: dict[str, Any], at: float, *, take_over: bool) -> list[Event]:
    """The changed world is the one to go on with. What is too old counts from the answer."""
    epoch, guards = driver.epoch, driver.log.state.guards
    accepted: list[Event] = [
        e.GuardSet(
            epoch=epoch,
            name=name,
            kind=guards[name][0],
            fingerprint=repr(at) if guards[name][0] == Age.kind else look,
            why="accepted",
        )
        for name, look in about.get("guards", {}).items()
        if name in guards
    ]
    if "steps" in about:
        steps = tuple(about["steps"])
        accepted += _withdrawn(driver, steps)
        accepted.append(e.RecordsDropped(epoch=epoch, steps=steps, take_over=take_over))
    return accepted


def _withdrawn(driver: Driver, steps: Collection[str]) -> list[Event]:
    """Questions among them that are still open: nobody waits for their answer."""
    asked = (driver.replay.questions.get(step) for step in steps)
    return [
        e.QuestionClosed(question=question, why=f"{WITHDRAWN}: not asked any more")
        for question in asked
        if question in driver.log.state.questions
    ]


async def _lift(driver: Driver, before: list[Event]) -> None:
    lifted = [*before, e.HoldLifted(cause=Cause.STALE)]
    await driver.log.decide(lambda s: lifted if Cause.STALE in s.holds and not driver.lost else [])


async def _ask_again(driver: Driver, question: int) -> None:
    asked = driver.replay.asked[question]
    again = msgspec.structs.replace(asked, epoch=driver.epoch, expires_at=None)
    await driver.log.decide(lambda s: [again] if Cause.STALE in s.holds and not driver.lost else [])


async def _cancel(driver: Driver, answer: Answered, question: int) -> None:
    """The answer is the person's cancel, under a key of its own."""
    assert answer.who is not None
    await driver.cancel(e.CancelRequested(who=answer.who, key=f"answer:{question}"))
