"""AG-UI 1.0: any client of that protocol can start, watch, answer and resume runs.

``router`` is mounted by our own server, and can be by anybody's FastAPI app. One POST is one AG-UI
run; the run of ours behind it may span several of them, and goes on also when nobody reads.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from typing import Annotated, Any, Final

from midflight.errors import to_install

try:
    from ag_ui.core import (
        AgentCapabilities,
        HumanInTheLoopCapabilities,
        IdentityCapabilities,
        StateCapabilities,
        ToolsCapabilities,
        TransportCapabilities,
    )
    from fastapi import APIRouter, Depends, Request, Response
except ImportError as missing:
    raise ImportError(
        "the server needs FastAPI and ag-ui-protocol, which are not installed: "
        f"{to_install('server')}"
    ) from missing

from midflight.agents import Agent
from midflight.client import Client, control_of
from midflight.control import Control
from midflight.errors import MidflightError
from midflight.inputs import Clock, wall_clock
from midflight.interfaces.agui.agui_answer import EventAnswer, Leaving, Presence
from midflight.interfaces.agui.agui_input import DESCRIBED, read_input
from midflight.interfaces.agui.agui_state import HUMAN, PAUSED
from midflight.interfaces.agui.agui_turn import take_turn
from midflight.interfaces.http.access.door import at_own_door, refused_at
from midflight.interfaces.http.access.quotas import Meter, Metrics, Quotas
from midflight.interfaces.http.event_streams import Pace, Streams
from midflight.interfaces.http.problems import Problem, as_json, status_of
from midflight.interfaces.http.responses import note
from midflight.journal.record import Actor

BODY_MAX: Final = 16 * 1024 * 1024  # a client sends its whole history each time
TAKES: Final = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": DESCRIBED}}}
}
EXAMPLE: Final = (
    'data: {"type":"RUN_STARTED","threadId":"thread-1","runId":"run-1","protocolVersion":"1.0"}\n\n'
    'data: {"type":"RUN_FINISHED","threadId":"thread-1","runId":"run-1",'
    '"outcome":{"type":"success"}}\n\n'
)
GIVES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "AG-UI 1.0 events, to the terminal one",
        "content": {"text/event-stream": {"example": EXAMPLE}},
    }
}
CONTROLS: Final = ("pause", "resume", "redirect", "cancel", "message", "answer")


def router(
    client: Client | Control,
    agents: Iterable[Agent],
    *,
    who: Callable[..., Any],
    origins: Collection[str] = (),
    streams: Streams | None = None,
    clock: Clock = wall_clock,
) -> APIRouter:
    """Return the AG-UI endpoints of these agents.

    ``who`` is a dependency that gives who asks, a ``Actor``, and refuses whom it does not know.
    Pages of the same origin may ask, and those of ``origins``, such as ``https://desk.example``;
    ``("*",)`` leaves that check to the app around it.
    """
    control = control_of(client)
    known = {agent.name: agent for agent in agents}
    counted = streams or Streams(Meter(Quotas(), wall_clock), Metrics(), Pace())
    presence = Presence(clock, counted.pace.grace_s)
    routes = APIRouter(tags=["AG-UI"])
    Caller = Annotated[Actor, Depends(who)]  # noqa: N806 - a type, known only here

    @routes.post(
        "/v1/agents/{name}/agui", response_model=None, openapi_extra=TAKES, responses=GIVES
    )
    async def run_agent(name: str, request: Request, caller: Caller) -> Response:
        """Run an agent, answer its interrupts or watch what is under way, as AG-UI events."""
        visit = at_own_door("agui", request, caller)
        try:
            _check_sender(request, origins)  # layer pages-of-other-sites-do
            agent = _named(name, known)
            given = read_input(await _body(request))
            with ExitStack() as slot:  # or a stream too many would be refused too late
                slot.enter_context(counted.meter.stream(caller.by))
                turn = await take_turn(control, agent, given, caller)
                note(request, verbs=[told.verb for told in turn.receipts], target_run=turn.run)
                leaving = Leaving.of(control, presence, agent, given, caller)
                return EventAnswer(control, turn, counted, slot.pop_all(), leaving)
        except (Problem, MidflightError) as error:
            await refused_at(visit, control, name, error)
            return _refusal(error)

    @routes.get("/v1/agents/{name}/agui/capabilities", response_model=None)
    async def tell_capabilities(name: str, _caller: Caller) -> Response:
        """Tell an AG-UI client the capabilities of an agent."""
        try:
            told = capabilities(_named(name, known))
        except Problem as error:
            return error.response()
        return Response(told.model_dump_json(by_alias=True), media_type="application/json")

    return routes


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_MAX:
            raise Problem(413, "too_large", f"the input is larger than {BODY_MAX:,} bytes.")
    return bytes(body)


def _check_sender(request: Request, origins: Collection[str]) -> None:
    """Refuse what a page of another site can make a browser send."""
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    same = origin in {f"http://{host}", f"https://{host}"}
    if origin is not None and not same and "*" not in origins and origin not in origins:
        raise Problem(
            403,
            "wrong_origin",
            "this request came from a page of another site, which may not use this server.",
        )
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "not_json", "send the body as `Content-Type: application/json`.")


def _named(name: str, known: Mapping[str, Agent]) -> Agent:
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise Problem(
            404, "not_found", f"no agent {name!r} can be run here. Agents that can: {names}."
        )
    return known[name]


def _refusal(error: Problem | MidflightError) -> Response:
    """Answer with an error here, not at the app's edge: the router may be in anybody's app."""
    if isinstance(error, Problem):
        return error.response()
    status, name = status_of(error, (503, "failed"))
    told = {"error": name, "message": str(error), "changed": None if status == 503 else False}
    return as_json(told, status)


def capabilities(agent: Agent) -> AgentCapabilities:
    """Return an agent's capabilities; ``custom`` holds those that AG-UI has no word for."""
    return AgentCapabilities(
        identity=IdentityCapabilities(name=agent.name, type="midflight"),
        transport=TransportCapabilities(streaming=True, resumable=True),
        tools=ToolsCapabilities(supported=True, parallel_calls=True, client_provided=False),
        state=StateCapabilities(snapshots=True, deltas=True, memory=True, persistent_state=True),
        human_in_the_loop=HumanInTheLoopCapabilities(
            supported=True,
            approvals=True,
            interventions=True,
            feedback=True,
            interrupts=True,
            approve_with_edits=True,
        ),
        custom={
            "midflight": {
                "controls": list(CONTROLS),
                "mode": agent.mode,
                "onDisconnect": agent.on_disconnect,
                "follow": True,
                "repeatedRunIdReattaches": True,
                "interruptReasons": [PAUSED, HUMAN],
            }
        },
    )
