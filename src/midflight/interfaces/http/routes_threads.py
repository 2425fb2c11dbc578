"""Threads: conversations, their messages and todos."""

from __future__ import annotations

from typing import Annotated, Final

import anyio
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from midflight.control import ack
from midflight.interfaces.http import bodies as b
from midflight.interfaces.http import responses as views
from midflight.interfaces.http.problems import Problem, as_json
from midflight.interfaces.http.verb_route import (
    PROBLEMS,
    WAIT_MAX_S,
    By,
    Caller,
    Controlled,
    add_verbs,
    answers,
    named,
    note,
)
from midflight.stores.lookup import thread_state as load_thread
from midflight.stores.protocol import Query as Wanted

RUNS_SHOWN: Final = 100

router: Final = APIRouter(prefix="/v1", tags=["threads"], responses=PROBLEMS)


@router.get("/threads", responses=answers("Page"))
async def threads(
    control: Controlled, who: Caller, before: b.Name = "", limit: b.PageSize = 50
) -> Response:
    """Threads, newest first."""
    rows = await control.runs(Wanted(kind="thread", before=before, limit=limit))
    return as_json(views.page_of(rows, limit))


@router.get("/threads/{thread}", responses=answers("ThreadView"))
async def thread_state(thread: b.ThreadId, control: Controlled, who: Caller) -> Response:
    """The thread as it is now: unread messages, todos in their order, its newest runs."""
    talk = await load_thread(control.store, thread)
    runs = await control.runs(Wanted(thread=thread, limit=RUNS_SHOWN))
    return as_json(views.thread_of(talk, runs))


@router.get("/threads/{thread}/records", responses=answers("Records"))
async def records(
    thread: b.ThreadId,
    control: Controlled,
    who: Caller,
    after: b.After = 0,
    limit: b.PageSize = 500,
) -> Response:
    """A stretch of its journal: up to ``limit`` records, and fewer where they are large."""
    return as_json(await views.records_of(control.store, thread, after, limit))


@router.get("/threads/{thread}/todos", responses=answers("Todos"))
async def todos(thread: b.ThreadId, control: Controlled, who: Caller) -> Response:
    """List the todos of a thread in order, with the consequences of doing or removing each now."""
    return as_json(views.Todos(await control.preview_todos(thread)))


@router.get("/threads/{thread}/transcript", responses=answers("Transcript"))
async def transcript(
    thread: b.ThreadId, control: Controlled, who: Caller, after: b.After = 0
) -> Response:
    """All that was said and chosen, in order; each message with what became of it.

    A page ends at a megabyte; ``next`` says after which position the next one begins.
    """
    return as_json(views.transcript_of(await control.transcript(thread), after))


@router.get("/threads/{thread}/deliveries/{position}", responses=answers("DeliveryView"))
async def delivery(
    thread: b.ThreadId,
    position: b.Numbered,
    control: Controlled,
    who: Caller,
    wait_s: Annotated[float, Query(ge=0, le=WAIT_MAX_S)] = 0.0,
) -> Response:
    """Return the delivery receipt of a message or another verb; wait up to ``wait_s`` seconds."""
    found = await ack.delivery(control.store, thread, position)
    if found.status == ack.ACCEPTED:
        with anyio.move_on_after(wait_s):
            found = await ack.settled(control.store, thread, position)
    return as_json(views.delivery_of(thread, position, found))


@router.post("/threads/{thread}/converse", responses=answers("Turn"))
async def converse(
    request: Request, thread: b.ThreadId, body: b.Converse, control: Controlled, by: By
) -> Response:
    """Say something: a run that is in front hears it, or one is started. Needs a key."""
    agent = named(request, body.agent)
    if not by["key"]:
        raise Problem(
            422,
            "invalid",
            "send the header `Idempotency-Key`: it names the turn, so that a repeated request "
            "is taken once. Nothing was changed.",
        )
    said = [(message.key, message.text) for message in body.messages]
    turn = await control.converse(agent, thread, said, **by)
    note(request, verb="converse", target_run=turn.run)
    return as_json(turn)


add_verbs(router, "/v1/threads/{thread}/", b.ThreadId)
