"""Scripted agents, one for each thing that an AG-UI client can meet."""

from __future__ import annotations

from typing import Any

import anyio

from midflight.agents import Agent, agent
from midflight.assistant import Profile, assistant
from midflight.journal.record import Limits
from midflight.models.model import Prompt
from midflight.models.scripted import Line, ScriptedModel, call_all, say
from midflight.run import Run
from midflight.tools.declaration import tool
from midflight.tools.progress import emit

HELD_S = 50.0
LET_GO: set[str] = set()
"""Runs of ``held`` that may go on."""

SIZE = {
    "type": "object",
    "properties": {"size": {"enum": ["small", "large"]}},
    "required": ["size"],
}


@tool(effect="read")
async def look_up(what: str) -> dict[str, Any]:
    emit(f"Looking for {what}")
    emit(" … found.")
    return {"found": what}


@tool(effect="write", label="order")
async def order(what: str, idempotency_key: str = "") -> str:
    return f"ordered {what}"


@tool(effect="once", label="invoice", approval="Invoices are final.")
async def send_invoice(amount: int) -> str:
    return f"sent an invoice over {amount}"


@tool(effect="read")
async def count_slowly(upto: int) -> int:
    for number in range(upto):
        emit(f"{number} ")
        await anyio.sleep(0.03)
    return upto


@tool(effect="read")
async def count_until_let_go(run: str) -> int:
    """Whoever presses something meanwhile comes in time, however slow the machine is."""
    for number in range(10):
        emit(f"{number} ")
        await anyio.sleep(0.01)
    with anyio.fail_after(HELD_S):
        while run not in LET_GO:  # noqa: ASYNC110 - a person of the story does it
            await anyio.sleep(0.01)
    return 10


@agent("plain")
async def plain(run: Run) -> str:
    await run.plan("Look it up", "Order it")
    await run.step("Look it up", look_up, run.brief)
    await run.step("Order it", order, what=run.brief)
    await run.say(f"Done: {run.brief}.")
    return "all done"


@agent("asker")
async def asker(run: Run) -> str:
    answer = await run.ask("Which size?", schema=SIZE)
    said = f"{answer.payload['size']} for {answer.by}" if answer.payload else "no size"
    await run.say(f"I take it: {said}.")
    return said


@agent("hurried")
async def hurried(run: Run) -> str:
    answer = await run.ask("Quick: which size?", schema=SIZE, expires_in=3.0)
    return "in time" if answer.given else "too late"


@agent("biller")
async def biller(run: Run) -> str:
    return str(await run.step("Send the invoice", send_invoice, amount=100))


@agent("careful")
async def careful(run: Run) -> str:
    approval = await run.approve("Shall I go on?", details={"pages": 3})
    return f"{approval.decision or 'nobody said'} {approval.edit or approval.respond}".strip()


@agent("choosy")
async def choosy(run: Run) -> str:
    """Takes an answer of one person only."""
    return str((await run.ask("Well?", answerers=["carol"])).payload)


@agent("twice")
async def twice(run: Run) -> list[Any]:
    """Asks two things at once."""
    answers: dict[str, Any] = {}

    async def ask(what: str) -> None:
        answers[what] = (await run.ask(what, schema={"type": "string"})).payload

    async with anyio.create_task_group() as asking:
        for what in ("Name?", "Street?"):
            asking.start_soon(ask, what)
    return [answers["Name?"], answers["Street?"]]


@agent("slow")
async def slow(run: Run) -> str:
    await run.step("Order it", order, what="tea")
    await run.step("Count", count_slowly, 30)
    read = [message.text for message in await run.inbox()]
    await run.say(f"Counted. You wrote: {', '.join(read) or 'nothing'}.")
    return run.brief


@agent("held")
async def held(run: Run) -> str:
    """As ``slow``, but it goes on when it is let go."""
    await run.step("Order it", order, what="tea")
    await run.step("Count", count_until_let_go, run.id)
    read = [message.text for message in await run.inbox()]
    await run.say(f"Counted. You wrote: {', '.join(read) or 'nothing'}.")
    return run.brief


@agent("capped", limits=Limits(steps=2))
async def capped(run: Run) -> int:
    for number in range(4):
        await run.step(f"Step {number}", look_up, str(number))
    return 4


@agent("desk")
async def desk(run: Run) -> str:
    said = await run.hand_over("This needs a person")
    return f"{said.by}: {said.payload}"


@agent("chatty", converses=True, triage_after=0.05)
async def chatty(run: Run) -> str:
    """Counts, or asks when it is told to, and reads what it is to incorporate."""
    if "ask" in run.brief:
        return f"{run.brief}: {(await run.ask('Well?')).payload}"
    await run.step("Count", count_slowly, 30)
    read = [message.text for message in await run.inbox()]
    await run.say(f"Done: {run.brief} {read}")
    return run.brief


@agent("failing")
async def failing(run: Run) -> str:
    raise ValueError("the shop is closed")


def script(prompt: Prompt) -> Line:
    """Looks once, then answers, and says both."""
    if prompt.turns[-1].role == "tool":
        return say("I have found it: tea.")
    return call_all(("server_agui_agents_look_up", {"what": "tea"}), text="Let me look it up.")


clerk = assistant("clerk", Profile(ScriptedModel(script), [look_up]), delegates=False)

AGENTS: tuple[Agent, ...] = (
    plain,
    asker,
    hurried,
    biller,
    careful,
    choosy,
    twice,
    slow,
    held,
    capped,
    desk,
    chatty,
    failing,
    clerk,
)
