"""Code that uses the public API as intended: type checkers accept it, and know every type."""

from typing import assert_type

import midflight
from midflight import (
    Agent,
    Answer,
    Approval,
    ApprovalAnswer,
    Child,
    Client,
    QuestionHandle,
    Retry,
    Run,
    RunHandle,
    Step,
    agent,
    tool,
)
from midflight.journal.record import Recorded


@tool
async def look_up(customer: str, *, limit: int = 10) -> list[int]:
    return [len(customer)] * limit


@tool(effect="read", timeout=5)
def count(numbers: list[int]) -> int:
    return len(numbers)


@tool(effect="write")
async def pay(amount: float, idempotency_key: str = "") -> str:
    return f"{amount} {idempotency_key}"


async def undeclared(text: str) -> bool:
    return bool(text)


@agent
async def clerk(run: Run) -> int:
    found = await run.step("Look up", look_up, "ada", limit=3)
    assert_type(found, list[int])
    assert_type(await run.step("Count", count, found), int)
    assert_type(await run.step(Step("Pay", key="invoice-7"), pay, 3.5), str)
    assert_type(await run.step("Check", undeclared, "text"), bool)
    return len(found)


@tool(
    effect="once",
    label="mail",
    describe="mail to {to}",
    undo_window=5,
    approval=Approval(within=60),
)
async def send(to: str) -> None: ...


@tool(effect="read", max_age=60, retry=Retry(times=3, first_after=0.1))
async def read() -> str:
    return "read"


@agent
async def asker(run: Run) -> str:
    seats = await run.ask("How many?", schema=int)
    assert_type(seats, Answer[int])
    assert_type(seats.payload, int | None)
    allowed = await run.approve("May it?")
    assert_type(allowed, ApprovalAnswer)
    return allowed.decision


@agent("leader", mode="boundary")
async def leader(run: Run) -> str:
    child = await run.spawn(clerk, "Count them.")
    assert_type(child, Child[int])
    return str(await child.result())


async def main() -> None:
    assert_type(clerk, Agent[int])
    async with midflight.open("midflight.db", agents=[clerk, leader]) as client:
        run = await client.start(clerk, "Ada Grace")
        assert_type(run, RunHandle[int])
        await run.pause(scope="this")
        await run.redirect("Ada Barbara", resume=True)
        assert_type(await run.next_question(), QuestionHandle)
        assert_type(await run.result(on_question="raise"), int)
        await watch(client, run.id)


async def watch(client: Client, name: str) -> None:
    receipt = await client.run(name).cancel_and_wait()
    assert_type([line.text for line in receipt.lines], list[str])
    async with client.run(name).watch() as events:
        async for record in events:
            assert_type(record, Recorded)
    await client.kill("all", reason="a test")
    await client.release(agent=clerk)
    for switch in await client.switches():
        await client.release(switch)


async def remote() -> None:
    async with midflight.connect("http://127.0.0.1:8420", "token") as client:
        assert_type(client, Client)
        await watch(client, "r-1")
