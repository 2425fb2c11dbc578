"""Agents for the commands to work with: one of each kind that people meet."""

from __future__ import annotations

import anyio

from midflight.agents import agent
from midflight.run import Run
from midflight.tools.declaration import tool
from midflight.tools.options import EffectRecord
from midflight.tools.progress import emit


async def look_for(seconds: float, about: str) -> str:
    for _ in range(int(seconds * 20)):
        emit(f"{about} ")
        await anyio.sleep(0.05)
    return about


async def file_away(what: str) -> str:
    return f"filed {what}"


async def take_back(performed: EffectRecord) -> None:
    pass


look = tool(effect="read", name="staff.look")(look_for)
file = tool(effect="write", name="staff.file", label="note", undo=take_back)(file_away)


@agent()
async def porter(run: Run) -> str:
    """Files something, then looks about for as long as its input says."""
    await run.plan("File", "Look", "Close")
    await run.step("File", file, run.brief)
    await run.step("Look", look, float((run.input or {}).get("seconds", 30)), run.brief)
    closed: str = await run.step("Close", look, 0.0, run.brief)
    return f"closed {closed}"


@agent()
async def asker(run: Run) -> str:
    """Asks before it does anything."""
    answer = await run.ask(
        "Which colour?", schema={"enum": ["red", "green"], "x-labels": {"red": "As before"}}
    )
    return f"{answer.payload} by {answer.by}"


@agent(converses=True)
async def host(run: Run) -> str:
    """Talks."""
    await run.inbox()
    await run.step("Look", look, 30.0, run.brief)
    return "talked"


async def pay_out(amount: int) -> None:
    raise ConnectionError("reset by the bank")


pay = tool(effect="once", name="staff.pay", label="payment")(pay_out)


@agent()
async def payer(run: Run) -> None:
    """Does something, and nobody knows whether it has."""
    await run.step("Pay", pay, 80)


async def wire_to(to: str, amount: int) -> str:
    return f"{amount} to {to}"


wire = tool(effect="once", name="staff.wire", label="transfer", approval=True)(wire_to)


@agent()
async def treasurer(run: Run) -> str:
    """Asks before it pays."""
    wired: str = await run.step("Wire", wire, "Ada", 700)
    return wired


@agent()
async def broken(run: Run) -> None:
    """Fails."""
    raise RuntimeError("the roof is off")


@agent()
async def counter(run: Run) -> str:
    """Three steps, for caps to stop."""
    for number in range(3):
        await run.step(f"Count {number}", look, 0.0, str(number))
    return "counted"


@agent()
async def deferential(run: Run) -> str:
    """Says so, hands over, and goes on with what it is told."""
    await run.say("This one is for a person.")
    answer = await run.hand_over("Please sign the lease")
    return f"signed: {answer.payload} by {answer.by}"


async def answer_aside(run: Run) -> str:
    if run.brief == "slowly?":
        await run.step("Look", look, 2.0, run.brief)
    return f"beside: {run.brief}"


@agent(aside=answer_aside)
async def neighbour(run: Run) -> str:
    """Can be asked beside its work."""
    await run.step("Look", look, 30.0, run.brief)
    return "looked"


async def build_slowly(what: str) -> str:
    await anyio.sleep(60)
    return what


build = tool(effect="write", name="staff.build", label="wall")(build_slowly)


@agent()
async def mason(run: Run) -> str:
    """Is at an effect that takes its time."""
    built: str = await run.step("Build", build, run.brief)
    return built


seal = tool(effect="write", name="staff.seal", label="deed", irreversible=True, approval=False)(
    build_slowly
)


@agent()
async def notary(run: Run) -> str:
    """Is at an effect that nobody can take back."""
    sealed: str = await run.step("Seal", seal, run.brief)
    return sealed


@agent()
async def herald(run: Run) -> str:
    """Says what it does, and ends with its last word."""
    await run.say("first things first")
    await run.step("Look", look, 0.0, run.brief)
    await run.say("and so on")
    return "cried"
