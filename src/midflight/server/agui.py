"""AG-UI 1.0: any client of that protocol can start, watch, answer and resume runs.

``router`` is mounted by our own server, and can be by anybody's FastAPI app. One POST is one AG-UI
run; the run of ours behind it may span several of them, and goes on whoever reads.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any, Final

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
        'pip install "midflight[server]"'
    ) from missing

from midflight.control import Control
from midflight.control import Turn as Said
from midflight.errors import MidflightError
from midflight.inputs import wall_clock
from midflight.kernel.record import Who
from midflight.run import Agent
from midflight.server import agui_resume
from midflight.server.agui_answer import EventAnswer
from midflight.server.agui_events import KEY, is_ours
from midflight.server.agui_input import DESCRIBED, Input, read_input
from midflight.server.agui_resume import Answer, Receipt
from midflight.server.agui_state import HUMAN, PAUSED
from midflight.server.agui_stream import Turn
from midflight.server.metrics import Metrics
from midflight.server.problems import STATUS, Problem, as_json
from midflight.server.quotas import Meter, Quotas
from midflight.server.streaming import Pace, Streams
from midflight.server.verb_route import note
from midflight.stores.base import THREAD_PREFIX

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


def anybody() -> Who:
    """Who asks, where nobody is told apart."""
    return Who(by="agui", channel="agui")


def router(
    control: Control,
    agents: Iterable[Agent],
    *,
    who: Callable[..., Any] = anybody,
    streams: Streams | None = None,
) -> APIRouter:
    """The AG-UI endpoints of these agents. ``who`` is a dependency that gives who asks."""
    known = {agent.name: agent for agent in agents}
    counted = streams or Streams(Meter(Quotas(), wall_clock), Metrics(), Pace())
    routes = APIRouter(tags=["AG-UI"])
    Caller = Annotated[Who, Depends(who)]  # noqa: N806 - a type, known only here

    @routes.post(
        "/v1/agents/{name}/agui", response_model=None, openapi_extra=TAKES, responses=GIVES
    )
    async def run_agent(name: str, request: Request, caller: Caller) -> Response:
        """Run an agent, answer its interrupts or watch what is under way, as AG-UI events."""
        try:
            agent = _named(name, known)
            given = read_input(await _body(request))
            with ExitStack() as slot:  # or a stream too many would be refused too late
                slot.enter_context(counted.meter.stream(caller.by))
                turn = await take_turn(control, agent, given, caller)
                note(request, verbs=[told.verb for told in turn.receipts], target_run=turn.run)
                return EventAnswer(control, turn, counted, slot.pop_all())
        except (Problem, MidflightError) as error:
            return _refusal(error)

    @routes.get("/v1/agents/{name}/agui/capabilities", response_model=None)
    async def tell_capabilities(name: str, _caller: Caller) -> Response:
        """What an AG-UI client may expect here."""
        try:
            told = capabilities(_named(name, known))
        except Problem as error:
            return error.response()
        return Response(told.model_dump_json(by_alias=True), media_type="application/json")

    return routes


async def take_turn(control: Control, agent: Agent, given: Input, who: Who) -> Turn:
    """Do what the input asks for, and say which run is to be followed.

    First it is understood, then messages are stored, and then answers are given: a resume then
    tells the run what was written while it was paused.
    """
    thread = _journal(given.thread)
    answers = await agui_resume.understand(control, thread, given.resume)
    said = [(KEY + m.id, m.text) for m in given.messages if not is_ours(m.id)]
    turn = await control.converse(agent, thread, said, key=KEY + given.run, who=who)
    receipts = [
        Receipt("send", "accepted", sent.run, sent.position, sent.status) for sent in turn.messages
    ]
    since = await _places(control, thread, turn, answers)
    receipts += await agui_resume.give(control, answers, given.run, who)
    named = next((answer.state.journal for answer in answers if answer.state is not None), "")
    return Turn(
        given.thread,
        given.run,
        thread,
        run=turn.run if turn.started else named or turn.run,
        since=since,
        agent=agent,
        who=who,
        receipts=receipts,
        warnings=given.warnings,
        sent=[] if turn.started else [sent.position for sent in turn.messages],
    )


async def _places(
    control: Control, thread: str, turn: Said, answers: Sequence[Answer]
) -> dict[str, int]:
    """From where on what happens is told as it comes; before that it is history.

    What the client has sent is history: it has that already.
    """
    found = {answer.state.journal: answer.state.head for answer in answers if answer.state}
    if turn.started:
        found[turn.run] = 1
    if found:
        said = [sent.position for sent in turn.messages]
        found[thread] = max(said) if said else (await control.store.row(thread)).head
    return found


def _journal(thread: str) -> str:
    """The journal of a client's thread; one of ours may be named as it is."""
    return thread if thread.startswith(THREAD_PREFIX) else THREAD_PREFIX + thread


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_MAX:
            raise Problem(413, "too_large", f"the input is larger than {BODY_MAX:,} bytes.")
    return bytes(body)


def _named(name: str, known: Mapping[str, Agent]) -> Agent:
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise Problem(404, "not_found", f"there is no agent {name!r} here; known: {names}.")
    return known[name]


def _refusal(error: Problem | MidflightError) -> Response:
    """Here and not at the app's edge: this router may be part of anybody's app."""
    if isinstance(error, Problem):
        return error.response()
    known = (STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    status, name = next(known, (503, "failed"))
    told = {"error": name, "message": str(error), "changed": None if status == 503 else False}
    return as_json(told, status)


def capabilities(agent: Agent) -> AgentCapabilities:
    """What this protocol has a word for, and below ``custom`` what it has none for."""
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
                "disconnectCancels": False,
                "repeatedRunIdReattaches": True,
                "interruptReasons": [PAUSED, HUMAN],
            }
        },
    )
