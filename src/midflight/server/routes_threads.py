"""Threads: conversations, their messages and todos."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from midflight.errors import JournalNotFound
from midflight.kernel.thread import ThreadState
from midflight.server import bodies as b
from midflight.server import views
from midflight.server.asking import (
    PROBLEMS,
    RECEIPT,
    By,
    Caller,
    Controlled,
    accepted,
    answers,
)
from midflight.server.problems import as_json
from midflight.stores.base import Query as Wanted

RUNS_SHOWN: Final = 100

router: Final = APIRouter(prefix="/v1", tags=["threads"], responses=PROBLEMS)


@router.get("/threads", responses=answers("Page"))
async def threads(
    control: Controlled, who: Caller, before: b.Name = "", limit: b.PageSize = 50
) -> Response:
    """Threads, newest first."""
    rows = await control.runs(Wanted(kind="thread", before=before, limit=limit))
    return as_json(views.Page(rows, rows[-1].journal if len(rows) == limit else ""))


@router.get("/threads/{thread}", responses=answers("ThreadView"))
async def thread_state(thread: b.ThreadId, control: Controlled, who: Caller) -> Response:
    """The thread as it is now: unread messages, todos in their order, its newest runs."""
    talk = await control.store.load(thread)
    if not isinstance(talk, ThreadState) or not talk.head:
        raise JournalNotFound(thread)
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
    """A stretch of its journal."""
    found = await control.store.read(thread, after=after, limit=limit)
    return as_json(views.Records(found, found[-1].position if len(found) == limit else None))


@router.post("/threads/{thread}/messages", responses=RECEIPT)
async def send(
    request: Request, thread: b.ThreadId, body: b.Say, control: Controlled, by: By
) -> Response:
    """Write a message at any time. It is stored before this answers, with how the run stands."""
    return accepted(request, await control.send(thread, body.text, **by))
