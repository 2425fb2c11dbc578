"""Your own loop, made interruptible: a plain ``async def`` with ``await run.step(...)``.

This one is paused, redirected and resumed; the second time it is cancelled, and what it had made
is undone.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from midflight import Performed, Run, agent, local, tool

TASKS: list[str] = []  # stands for a CRM


@tool(effect="read")
async def fetch_customers(where: str) -> list[str]:
    """A read: it may be ended at any moment, and is done again."""
    await asyncio.sleep(0.1)
    return [f"{name} ({where})" for name in ("Ada", "Grace", "Edsger", "Barbara")]


async def remove_task(made: Performed) -> None:
    """How a task is undone."""
    TASKS.remove(made.result)


@tool(effect="once", noun="task", undo=remove_task)
async def create_task(customer: str) -> str:
    """An effect: on record before it begins, never done twice, undone by a cancel."""
    await asyncio.sleep(0.1)
    TASKS.append(f"call {customer}")
    return TASKS[-1]


@agent()
async def follow_up(run: Run) -> list[str]:
    """The whole agent."""
    customers = await run.step("Fetch customers", fetch_customers, run.brief)
    return [await run.step(f"Task for {name}", create_task, name) for name in customers]


async def main() -> None:
    """Interrupt it, as a person would."""
    with tempfile.TemporaryDirectory() as folder:
        async with local(Path(folder) / "midflight.db", follow_up, workdir=folder) as control:
            run = await control.start(follow_up, "everywhere")
            await control.applied(await control.pause(run))
            print("paused   ", (await control.state(run)).phase)
            await control.redirect(run, "in the EU", resume=True)
            print("result   ", await control.result(run))

            TASKS.clear()
            run = await control.start(follow_up, "in the EU")
            await control.until(run, lambda state: state.spent.steps == 3)
            print("cancel   ", (await control.preview(run))["cancel"].consequence)
            await control.cancel(run)
            print("ended    ", (await control.ended(run)).phase)
            for line in (await control.receipt(run)).lines:
                print("receipt  ", line.text)
            print("left     ", TASKS)


if __name__ == "__main__":
    asyncio.run(main())
