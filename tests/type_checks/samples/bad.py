"""Mistakes in the use of the public API: type checkers find each one, on its line."""

from midflight import Approval, Client, Run, Step, agent, tool


@tool(effect="sometimes")  # error
async def look_up(customer: str, *, limit: int = 10) -> list[int]:
    return [len(customer)] * limit


@tool(effect="read")
async def count(numbers: list[int]) -> int:
    return len(numbers)


@tool(effect="once", retry="twice")  # error
async def pay(amount: float) -> None: ...


@tool(effect="once", approval=Approval(within="soon"))  # error
async def send(to: str) -> None: ...


@agent
async def clerk(run: Run) -> int:
    await run.step("Count", count, "not a list")  # error
    await run.step("Count", count)  # error
    await run.step("Count", count, [1], limit=3)  # error
    await run.step("Count", count, [1], key="x")  # error
    await run.step(Step("Count", kay="x"), count, [1])  # error
    text: str = await run.step("Count", count, [1])  # error
    seats = await run.ask("How many?", schema=int)
    text += seats.payload  # error
    return len(text)


@agent(mode="sideways")  # error
async def sideways(run: Run) -> None:
    await run.plan("One step")


async def main(client: Client) -> None:
    run = await client.start(clerk, "Ada Grace")
    await run.pause(scope="everything")  # error
    await run.result(on_question="shout")  # error
    words: str = await run.result()  # error
    await run.redirect()  # error
    await client.run(words).cancel(when="now")  # error
    await client.kill("everything")  # error
    await client.kill(agent=clerk, thread="t-1")  # error
    thread = await run.thread()
    await thread.overrule(1, "sometime")  # error
