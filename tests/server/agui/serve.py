"""Serve the scripted agents over AG-UI: ``python -m server.agui.serve FOLDER PORT``.

Beside the protocol there are a few plain controls, so that a story can have a second person.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from fastapi import FastAPI, Request

from midflight.control import local
from midflight.interfaces.agui import agui_router
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from server.agui.agents import AGENTS, LET_GO

BOB = Actor(by="bob", channel="test")


def who(request: Request) -> Actor:
    name = request.headers.get("x-name", "ann")
    role = Role.VIEWER if name == "vera" else Role.CONTROLLER
    return Actor(by=name, role=role, channel="agui")


async def serve(folder: Path, port: int) -> None:
    async with local(folder / "journals.db", *AGENTS, workdir=folder / "work") as control:
        app = FastAPI()
        app.include_router(agui_router.router(control, AGENTS, who=who))

        @app.post("/test/let_go")
        async def let_go(given: dict[str, Any]) -> None:
            LET_GO.add(given["run"])

        @app.post("/test/{verb}")
        async def act(verb: str, given: dict[str, Any]) -> dict[str, Any]:
            """Bob does something to a run, through another door."""
            accepted = await getattr(control, verb)(given["run"], *given.get("args", []), who=BOB)
            return {"position": accepted.position}

        @app.get("/test/runs/{thread}")
        async def runs(thread: str) -> list[dict[str, Any]]:
            from midflight.stores.protocol import Query

            rows = await control.runs(Query(thread=f"t-{thread}"))
            return [{"run": row.journal, "phase": row.phase} for row in rows]

        config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning")
        server = uvicorn.Server(config)
        await server.serve()


if __name__ == "__main__":
    anyio.run(serve, Path(sys.argv[1]), int(sys.argv[2]))
