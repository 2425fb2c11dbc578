"""Stops a run that comes back to another world than the one it left, and asks a person.

Either what it relied on has changed, or its own code has. The hold and its question are one
decision, and the meaning of the answer is written down with the question, so that any driver can
act on it later.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from midflight.executor import foreign, values
from midflight.executor.forking import fork_and_stop
from midflight.executor.heard import Answered
from midflight.executor.host import Host
from midflight.guards import Age
from midflight.kernel import events as e
from midflight.kernel.decide import WITHDRAWN
from midflight.kernel.phases import Cause, Phase
from midflight.kernel.record import Event
from midflight.kernel.state import RunState

ACCEPTED: Final = "*"  # the look of a guard that could not be seen: whatever it is, a person said
TAKE_OVER: Final = "take over"
CHOICES: Final = {
    "go on": "Go on with it as it is now",
    "fork": "Begin a new run from there",
    "cancel": "Cancel the run",
}


async def hold_for_guards(host: Host, changed: Mapping[str, str], looks: Mapping[str, str]) -> None:
    """Hold the run because what it relied on has changed, and ask whether it may go on.

    A person who says *go on* accepts these looks; what changes after the question is asked again.
    """
    told = "; ".join(f"{name} {words}" for name, words in changed.items())
    text = f"What this run relies on has changed: {told}. Go on?"
    places = (place for name, place in host.history.guarded_at.items() if name in changed)
    run, at = next(places, (host.journal.run, 0))  # in the order of their noting
    await hold(host, text, {"guards": dict(looks), "fork_of": run, "fork_at": at})


async def hold(
    host: Host,
    told: str,
    about: dict[str, Any],
    *,
    choices: Mapping[str, str] = CHOICES,
    details: Mapping[str, str] | None = None,
) -> None:
    """Hold the run and ask; ``about`` says what an answer means."""
    text = foreign.text(told)
    schema = {"enum": list(choices), "x-labels": choices, "x-about": about}
    if details:
        schema["x-details"] = details

    def held(state: RunState) -> list[Event]:
        if state.phase not in {Phase.RUNNING, Phase.WAITING} or host.journal.lost:
            return []
        return [
            e.HoldPlaced(cause=Cause.STALE, why=text),
            e.QuestionOpened(
                epoch=host.journal.epoch,
                kind="stale",
                message=text,
                schema=values.encode("stale", "its schema", schema),
                step=f"stale:{state.head}",
            ),
        ]

    await host.journal.decide(held)


def is_answered(host: Host) -> bool:
    """Return whether the run's question is answered, so that the hold can be acted on."""
    state = host.journal.state
    asks = any(question.kind == "stale" for question in state.questions.values())
    return Cause.STALE in state.holds and not asks


async def resolve(host: Host) -> None:
    """Do what the person has answered."""
    question = host.history.stale_question
    answer = host.history.answers.get(question) if question else None
    if question is None or answer is None:
        await _lift(host, [])  # held without a question: by an older version
        return
    about = msgspec.json.decode(host.history.asked[question].schema).get("x-about", {})
    match values.decode(answer.payload) if answer.by else "":
        case "cancel":
            await _cancel(host, answer, question)
        case "fork" if not host.lineage.gone:
            place = about.get("fork_of", host.journal.run), about.get("fork_at", 0)
            await fork_and_stop(host, answer, question, place)
        case "go on" | "take over" | "fork" as said:  # a fork of nothing ends where it is called
            taken = said == TAKE_OVER
            await _lift(host, _accepting(host, about, answer.at, take_over=taken))
        case _:  # withdrawn or expired: what was to be decided still is
            await _ask_again(host, question)


def _accepting(host: Host, about: dict[str, Any], at: float, *, take_over: bool) -> list[Event]:
    """The changed world is the one to go on with. What is too old counts from the answer."""
    epoch, guards = host.journal.epoch, host.journal.state.guards
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
        accepted += _withdrawn(host, steps)
        accepted.append(e.RecordsDropped(epoch=epoch, steps=steps, take_over=take_over))
    return accepted


def _withdrawn(host: Host, steps: Collection[str]) -> list[Event]:
    """Questions among them that are still open: nobody waits for their answer."""
    asked = (host.history.questions.get(step) for step in steps)
    return [
        e.QuestionClosed(question=question, why=f"{WITHDRAWN}: not asked any more")
        for question in asked
        if question in host.journal.state.questions
    ]


async def _lift(host: Host, before: list[Event]) -> None:
    lifted = [*before, e.HoldLifted(cause=Cause.STALE)]
    await host.journal.decide(
        lambda s: lifted if Cause.STALE in s.holds and not host.journal.lost else []
    )


async def _ask_again(host: Host, question: int) -> None:
    asked = host.history.asked[question]
    again = msgspec.structs.replace(asked, epoch=host.journal.epoch, expires_at=None)
    await host.journal.decide(
        lambda s: [again] if Cause.STALE in s.holds and not host.journal.lost else []
    )


async def _cancel(host: Host, answer: Answered, question: int) -> None:
    """The answer is the person's cancel, under a key of its own."""
    assert answer.who is not None
    request = e.CancelRequested(who=answer.who, key=f"answer:{question}")
    await host.journal.cancel(request, host.signals.is_stopped)
