"""AG-UI 1.0: any client of that protocol can start, watch, answer and resume runs.

``router`` is mounted by our own server, and can be by anybody's FastAPI app. One POST is one AG-UI
run; the run of ours behind it may span several of them, and goes on also when nobody reads.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from midflight.audit import audit_record
from midflight.audit.audit_record import deed
from midflight.client import Client, control_of
from midflight.control import Control
from midflight.control import Turn as Said
from midflight.control.audit_trail import record_undone, repeats_not_recorded
from midflight.errors import MidflightError
from midflight.inputs import Clock, new_id, wall_clock
from midflight.interfaces.agui import agui_history, agui_resume
from midflight.interfaces.agui.agui_answer import EventAnswer, front_of, newest_of
from midflight.interfaces.agui.agui_events import KEY, is_ours
from midflight.interfaces.agui.agui_history import Known
from midflight.interfaces.agui.agui_input import DESCRIBED, Input, read_input
from midflight.interfaces.agui.agui_leaving import VIEWER, Leaving, Presence
from midflight.interfaces.agui.agui_resume import Answer, Receipt
from midflight.interfaces.agui.agui_state import HUMAN, PAUSED
from midflight.interfaces.agui.agui_turn import Turn
from midflight.interfaces.http.access.door import at_own_door, refused_at
from midflight.interfaces.http.access.quotas import Meter, Metrics, Quotas
from midflight.interfaces.http.event_streams import Pace, Streams
from midflight.interfaces.http.problems import STATUS, Problem, as_json
from midflight.interfaces.http.responses import note
from midflight.journal.phases import Role
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
            _check_sender(request, origins)
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


async def take_turn(control: Control, agent: Agent, given: Input, who: Actor) -> Turn:
    """Do what the input asks for, and say which run is to be followed.

    First it is understood, then messages are stored, and then answers are given: a resume then
    tells the run what was written while it was paused.
    """
    thread = given.journal
    known = await agui_history.messages_of(control, thread, who.by)
    if refusal := agui_history.objection(given, known):
        await _record(control, agent, who, audit_record.REFUSED, "history_changed")
        return _refused(agent, given, who, refusal)
    answers = await agui_resume.understand(control, thread, given.resume, given.misread)
    with repeats_not_recorded():
        turn = await _converse(control, agent, given, who, known)
    looks = not (given.resume or given.misread or given.follow or who.role is Role.VIEWER)
    if looks and not turn.run and agui_history.asks_again(given, known):
        await _record(control, agent, who, audit_record.REFUSED, "answered_before")
        last = await newest_of(control, thread)
        return _refused(agent, given, who, agui_history.no_second_answer(last))
    sent = [Receipt("send", "accepted", m.run, m.position, m.status) for m in turn.messages]
    since = await _places(control, thread, turn, answers)
    given_back = await agui_resume.give(control, answers, given.run, who)
    if not (turn.started or turn.messages or answers):
        await _record(control, agent, who, audit_record.REPEATED)
    named = next((answer.state.journal for answer in answers if answer.state is not None), "")
    return Turn(
        given.thread,
        given.run,
        thread,
        run=turn.run if turn.started else named or turn.run,
        since=since,
        agent=agent,
        who=who,
        receipts=sent + given_back,
        warnings=[
            *given.warnings,
            *([VIEWER] if given.on_disconnect and who.role is Role.VIEWER else []),
            *agui_history.notices(given, known),
            *agui_resume.told_about(answers, given_back),
        ],
        sent=[] if turn.started else [message.position for message in turn.messages],
        old=given.old,
        resumed=bool(given.resume or given.misread),
        fresh=given.fresh,
        misfits=agui_resume.misfits(answers, given_back),
        follow=given.follow,
    )


async def _converse(
    control: Control, agent: Agent, given: Input, who: Actor, known: Mapping[str, Known]
) -> Said:
    """Send the messages that are new. A viewer who sends none begins no run either."""
    said = [(KEY + m.id, m.text) for m in given.messages if not is_ours(m.id)]
    if who.role is Role.VIEWER and not agui_history.new_in(given.messages, known):
        return Said(await front_of(control, given.journal))
    return await control.converse(agent, given.journal, said, key=KEY + given.run, who=who)


async def _record(control: Control, agent: Agent, who: Actor, outcome: str, why: str = "") -> None:
    """Put a turn into the audit in which nobody has said or answered anything new."""
    asked = deed("converse", agent.name, id=new_id(), who=who, outcome=outcome, why=why)
    await record_undone(control, asked)


def _refused(agent: Agent, given: Input, who: Actor, why: str) -> Turn:
    """Return a turn that shows the thread as it is, and says why nothing was done."""
    return Turn(
        given.thread,
        given.run,
        given.journal,
        run="",
        agent=agent,
        who=who,
        warnings=given.warnings,
        old=given.old,
        resumed=bool(given.resume or given.misread),
        refusal=why,
    )


async def _places(
    control: Control, thread: str, turn: Said, answers: Sequence[Answer]
) -> dict[str, int]:
    """Return the positions after which events are told as they come; before them is history.

    What the client has sent is history: it has that already.
    """
    found = {answer.state.journal: answer.state.head for answer in answers if answer.state}
    if turn.started:
        found[turn.run] = 1
    if found:
        said = [sent.position for sent in turn.messages]
        found[thread] = max(said) if said else (await control.store.row(thread)).head
    return found


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
        raise Problem(403, "wrong_origin", "pages of other sites may not use this server.")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "not_json", "send the body as `Content-Type: application/json`.")


def _named(name: str, known: Mapping[str, Agent]) -> Agent:
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise Problem(404, "not_found", f"there is no agent {name!r} here; known: {names}.")
    return known[name]


def _refusal(error: Problem | MidflightError) -> Response:
    """Answer with an error here, not at the app's edge: the router may be in anybody's app."""
    if isinstance(error, Problem):
        return error.response()
    known = (STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    status, name = next(known, (503, "failed"))
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
