"""An agent asks a person before it sends a letter.

An irreversible tool asks by itself. The person approves, rejects, edits the arguments, or answers
in words. For a moment after the approval a cancel still wins.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import midflight
from midflight import Run, RunHandle, StepFailed, agent, tool

OUTBOX: list[str] = []


@tool(effect="once", irreversible=True, label="email", undo_window=0.2)
async def send(to: str, text: str) -> str:
    """Send a letter, which nobody can take back. The run asks first, and waits a moment."""
    OUTBOX.append(f"to {to}: {text}")
    return OUTBOX[-1]


@agent
async def secretary(run: Run) -> str:
    """Send a letter if a person approves, and otherwise return what the person said."""
    who = await run.ask("Who shall get it?", schema=str)
    if not who.payload:
        return "not sent: nobody said who shall get it"
    try:
        return await run.step("Send the letter", send, who.payload, run.brief)
    except StepFailed as failed:
        return f"not sent: {failed.error}"


async def answer_next(run: RunHandle, payload: object) -> None:
    """Answer the next question, as a page, a terminal or a chat would."""
    question = await run.next_question()
    print(f"   {question.message}  ->  {payload!r}")
    await question.answer(payload)


async def main() -> None:
    """Give four answers to the same question."""
    answers: list[object] = [
        "approve",
        "reject",
        {"edit": {"args": ["bob", "Dear Bob, hello."]}},
        {"respond": "wait until Monday"},
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "midflight.db"
        async with midflight.open(path, agents=[secretary], workdir=folder) as client:
            for answer in answers:
                run = await client.start(secretary, "Hello.")
                await answer_next(run, "ann")
                await answer_next(run, answer)
                print(await run.result())
    print("outbox:", OUTBOX)


if __name__ == "__main__":
    asyncio.run(main())
