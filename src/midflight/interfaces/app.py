"""The app: routes of a ``Control`` behind a door. Run by ``midflight serve``, or mounted by you.

app = create_app(control, agents=[report], access=Access(Keyring("keys.json")))
mine.mount("/agents", app)
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.datastructures import State

from midflight.agents import Agent
from midflight.client import Client, control_of
from midflight.control import Control
from midflight.inputs import Clock, wall_clock
from midflight.interfaces.agui import agui_router
from midflight.interfaces.http import problems
from midflight.interfaces.http import responses as views
from midflight.interfaces.http.access.access import Access, caller
from midflight.interfaces.http.access.door import Door, DoorAudit
from midflight.interfaces.http.access.keyring import Keyring
from midflight.interfaces.http.access.quotas import Meter, Metrics, Quotas
from midflight.interfaces.http.event_streams import Pace, Streams
from midflight.interfaces.http.live_index import Index
from midflight.interfaces.http.live_journal import Lives
from midflight.interfaces.http.page import router as page_router
from midflight.interfaces.http.responses import PROBLEMS
from midflight.interfaces.http.routes_journals import run_router, thread_router
from midflight.interfaces.http.routes_server import router as server_router

ABOUT = """Pause, redirect, cancel, answer and watch runs.

Send a token as `Authorization: Bearer …`. A control is on record before it is answered; the answer
is its delivery receipt. Send an `Idempotency-Key` and repeat what was not answered: it is not done
twice. Every error says what happened, what to do now, and whether anything was changed."""


VOICE = "/v1/threads/{thread}/voice"


def create_app(
    client: Client | Control,
    *,
    agents: Iterable[Agent] = (),
    access: Access | None = None,
    quotas: Quotas | None = None,
    pace: Pace | None = None,
    doors: Iterable[APIRouter] = (),
    clock: Clock = wall_clock,
) -> FastAPI:
    """Return an ASGI app for the runs of a client of ``midflight.open``.

    Without ``access`` nobody has a key yet: issue some.

    ``agents`` are those that can be started from outside, under their names. ``doors`` are routes
    of other ways in, such as voice, behind the same access.
    """
    control, doors = control_of(client), list(doors)
    app = FastAPI(
        title="Midflight",
        summary="Interruptible agents",
        description=ABOUT,
        version=version("midflight"),
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    state = app.state
    state.control = control
    state.agents = {agent.name: agent for agent in agents}
    state.access = access or Access(Keyring(clock=clock))
    state.records = DoorAudit(control, state.access, clock)
    state.metrics = Metrics()
    state.meter = Meter(quotas or Quotas(), clock)
    state.streams = Streams(state.meter, state.metrics, pace or Pace())
    state.lives = Lives(control)
    state.index = Index(control, lambda row: state.lives.nudge(row.thread, row.parent))
    problems.install(app, control)
    for routes in (run_router, thread_router, server_router, page_router):
        app.include_router(routes)
    app.include_router(_agui(state, clock), responses=PROBLEMS)
    for door in doors:
        app.include_router(door)
    paths = {getattr(route, "path", "") for door in doors for route in door.routes}
    state.voice = VOICE in paths  # the page offers to talk
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    app.add_middleware(
        Door,
        access=state.access,
        meter=state.meter,
        metrics=state.metrics,
        clock=clock,
        records=state.records,
    )
    return app


def _agui(state: State, clock: Clock) -> APIRouter:
    """Make the AG-UI router of a server, whose door has checked the caller and the origin."""
    return agui_router.router(
        state.control,
        state.agents.values(),
        who=caller,
        origins=("*",),
        streams=state.streams,
        clock=clock,
    )


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the structs that are answered and how to come in."""
    if app.openapi_schema is None:
        found = get_openapi(
            title=app.title,
            summary=app.summary,
            description=app.description,
            version=app.version,
            routes=app.routes,
        )
        parts = found.setdefault("components", {})
        parts["schemas"] = views.schemas() | parts.get("schemas", {})
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
        app.openapi_schema = found
    return app.openapi_schema
