"""Runs and threads, each of them a journal: start, list, look, and every verb over one."""

from __future__ import annotations

import re
from inspect import Parameter, Signature
from typing import Annotated, Any, Final

import anyio
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from midflight.agents import Agent
from midflight.control import Ack, Control, ack, verbs
from midflight.errors import InvalidRequest, NoSuchRequest
from midflight.interfaces.http import bodies as b
from midflight.interfaces.http import responses as views
from midflight.interfaces.http.problems import Problem, as_json
from midflight.interfaces.http.responses import PROBLEMS, By, Caller, Controlled, answers, note
from midflight.journal.phases import Phase
from midflight.stores.lookup import thread_state as load_thread
from midflight.stores.protocol import Query as Wanted

RUNS_SHOWN: Final = 100
WAIT_MAX_S: Final = 30.0  # for which a request for a receipt may wait
RECEIPT: Final = answers(
    "Ack",
    {"run": "r-0192", "verb": "cancel", "position": 41, "in_flight": ["email"], "status": ""},
)
Wait = Annotated[float, Query(ge=0, le=WAIT_MAX_S)]

run_router: Final = APIRouter(prefix="/v1", tags=["runs"], responses=PROBLEMS)
thread_router: Final = APIRouter(prefix="/v1", tags=["threads"], responses=PROBLEMS)
TARGETS: Final = {"run": (run_router, b.RunId), "thread": (thread_router, b.ThreadId)}


# ── runs ─────────────────────────────────────────────────────────────────────────────────────


@run_router.get("/agents", responses=answers("Agents"))
async def agents(request: Request, who: Caller) -> Response:
    """The agents that can be started here."""
    known = request.app.state.agents.values()
    return as_json(views.Agents([views.agent_view(agent) for agent in known]))


@run_router.post("/runs", responses=answers("Ack", status=201), status_code=201)
async def start(request: Request, body: b.Start, control: Controlled, by: By) -> Response:
    """Start a run. Under the same Idempotency-Key it is the same run."""
    run = await control.start(
        _named(request, body.agent),
        body.brief,
        thread=body.thread,
        input=body.input,
        limits=body.limits.limits() if body.limits else None,
        title=body.title,
        **by,
    )
    return _accepted(request, Ack(run, "start", 1), 201)


@run_router.get("/runs", responses=answers("Page"))
async def runs(
    control: Controlled,
    who: Caller,
    phase: Annotated[list[Phase], Query()] = [],  # noqa: B006 - FastAPI copies it
    thread: b.Name = "",
    agent: b.Name = "",
    parent: b.Name = "",
    search: b.Name = "",
    before: b.Name = "",
    limit: b.PageSize = 50,
) -> Response:
    """Runs, newest first; every condition must hold. A page has fewer where they are large.

    ``search`` looks for each of its words in title and brief.
    """
    query = Wanted(
        phases=tuple(phase),
        thread=thread,
        agent=agent,
        parent=parent,
        before=before,
        limit=limit,
        search=search,
    )
    rows = await control.runs(query)
    return as_json(views.page_of(rows, limit))


@run_router.get("/runs/{run}", responses=answers("RunView"))
async def run_state(run: b.RunId, control: Controlled, who: Caller) -> Response:
    """The run as it is now: state, what each verb would do, and the receipt of its effects."""
    return as_json(await views.view_of(control, run))


@run_router.get("/runs/{run}/records", name="records", responses=answers("Records"))
async def run_records(
    run: b.RunId, control: Controlled, who: Caller, after: b.After = 0, limit: b.PageSize = 500
) -> Response:
    """A stretch of its journal: up to ``limit`` records, and fewer where they are large."""
    return as_json(await views.records_of(control.store, run, after, limit))


@run_router.get("/runs/{run}/result", responses=answers("ResultView"))
async def result(run: b.RunId, control: Controlled, who: Caller) -> Response:
    """Return the result of a run that has ended; refused while the run lives."""
    state = await control.state(run)
    if state.alive:
        raise InvalidRequest(
            f"run {run} is {state.phase} and has no result yet. Ask again when it has ended."
        )
    returned = await control.result(run) if state.phase is Phase.DONE else None
    return as_json(views.ResultView(run, state.phase, state.error, returned))


@run_router.get(
    "/runs/{run}/deliveries/{position}", name="delivery", responses=answers("DeliveryView")
)
async def run_delivery(
    run: b.RunId,
    position: b.Numbered,
    control: Controlled,
    who: Caller,
    wait_s: Wait = 0.0,
) -> Response:
    """Return the delivery receipt of a verb; wait up to ``wait_s`` seconds until it is applied."""
    state = await control.state(run)
    if position not in state.deliveries:
        raise NoSuchRequest(run, position)
    with anyio.move_on_after(wait_s):
        state = await control.until(run, lambda s: s.deliveries[position].status != "accepted")
    return as_json(views.delivery_of(run, position, state.deliveries[position]))


@run_router.post("/runs/{run}/fork", responses=answers("Ack", status=201), status_code=201)
async def fork(
    request: Request, run: b.RunId, body: b.Fork, control: Controlled, by: By
) -> Response:
    """Try again from a step of a run that has ended; the answer names the new run."""
    new = await control.fork(run, body.at, brief=body.brief, **by)
    return _accepted(request, Ack(new, "fork", 1), 201)


# ── threads ──────────────────────────────────────────────────────────────────────────────────


