"""Agents that hold still wherever a test wants: each step waits for its cue, which is a file.

Served by the real command in a process of its own, so it can be killed and brought back.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from midflight import Limits, Run, agent, tool
from midflight.conversation import Action, Choice, TriageView
from midflight.guards import FileContent
from midflight.tools.options import EffectRecord, Retry
from midflight.tools.progress import emit, spend

CUES = Path(os.environ.get("MIDFLIGHT_CUES", "cues"))
PLAN = (
    "Fetch customers",
    "Join revenue",
    "Score churn risk",
    "Create follow-up tasks",
    "Write memo",
    "Send memo",
)


async def cue(stage: str, name: str) -> None:
    """Wait until a test says so."""
    while not any((CUES / stage / given).exists() for given in (name, "all")):  # noqa: ASYNC110
        await anyio.sleep(0.02)


@tool(effect="read", name="page.fetch")
async def fetch(stage: str) -> list[dict[str, Any]]:
    emit("Reading the customers table")
    await cue(stage, "fetch")
    return [{"name": f"Customer {n}", "mrr": n * 10} for n in range(412)]


@tool(effect="read", name="page.join")
async def join(stage: str) -> dict[str, Any]:
    await cue(stage, "join")
    return {"customers": 412, "revenue": 84_210}


@tool(effect="model", name="page.score")
async def score(stage: str, brief: str) -> dict[str, Any]:
    spend(900, 0.3)
    for word in f"Scoring for: {brief}. Tenure and tickets weigh most.".split():
        emit(f"{word} ")
        await anyio.sleep(0.005)
    await cue(stage, "score")
    spend(300, 0.12)
    return {"text": f"38 at risk ({brief})"}


async def undo(done: EffectRecord) -> None:
    await cue(done.args[0], "undo")


@tool(
    effect="once", name="page.tasks", label="follow-up task", describe="follow-up task", undo=undo
)
async def create_tasks(stage: str) -> str:
    await cue(stage, "tasks")
    return "20 tasks created"


@tool(effect="write", name="page.memo", label="memo", describe="memo", undo=undo)
async def write_memo(stage: str) -> str:
    await cue(stage, "memo")
    return "memo.md, three pages"


@tool(effect="once", name="page.send", label="email", describe="email", irreversible=True)
async def send(stage: str, to: str) -> str:
    await cue(stage, "send")
    return f"sent to {to}"


@agent("report", limits=Limits(usd=2.0))
async def report(run: Run) -> str:
    """Six steps, each with its cue."""
    stage = run.input["stage"]
    await run.plan(*PLAN)
    await run.step(PLAN[0], fetch, stage)
    await run.step(PLAN[1], join, stage)
    await run.step(PLAN[2], score, stage, run.brief)
    await run.step(PLAN[3], create_tasks, stage)
    await run.step(PLAN[4], write_memo, stage)
    sent = await run.step(PLAN[5], send, stage, "ana@example.com")
    return f"The report is done: {sent}"


@agent("asker")
async def asker(run: Run) -> Any:
    """Asks what it was told to ask."""
    given = run.input
    answer = await run.ask(
        given.get("message", "Which one?"),
        schema=given["schema"],
        expires_in=given.get("expires_in"),
    )
    return {"answered": answer.payload, "by": answer.by}


async def chosen(view: TriageView) -> Sequence[Choice]:
    """By the first word of a message, so that a test says what becomes of it."""
    words: dict[str, Action] = {"also": "incorporate", "first": "switch", "later": "defer"}
    return [
        Choice(one.id, words.get(one.text.split()[0].lower(), "incorporate"))
        for one in view.messages
    ]


@tool(effect="read", name="page.look")
async def look(stage: str, name: str) -> str:
    await cue(stage, name)
    return f"looked at {name}"


@agent("clerk", converses=True, triage=chosen, triage_after=0.03)
async def clerk(run: Run) -> str:
    """Answers in its thread; the last word of a brief or message names its cues."""
    stage = run.brief.split()[-1]
    await run.plan("Look", "Look again", "Sum up")
    heard: list[str] = []
    for name in ("Look", "Look again", "Sum up"):
        await run.step(name, look, stage, name.lower())
        heard += [message.text for message in await run.inbox()]
    await run.say(f"I have looked. {' '.join(heard)}".strip())
    return "looked"


@agent("errand", converses=True, triage=chosen, triage_after=0.03)
async def errand(run: Run) -> str:
    """Asks before it sends, then leaves something behind; its brief ends with the stage."""
    stage = run.brief.split()[-1]
    await run.plan("Look", "Send note", "Write memo", "Look again")
    await run.step("Look", look, stage, "look")
    await run.inbox()
    await run.step("Send note", send, stage, "ana@example.com")
    await run.step("Write memo", write_memo, stage)
    await run.step("Look again", look, stage, "look again")
    return "errand done"


@agent("hasty")
async def hasty(run: Run) -> str:
    """Is done before its plan is."""
    await run.plan("Look", "Look again")
    return str(await run.step("Look", look, run.input["stage"], "look"))


@agent("trader")
async def trader(run: Run) -> str:
    """Relies on a file; the last word of its brief names its cues."""
    stage = run.brief.split()[-1]
    await run.plan("Look")
    await run.guard(FileContent(CUES / stage / "prices", "prices"))
    (CUES / stage / "relied on").touch()
    return str(await run.step("Look", look, stage, "look"))


@tool(effect="read", name="page.flaky", retry=Retry(2, first_after=0.05))
async def flaky(stage: str) -> str:
    if not (CUES / stage / "well").exists():
        await cue(stage, "again")
        raise RuntimeError("the line is busy")
    return "through"


@tool(effect="model", name="page.unsteady", retry=Retry(3, first_after=30.0))
async def unsteady(stage: str) -> str:
    if not (CUES / stage / "well").exists():
        raise RuntimeError("the line is busy")
    return "through"


@agent("caller")
async def caller(run: Run) -> str:
    """Tries again after half a minute."""
    return str(await run.step("Call", unsteady, run.input["stage"]))


@agent("failing")
async def failing(run: Run) -> str:
    """Fails in its second step."""
    await run.plan("Fetch customers", "Call the bank", "Write memo")
    await run.step("Fetch customers", fetch, run.input["stage"])
    return str(await run.step("Call the bank", flaky, run.input["stage"]))


@agent("parent")
async def parent(run: Run) -> Any:
    """Has a background run."""
    child = await run.spawn(looker, f"Look around {run.input['stage']}")
    await run.step("Fetch customers", fetch, run.input["stage"])
    return await child.result()


@agent("chief")
async def chief(run: Run) -> str:
    """Waits for its background run before its last step."""
    child = await run.spawn(looker, f"Look around {run.input['stage']}")
    await run.step("Fetch customers", fetch, run.input["stage"])
    await child.result()
    return str(await run.step("Write memo", write_memo, run.input["stage"]))


@agent("looker")
async def looker(run: Run) -> str:
    """Looks once; the last word of its brief names its cue."""
    return str(await run.step("Look", look, run.brief.split()[-1], "around"))


@tool(effect="read", name="page.count")
async def count(number: int) -> str:
    return f"counted {number}"


@tool(effect="model", name="page.recite")
async def recite(stage: str, seconds: float) -> str:
    said = 0
    with anyio.move_on_after(seconds):
        while True:
            emit(f"word {said} of a long text that goes on and on. ")
            said += 1
            await anyio.sleep(0.01)
    return f"{said} words"


@agent("counter")
async def counter(run: Run) -> str:
    """Many small steps, then holds still, or talks for a while."""
    for number in range(run.input["steps"]):
        await run.step(f"Count {number + 1}", count, number)
    if run.input.get("recite"):
        await run.step("Recite", recite, run.input["stage"], run.input["recite"])
    await run.step("Look", look, run.input["stage"], "end")
    return "counted"
