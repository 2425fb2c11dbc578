"""The server that ``make bench-server`` measures: a process that says where it is.

Midflight is mounted into another app, as a user would do it, beside an endpoint that does nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import uvicorn
from fastapi import FastAPI

from midflight.agents import agent
from midflight.control import Control, local
from midflight.interfaces.app import create_app
from midflight.interfaces.http.access.access import Access
from midflight.interfaces.http.access.keyring import Keyring
from midflight.interfaces.http.access.quotas import Quotas
from midflight.journal.phases import Role
from midflight.run import Run
from midflight.tools.declaration import tool
from midflight.tools.progress import emit

STEPS_MAX = 1_000_000
begun: dict[str, float] = {}
aborted: dict[str, float] = {}
busy = asyncio.Event()
talk = asyncio.Event()


@tool(effect="read", name="bench.in_flight")
async def in_flight(run: str) -> None:
    """Goes on until it is ended, and notes the moment at which it hears of that."""
    begun[run] = time.monotonic()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        aborted[run] = time.monotonic()
        raise


@tool(effect="read", name="bench.look")
async def look(number: int, seconds: float) -> int:
    await asyncio.sleep(seconds)
    return number


@tool(effect="read", name="bench.tell")
async def tell(number: int) -> str:
    await talk.wait()
    for word in range(20):
        emit(f"{number}.{word} ")
        await asyncio.sleep(0.05)
    return "told"


@agent()
async def waits(run: Run) -> None:
    await run.step("Wait", in_flight, run.id)


@agent()
async def steps(run: Run) -> None:
    for number in range(STEPS_MAX):
        await run.step("Look", look, number, float(run.brief))


@agent()
async def tells(run: Run) -> None:
    for number in range(5):
        await run.step("Tell", tell, number)


def outer_app(control: Control, inner: FastAPI) -> FastAPI:
    """What a user's own app might be."""
    app = FastAPI()
    app.mount("/m", inner)

    @app.get("/bare")
    async def bare() -> dict[str, bool]:
        return {"ok": True}

    @app.post("/start/{name}/{count}")
    async def start(name: str, count: int, brief: str = "") -> list[str]:
        return [await control.start(name, brief) for _ in range(count)]

    @app.get("/moments")
    async def moments() -> dict[str, Any]:
        return {"begun": begun, "aborted": aborted}

    @app.post("/talk")
    async def begin_to_talk() -> None:
        talk.set()

    @app.get("/memory")
    async def memory() -> int:
        return int(psutil.Process().memory_info().rss)

    return app


async def main(folder: Path) -> None:
    keyring = Keyring()
    token = keyring.issue("bench", Role.OPERATOR)
    async with local(folder / "journals.db", waits, steps, tells, workdir=folder) as control:
        inner = create_app(
            control,
            agents=[waits, steps, tells],
            access=Access(keyring),
            quotas=Quotas(requests_per_s=1e6, burst=1_000_000, streams=5_000, streams_in_all=5_000),
        )
        config = uvicorn.Config(
            outer_app(control, inner), port=0, log_level="error", access_log=False, backlog=2048
        )
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve())  # noqa: TID251 - a program's only task
        while not server.started:  # noqa: ASYNC110 - it has no event for that
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        print(json.dumps({"port": port, "token": token}), flush=True)
        await serving


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