@thread_router.get("/threads", responses=answers("Page"))
async def threads(
    control: Controlled, who: Caller, before: b.Name = "", limit: b.PageSize = 50
) -> Response:
    """Threads, newest first."""
    rows = await control.runs(Wanted(kind="thread", before=before, limit=limit))
    return as_json(views.page_of(rows, limit))


@thread_router.get("/threads/{thread}", responses=answers("ThreadView"))
async def thread_state(thread: b.ThreadId, control: Controlled, who: Caller) -> Response:
    """The thread as it is now: unread messages, todos in their order, its newest runs."""
    talk = await load_thread(control.store, thread)
    runs = await control.runs(Wanted(thread=thread, limit=RUNS_SHOWN))
    return as_json(views.thread_of(talk, runs))


@thread_router.get("/threads/{thread}/records", name="records", responses=answers("Records"))
async def thread_records(
    thread: b.ThreadId,
    control: Controlled,
    who: Caller,
    after: b.After = 0,
    limit: b.PageSize = 500,
) -> Response:
    """A stretch of its journal: up to ``limit`` records, and fewer where they are large."""
    return as_json(await views.records_of(control.store, thread, after, limit))


@thread_router.get("/threads/{thread}/todos", responses=answers("Todos"))
async def todos(thread: b.ThreadId, control: Controlled, who: Caller) -> Response:
    """List the todos of a thread in order, with the consequences of doing or removing each now."""
    return as_json(views.Todos(await control.preview_todos(thread)))


@thread_router.get("/threads/{thread}/transcript", responses=answers("Transcript"))
async def transcript(
    thread: b.ThreadId, control: Controlled, who: Caller, after: b.After = 0
) -> Response:
    """All that was said and chosen, in order; each message with what became of it.

    A page ends at a megabyte; ``next`` says after which position the next one begins.
    """
    return as_json(views.transcript_of(await control.transcript(thread), after))


@thread_router.get(
    "/threads/{thread}/deliveries/{position}", name="delivery", responses=answers("DeliveryView")
)
async def thread_delivery(
    thread: b.ThreadId,
    position: b.Numbered,
    control: Controlled,
    who: Caller,
    wait_s: Wait = 0.0,
) -> Response:
    """Return the delivery receipt of a message or another verb; wait up to ``wait_s`` seconds."""
    found = await ack.delivery(control.store, thread, position)
    if found.status == ack.ACCEPTED:
        with anyio.move_on_after(wait_s):
            found = await ack.settled(control.store, thread, position)
    return as_json(views.delivery_of(thread, position, found))


@thread_router.post("/threads/{thread}/converse", responses=answers("Turn"))
async def converse(
    request: Request, thread: b.ThreadId, body: b.Converse, control: Controlled, by: By
) -> Response:
    """Say something: a run that is in front hears it, or one is started. Needs a key."""
    agent = _named(request, body.agent)
    if not by["key"]:
        raise Problem(
            422,
            "invalid",
            "the header `Idempotency-Key` is missing. Send one with a new value for each turn: a "
            "request that is repeated with the same value is then carried out only once.",
        )
    said = [(message.key, message.text) for message in body.messages]
    turn = await control.converse(agent, thread, said, **by)
    note(request, verb="converse", target_run=turn.run)
    return as_json(turn)


# ── verbs ────────────────────────────────────────────────────────────────────────────────────


def _accepted(request: Request, receipt: Ack, status: int = 200) -> Response:
    """The delivery receipt, which is also in the audit."""
    note(request, verb=receipt.verb, target_run=receipt.run, position=receipt.position)
    return as_json(receipt, status)


def _named(request: Request, name: str) -> Agent:
    """The agent of that name, if it can be started from outside."""
    agents: dict[str, Agent] = request.app.state.agents
    if name not in agents:
        known = ", ".join(sorted(agents)) or "none"
        raise Problem(
            422,
            "unknown_agent",
            f"no agent {name!r} can be started here. Agents that can: {known}.",
        )
    return agents[name]


def _add_verb(path: str, name: str) -> None:
    """Have a verb of ``Control`` at a path; the path's parameter says to what it is done."""
    kind = b.BODIES[name]
    (parameter,) = re.findall(r"{(\w+)}", path)
    router, target = TARGETS[parameter]

    async def press(
        request: Request, control: Control, by: verbs.By, body: b.Asked | None, **path: str
    ) -> Response:
        (journal,) = path.values()
        verb = getattr(control, name)
        return _accepted(request, await verb(journal, **(body or kind()).asked(), **by))

    needed = any(field.is_required() for field in kind.model_fields.values())
    taken: dict[str, Any] = {"request": Request, "control": Controlled, "by": By, parameter: target}
    taken["body"] = kind if needed else kind | None
    press.__signature__ = Signature(  # type: ignore[attr-defined]  # what FastAPI reads
        [
            Parameter(
                called,
                Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=Parameter.empty if called != "body" or needed else None,
            )
            for called, annotation in taken.items()
        ]
    )
    press.__name__, press.__doc__ = name, getattr(Control, name).__doc__
    below = path.removeprefix(router.prefix)
    router.add_api_route(below, press, methods=["POST"], responses=RECEIPT)


for _verb in verbs.VERBS.values():
    for _path in _verb.paths if _verb.name in b.BODIES else ():  # others have routes of their own
        _add_verb(_path, _verb.name)
