"""A workflow of several steps in which people have their say: gather, check, approve, do.

The agent is a plain loop with no model. It has a plan that every door shows, asks for what it does
not know, keeps to a rule of the house, and has the contract approved before it sends it. If
somebody cancels on the way, the account is closed again.
"""

from __future__ import annotations

import asyncio
import tempfile

import midflight
from midflight import EffectRecord, Run, RunHandle, StepFailed, agent, tool

ACCOUNTS: list[str] = []
SENT: list[str] = []
SEATS_MAX = 50  # a rule of the house: more than that is for a person to sell


async def close(performed: EffectRecord) -> None:
    """Undo an account."""
    ACCOUNTS.remove(performed.args[0])


@tool(effect="write", label="account", undo=close)
async def open_account(name: str) -> str:
    """Open an account. A cancel closes it again."""
    ACCOUNTS.append(name)
    return name


@tool(effect="once", label="contract", irreversible=True)
async def send_contract(to: str, seats: int) -> str:
    """Send a contract. Nobody can call it back, so the run asks first."""
    SENT.append(f"{seats} seats for {to}")
    return SENT[-1]


@agent
async def onboarding(run: Run) -> str:
    """Take a new customer in."""
    await run.plan("Open the account", "Ask for seats", "Send the contract")
    await run.step("Open the account", open_account, run.brief)
    seats = await run.ask("How many seats?", schema=int)
    while seats.payload is None or not 1 <= seats.payload <= SEATS_MAX:
        why = f"At most {SEATS_MAX} without a salesperson. How many seats?"
        seats = await run.ask(why, schema=int)
    try:
        return await run.step("Send the contract", send_contract, run.brief, seats.payload)
    except StepFailed as failed:
        return f"not sent: {failed.error}"


async def answer(run: RunHandle, payload: object) -> None:
    """Answer the next question, as a page, a terminal or a chat would."""
    question = await run.next_question()
    print(f"   {question.message}  ->  {payload!r}")
    await question.answer(payload)


async def main() -> None:
    """Take one customer in. Another one changes their mind at the contract."""
    async with midflight.open("memory:", agents=[onboarding], workdir=tempfile.mkdtemp()) as client:
        run = await client.start(onboarding, "Acme")
        for payload in (500, 20, "approve"):
            await answer(run, payload)
        print("done:", await run.result(), "| accounts:", ACCOUNTS)

        run = await client.start(onboarding, "Bolt")
        await answer(run, 5)
        await run.next_question()
        print("cancel:", (await run.preview())["cancel"].consequence)
        receipt = await run.cancel_and_wait()
        print(f"{receipt.phase}:", [line.text for line in receipt.lines])
        print("accounts:", ACCOUNTS, "| sent:", SENT)


if __name__ == "__main__":
    asyncio.run(main())
