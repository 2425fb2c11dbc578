"""People in the loop: a question, a rule of the house, a failure. The model follows a script.

The same three with a model of your own: give ``Profile`` another one, see ``examples/assisted.py``.
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from midflight import Agent, Control, local, tool
from midflight.assistant import Profile, Rules, assistant
from midflight.models.scripted import ScriptedModel, call, say


@tool(effect="read", name="people.count")
async def count(region: str) -> str:
    """Count the customers of a region."""
    return f"12 customers in {region}"


@tool(effect="once", name="people.discount")
async def discount(percent: int) -> str:
    """Give every customer a discount."""
    return f"{percent} % given"


@tool(effect="read", name="people.rate")
async def rate(currency: str) -> str:
    """Look a rate of exchange up."""
    if currency != "EUR":
        raise ValueError(f"no rate for {currency}")
    return "1.08"


asks = ScriptedModel(
    [
        call("ask_person", question="Which region?", choices=["EU", "US"]),
        call("people_count", region="EU"),
        say("There are 12 customers in the EU."),
    ]
)
obeys = ScriptedModel([call("people_discount", percent=90), say("Then 10 % it is.")])
fails = ScriptedModel([call("people_rate", currency="EURO"), say("A euro is 1.08 dollars.")])

gathers = assistant("gathers", Profile(asks, [count]))
ruled = assistant("ruled", Profile(obeys, [discount], policy=Rules(ask=["people.discount"])))
mends = assistant("mends", Profile(fails, [rate], on_error="ask"))


async def scene(control: Control, agent: Agent, brief: str, answer: Any) -> None:
    """Start it, answer its question as a person would, and hear what it says."""
    run = await control.start(agent, brief)
    state = await control.until(run, lambda state: bool(state.questions))
    question = next(iter(state.questions.values()))
    print(f"{question.message}\n  > {answer}")
    await control.answer(run, question.position, answer)
    print(f"  {await control.result(run)}\n")


async def main() -> None:
    """Gathering information, policy, error recovery."""
    agents = (gathers, ruled, mends)
    async with local("memory:", *agents, workdir=tempfile.mkdtemp()) as control:
        await scene(control, gathers, "How many customers have we?", "EU")
        await scene(control, ruled, "Make everybody happy", {"edit": {"kwargs": {"percent": 10}}})
        await scene(control, mends, "What is a euro?", {"edit": {"currency": "EUR"}})


if __name__ == "__main__":
    asyncio.run(main())
