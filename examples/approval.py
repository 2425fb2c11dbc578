"""The agent asks whether something may be sent, and whether it may be sent like this.

An irreversible tool asks by itself. Approve, reject, edit what it is given, or answer in words; and
for a few seconds afterwards a cancel still wins.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from midflight import Control, Run, StepFailed, agent, local, tool

OUTBOX: list[str] = []


@tool(effect="once", irreversible=True, noun="email", hold=0.2)
async def send(to: str, text: str) -> str:
    """Cannot be taken back; asks first, and waits a moment before it is done."""
    OUTBOX.append(f"to {to}: {text}")
    return OUTBOX[-1]


@agent()
async def secretary(run: Run) -> str:
    """Sends a letter, if it may; what the person says instead is what it gets."""
    who = await run.ask("Who shall get it?", schema={"type": "string", "minLength": 1})
    try:
        return str(await run.step("Send the letter", send, who.payload, run.brief))
    except StepFailed as failed:
        return f"not sent: {failed.error}"


async def answer_next(control: Control, run: str, payload: Any) -> None:
    """What a page, a terminal or a chat would do."""
    state = await control.until(run, lambda state: bool(state.questions))
    (question,) = state.questions.values()
    print(f"   {question.message}  ->  {payload!r}")
    await control.answer(run, question.position, payload)


async def main() -> None:
    """Four answers to the same question."""
    answers: list[Any] = [
        "approve",
        "reject",
        {"edit": {"args": ["bob", "Dear Bob, hello."]}},
        {"respond": "wait until Monday"},
    ]
    with tempfile.TemporaryDirectory() as folder:
        async with local(Path(folder) / "midflight.db", secretary, workdir=folder) as control:
            for answer in answers:
                run = await control.start(secretary, "Hello.")
                await answer_next(control, run, "ann")
                await answer_next(control, run, answer)
                print(await control.result(run))
    print("outbox:", OUTBOX)


if __name__ == "__main__":
    asyncio.run(main())
