"""People in the loop: a question, a rule of the house, a failure. The model follows a script.

To see the same three scenes with a model of your own, give it to ``Profile`` as
``examples/assisted.py`` does.
"""

from __future__ import annotations

import asyncio
import tempfile

import midflight
from midflight import Agent, Client, tool
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
    """Look up a rate of exchange."""
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


async def scene(client: Client, agent: Agent, brief: str, answer: object) -> None:
    """Start a run, answer its question as a person would, and print its result."""
    run = await client.start(agent, brief)
    question = await run.next_question()
    print(f"{question.message}\n  > {answer}")
    await question.answer(answer)
    print(f"  {await run.result()}\n")


async def main() -> None:
    """Play three scenes: gathering information, a policy, error recovery."""
    agents = [gathers, ruled, mends]
    async with midflight.open("memory:", agents=agents, workdir=tempfile.mkdtemp()) as client:
        await scene(client, gathers, "How many customers have we?", "EU")
        await scene(client, ruled, "Make everybody happy", {"edit": {"kwargs": {"percent": 10}}})
        await scene(client, mends, "What is a euro?", {"edit": {"currency": "EUR"}})


if __name__ == "__main__":
    asyncio.run(main())
