"""A program that drives a twelve-step run of every effect class, and may be killed at any moment.

    python worker.py FOLDER [start]

What its tools do to the world is a line each in FOLDER/ledger. It ends when the run has.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from midflight.control import Control, local
from midflight.run import Run, agent
from midflight.tools.base import Done, NotDone, Performed, tool

FOLDER = Path(sys.argv[1])
LEDGER = FOLDER / "ledger"


def write(line: str) -> None:
    """One line, whole or not at all, on the disk before we go on."""
    handle = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def applied(key: str) -> bool:
    """What a provider that honours keys knows."""
    lines = LEDGER.read_text().splitlines() if LEDGER.exists() else []
    return any(line.split()[1] == key for line in lines)


async def pause() -> None:
    await asyncio.sleep(0.01)


@tool(effect="read")
async def fetch(what: str) -> str:
    await pause()
    return what.upper()


@tool(effect="write")
async def upsert(what: str, idempotency_key: str) -> str:
    await pause()
    if not applied(idempotency_key):
        write(f"upsert {idempotency_key}")
    await pause()
    return f"row of {what}"


async def ask_the_ledger(performed: Performed) -> object:
    return Done(f"sent {performed.args[0]}") if applied(performed.key) else NotDone()


@tool(effect="once", check=ask_the_ledger)
async def send(what: str, idempotency_key: str) -> str:
    await pause()
    write(f"send {idempotency_key}")
    await pause()
    return f"sent {what}"


@tool(effect="once")
async def order(what: str, idempotency_key: str) -> str:
    """Nobody but a person can say whether it happened."""
    await pause()
    write(f"order {idempotency_key}")
    await pause()
    return f"ordered {what}"


@agent()
async def clerk(run: Run) -> list[object]:
    results: list[object] = []
    for round_ in range(3):
        rows = await run.step("Fetch", fetch, f"customers {round_}")
        results.append(await run.step("Upsert", upsert, rows))
        results.append(await run.step("Send", send, rows))
        results.append(await run.step("Order", order, rows))
    return results


async def answer_from_the_ledger(control: Control, run: str) -> None:
    """The person who is asked looks into the ledger, and tells the truth."""
    async with control.watch(run) as news:
        async for _ in news:
            state = await control.state(run)
            for question in state.questions.values():
                key = state.effects[question.about].key
                choice = "happened" if applied(key) else "again"
                await control.answer(run, question.position, choice)
            if not state.alive:
                return


async def main() -> None:
    async with local(FOLDER / "journals.db", clerk, workdir=FOLDER / "work") as control:
        if "start" in sys.argv:
            await control.start(clerk, "work", key="one")
        run = "r-library-one"
        sys.stdout.write("driving\n")
        sys.stdout.flush()
        await answer_from_the_ledger(control, run)
        result = await control.result(run)
        (FOLDER / "result").write_bytes(msgspec.json.encode(result))


if __name__ == "__main__":
    asyncio.run(main())
