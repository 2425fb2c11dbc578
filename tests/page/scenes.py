"""A run in each state that a person can meet, held still, and what its bar says and offers.

This is the table of the design: a state that is missing here, or one that offers something else,
is found by ``test_matrix``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import uuid4

from anyio.from_thread import start_blocking_portal

from midflight.control import Control
from midflight.journal.phases import Cause, Phase
from midflight.journal.record import Actor
from midflight.stores import open_store
from page.theatre import Stage, Theatre, soon

TITLE: Final = "Churn of June"
BRIEF: Final = "Churn of June {stage}"  # of agents that find their cues by it


class Scene(NamedTuple):
    """How to get there, the word in the bar, and the labels of the slots in their order."""

    begin: Callable[[Theatre], Stage]
    phase: Phase
    word: str
    slots: tuple[str, ...]
    cause: Cause | None = None


def queued(theatre: Theatre) -> Stage:
    """Of an agent that nobody drives here, started by somebody else on the same store."""
    stage = Stage(theatre, uuid4().hex[:8])

    async def start() -> str:
        async with open_store(str(theatre.folder / "journals.db")) as store:
            control = Control(store, who=Actor(by="eve"))
            return await control.start("elsewhere", TITLE)

    with start_blocking_portal() as portal:  # the browser has the loop of this thread
        stage.run = portal.call(start)
    return stage


def running(theatre: Theatre) -> Stage:
    stage = theatre.begin(brief=TITLE)
    stage.give("fetch", "join")
    stage.until_step("Score churn risk")
    return stage


def changing(theatre: Theatre) -> Stage:
    """With an effect in flight that a pause waits for."""
    stage = running(theatre)
    stage.give("score")
    stage.until_step("Create follow-up tasks")
    return stage


def pressed(stage: Stage, verb: str, phase: str) -> Stage:
    stage.press(verb)
    stage.until(phase)
    return stage


def pausing(theatre: Theatre) -> Stage:
    return pressed(changing(theatre), "pause", "pausing")


def paused(theatre: Theatre) -> Stage:
    return pressed(running(theatre), "pause", "paused")


def capped(theatre: Theatre) -> Stage:
    stage = theatre.begin(brief=TITLE, limits={"usd": 0.4})
    stage.give("fetch", "join", "score")
    stage.until("paused")
    return stage


def taken_over(theatre: Theatre) -> Stage:
    return pressed(running(theatre), "take_over", "paused")


def parked(theatre: Theatre) -> Stage:
    stage = theatre.begin("clerk", BRIEF, title=TITLE)
    stage.until_step("Look")
    text = f"first tell me about March {stage.name}"
    theatre.post(f"/v1/threads/{stage.thread}/messages", {"text": text})
    stage.until("paused")
    return stage


def stale(theatre: Theatre) -> Stage:
    stage = theatre.begin("trader", BRIEF, title=TITLE)
    soon((stage.cues / "relied on").exists, "the guard")  # how it looks later is a change
    stage.press("pause")
    stage.until("paused")
    stage.give("prices")
    stage.press("resume")
    soon(lambda: stage.view["questions"], "the question")
    stage.until("paused")
    return stage


def waiting(theatre: Theatre) -> Stage:
    stage = theatre.begin(brief=TITLE)
    stage.give("fetch", "join", "score", "tasks", "memo", "send")
    stage.until("waiting")
    return stage


def cancelling(theatre: Theatre) -> Stage:
    return pressed(waiting(theatre), "cancel", "cancelling")


def cancelled(theatre: Theatre) -> Stage:
    stage = waiting(theatre)
    stage.give("undo")
    return pressed(stage, "cancel", "cancelled")


def cancelled_at_once(theatre: Theatre) -> Stage:
    stage = waiting(theatre)
    stage.press("cancel", now=True)
    stage.until("cancelled")
    stage.give("undo")
    return stage


def undo_broken_off(theatre: Theatre) -> Stage:
    """Of the memo nobody knows how far its undo had come; of the task none was begun."""
    stage = cancelling(theatre)
    stage.press("cancel", now=True)
    stage.until("cancelled")
    return stage


def failed(theatre: Theatre) -> Stage:
    stage = theatre.begin("failing", TITLE)
    stage.give("fetch", "again")
    stage.until("failed")
    return stage


def done(theatre: Theatre) -> Stage:
    stage = waiting(theatre)
    (asked,) = stage.view["questions"]
    stage.press("answer", question=asked["question"], payload="approve")
    stage.until("done")
    stage.give("undo")
    return stage


def killed(theatre: Theatre) -> Stage:
    return kill(running(theatre))


def killed_in_flight(theatre: Theatre) -> Stage:
    return kill(changing(theatre))


def kill(stage: Stage) -> Stage:
    """By an operator, who allows other runs again at once."""
    scope = f"thread:{stage.thread}"
    stage.theatre.post("/v1/operator/kill", {"scope": scope, "reason": "wrong prices"})
    stage.until("killed")
    stage.theatre.post("/v1/operator/release", {"scope": scope})
    return stage


def hasty(theatre: Theatre) -> Stage:
    stage = theatre.begin("hasty")
    stage.give("look")
    stage.until("done")
    return stage


def retrying(theatre: Theatre) -> Stage:
    return theatre.begin("caller")  # tries again after half a minute


TURN: Final = ("Redirect", "Cancel")

SCENES: Final = {
    "queued": Scene(queued, Phase.QUEUED, "Queued", ("Pause", *TURN)),
    "running": Scene(running, Phase.RUNNING, "Running", ("Pause", *TURN)),
    "pausing": Scene(pausing, Phase.PAUSING, "Pausing", ("Keep running", *TURN), Cause.USER),
    "paused": Scene(paused, Phase.PAUSED, "Paused", ("Resume", *TURN), Cause.USER),
    "at the cap": Scene(
        capped, Phase.PAUSED, "Paused at the cap", ("Raise cap", *TURN), Cause.CAP
    ),
    "taken over": Scene(
        taken_over, Phase.PAUSED, "robot has it", ("Hand back", *TURN), Cause.HUMAN
    ),
    "parked": Scene(parked, Phase.PAUSED, "Parked", ("Bring back", *TURN), Cause.PARKED),
    "stale": Scene(stale, Phase.PAUSED, "Waiting for you", ("Review", *TURN), Cause.STALE),
    "waiting": Scene(waiting, Phase.WAITING, "Waiting for you", ("Review", *TURN)),
    "cancelling": Scene(
        cancelling, Phase.CANCELLING, "Cancelling", ("Pause", "Redirect", "Stop now")
    ),
    "done": Scene(done, Phase.DONE, "Done", ("Start another", "Open result", "Undo")),
    "cancelled": Scene(cancelled, Phase.CANCELLED, "Cancelled", ("Start again", "New run")),
    "cancelled at once": Scene(
        cancelled_at_once, Phase.CANCELLED, "Cancelled", ("Start again", "New run", "Undo")
    ),
    "failed": Scene(
        failed, Phase.FAILED, "Failed at step 2", ("Try again", "Redirect", "Close")
    ),
    "killed": Scene(
        killed, Phase.KILLED, "Stopped by an operator", ("New run", "Recover")
    ),
}  # fmt: skip
