"""Runs: start, list, look, and every verb over one."""

from __future__ import annotations

from typing import Annotated

import anyio
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from midflight.control import Ack
from midflight.errors import InvalidRequest, NoSuchRequest
from midflight.interfaces.http import bodies as b
from midflight.interfaces.http import responses as views
from midflight.interfaces.http.problems import as_json
from midflight.interfaces.http.verb_route import (
    PROBLEMS,
    WAIT_MAX_S,
    By,
    Caller,
    Controlled,
    accepted,
    add_verbs,
    answers,
    named,
)
from midflight.journal.phases import Phase
from midflight.stores.protocol import Query as Wanted

router = APIRouter(prefix="/v1", tags=["runs"], responses=PROBLEMS)


@router.get("/agents", responses=answers("Agents"))
async def agents(request: Request, who: Caller) -> Response:
    """The agents that can be started here."""
    known = request.app.state.agents.values()
    return as_json(views.Agents([views.agent_view(agent) for agent in known]))


@router.post("/runs", responses=answers("Ack", status=201), status_code=201)
async def start(request: Request, body: b.Start, control: Controlled, by: By) -> Response:
    """Start a run. Under the same Idempotency-Key it is the same run."""
    run = await control.start(
        named(request, body.agent),
        body.brief,
        thread=body.thread,
        input=body.input,
        limits=body.limits.limits() if body.limits else None,
        title=body.title,
        **by,
    )
    answer = accepted(request, Ack(run, "start", 1))
    answer.status_code = 201
    return answer


@router.get("/runs", responses=answers("Page"))
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


@router.get("/runs/{run}", responses=answers("RunView"))
async def run_state(run: b.RunId, control: Controlled, who: Caller) -> Response:
    """The run as it is now: state, what each verb would do, and the receipt of its effects."""
    return as_json(await views.view_of(control, run))


@router.get("/runs/{run}/records", responses=answers("Records"))
async def records(
    run: b.RunId, control: Controlled, who: Caller, after: b.After = 0, limit: b.PageSize = 500
) -> Response:
    """A stretch of its journal: up to ``limit`` records, and fewer where they are large."""
    return as_json(await views.records_of(control.store, run, after, limit))


@router.get("/runs/{run}/result", responses=answers("ResultView"))
async def result(run: b.RunId, control: Controlled, who: Caller) -> Response:
    """Return the result of a run that has ended; refused while the run lives."""
    state = await control.state(run)
    if state.alive:
        raise InvalidRequest(f"run {run} is {state.phase} and has no result yet.")
    returned = await control.result(run) if state.phase is Phase.DONE else None
    return as_json(views.ResultView(run, state.phase, state.error, returned))


@router.get("/runs/{run}/deliveries/{position}", responses=answers("DeliveryView"))
async def delivery(
    run: b.RunId,
    position: b.Numbered,
    control: Controlled,
    who: Caller,
    wait_s: Annotated[float, Query(ge=0, le=WAIT_MAX_S)] = 0.0,
) -> Response:
    """Return the delivery receipt of a verb; wait up to ``wait_s`` seconds until it is applied."""
    state = await control.state(run)
    if position not in state.deliveries:
        raise NoSuchRequest(run, position)
    with anyio.move_on_after(wait_s):
        state = await control.until(run, lambda s: s.deliveries[position].status != "accepted")
    return as_json(views.delivery_of(run, position, state.deliveries[position]))


@router.post("/runs/{run}/fork", responses=answers("Ack", status=201), status_code=201)
async def fork(
    request: Request, run: b.RunId, body: b.Fork, control: Controlled, by: By
) -> Response:
    """Try again from a step of a run that has ended; the answer names the new run."""
    new = await control.fork(run, body.at, brief=body.brief, **by)
    answer = accepted(request, Ack(new, "fork", 1))
    answer.status_code = 201
    return answer


add_verbs(router, "/v1/runs/{run}/", b.RunId)
