"""A workflow of several steps in which people have their say: gather, check, approve, do.

A plain loop, with no model. It has a plan that every door shows, asks for what it does not know,
keeps to a rule of the house, has the contract approved before it is sent, and gives the account
back if somebody cancels on the way.
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from midflight import Control, Performed, Run, StepFailed, agent, local, tool

ACCOUNTS: list[str] = []
SENT: list[str] = []
SEATS_MAX = 50  # a rule of the house: more than that is for a person to sell


async def close(performed: Performed) -> None:
    """Undo of an account."""
    ACCOUNTS.remove(performed.args[0])


@tool(effect="write", noun="account", undo=close)
async def open_account(name: str) -> str:
    """Open it; a cancel closes it again."""
    ACCOUNTS.append(name)
    return name


@tool(effect="once", noun="contract", irreversible=True)
async def send_contract(to: str, seats: int) -> str:
    """Cannot be called back, so it asks first."""
    SENT.append(f"{seats} seats for {to}")
    return SENT[-1]


@agent()
async def onboarding(run: Run) -> str:
    """Takes a new customer in."""
    await run.plan("Open the account", "Ask for seats", "Send the contract")
    await run.step("Open the account", open_account, run.brief)
    seats = await run.ask("How many seats?", schema={"type": "integer", "minimum": 1})
    while int(seats.payload) > SEATS_MAX:
        why = f"At most {SEATS_MAX} without a salesperson. How many seats?"
        seats = await run.ask(why, schema={"type": "integer", "minimum": 1})
    try:
        return str(await run.step("Send the contract", send_contract, run.brief, seats.payload))
    except StepFailed as failed:
        return f"not sent: {failed.error}"


async def answer(control: Control, run: str, payload: Any) -> None:
    """What a page, a terminal or a chat would do."""
    state = await control.until(run, lambda state: bool(state.questions))
    (question,) = state.questions.values()
    print(f"   {question.message}  ->  {payload!r}")
    await control.answer(run, question.position, payload)


async def main() -> None:
    """One customer is taken in; another changes their mind at the contract."""
    async with local("memory:", onboarding, workdir=tempfile.mkdtemp()) as control:
        run = await control.start(onboarding, "Acme")
        for payload in (500, 20, "approve"):
            await answer(control, run, payload)
        print("done:", await control.result(run), "| accounts:", ACCOUNTS)

        run = await control.start(onboarding, "Bolt")
        await answer(control, run, 5)
        await control.until(run, lambda state: bool(state.questions))
        print("cancel:", (await control.preview(run))["cancel"].consequence)
        await control.cancel(run)
        state = await control.ended(run)
        print(f"{state.phase}:", [line.text for line in (await control.receipt(run)).lines])
        print("accounts:", ACCOUNTS, "| sent:", SENT)


if __name__ == "__main__":
    asyncio.run(main())
