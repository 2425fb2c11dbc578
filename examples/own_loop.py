"""Your own loop, made interruptible: a plain ``async def`` with ``await run.step(...)``.

A person pauses the first run, redirects it and resumes it. The person cancels the second run, and
the tasks that it had created are removed.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import midflight
from midflight import EffectRecord, Run, agent, tool

TASKS: list[str] = []  # stands for a CRM


@tool(effect="read")
async def fetch_customers(where: str) -> list[str]:
    """Read the customers. A read may be ended at any moment, and is done again."""
    await asyncio.sleep(0.1)
    return [f"{name} ({where})" for name in ("Ada", "Grace", "Edsger", "Barbara")]


async def remove_task(made: EffectRecord) -> None:
    """Undo a task."""
    TASKS.remove(made.result)


@tool(effect="once", label="task", undo=remove_task)
async def create_task(customer: str) -> str:
    """Have an effect: on record before it begins, never done twice, undone by a cancel."""
    await asyncio.sleep(0.1)
    TASKS.append(f"call {customer}")
    return TASKS[-1]


@agent
async def follow_up(run: Run) -> list[str]:
    """Create a task for every customer."""
    customers = await run.step("Fetch customers", fetch_customers, run.brief)
    return [await run.step(f"Task for {name}", create_task, name) for name in customers]


async def main() -> None:
    """Interrupt two runs, as a person would."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "midflight.db"
        async with midflight.open(path, agents=[follow_up], workdir=folder) as client:
            run = await client.start(follow_up, "everywhere")
            await run.pause()
            state = await run.wait_paused()
            print("paused   ", state.phase)
            await run.redirect("in the EU", resume=True)
            print("result   ", await run.result())

            TASKS.clear()
            run = await client.start(follow_up, "in the EU")
            await run.until(lambda state: state.spent.steps == 3)
            print("cancel   ", (await run.preview())["cancel"].consequence)
            receipt = await run.cancel_and_wait()
            print("ended    ", receipt.phase)
            for line in receipt.lines:
                print("receipt  ", line.text)
            print("left     ", TASKS)


if __name__ == "__main__":
    asyncio.run(main())
