"""The one event stream of a client: records, or sheets and the list of runs."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from midflight.interfaces.http.bodies import POSITION_MAX, JournalId
from midflight.interfaces.http.live.event_stream import EventStream
from midflight.interfaces.http.live.view_stream import ViewStream
from midflight.interfaces.http.problems import Problem
from midflight.interfaces.http.verb_route import PROBLEMS, Caller, Controlled

WATCHED_MAX: Final = 64  # each id names them all
Place = Annotated[int, msgspec.Meta(ge=0, le=POSITION_MAX)]
EXAMPLE: Final = (
    'event: record\nid: {"r-0192":7}\ndata: {"journal":"r-0192","position":7,"at":1.5,'
    '"event":{"event":"run.paused"}}\n\nevent: delta\ndata: {"journal":"r-0192","step":"s1",'
    '"attempt":5,"offset":0,"text":"Dear"}\n\n'
)
router: Final = APIRouter(prefix="/v1", tags=["events"], responses=PROBLEMS)


@router.get(
    "/events",
    status_code=200,
    response_class=EventStream,
    responses={200: {"content": {"text/event-stream": {"example": EXAMPLE}}}},
)
async def events(
    request: Request,
    control: Controlled,
    who: Caller,
    watch: Annotated[list[JournalId], Query(max_length=WATCHED_MAX)] = [],  # noqa: B006 - copied
    after: Annotated[str, Query(max_length=16_384, examples=['{"r-0192":7}'])] = "",
    last_event_id: Annotated[str, Header(max_length=16_384)] = "",
    views: bool = False,
    index: bool = False,
) -> Response:
    """Watch runs and threads, from the beginning or after the positions given as a JSON map.

    ``Last-Event-ID``, which a browser sends by itself when it comes back, counts before ``after``.

    With ``views`` each journal comes as a ``view``, whole, and then as ``patch`` events (RFC 6902)
    instead of records. With ``index`` also the list of runs: ``row`` and ``switches`` events.
    """
    if not (watch or index):
        raise Problem(422, "invalid", "say what to watch: `watch=r-…`, or `index=true`.")
    known = _positions(last_event_id.encode("latin-1") or after.encode())
    cursors = {journal: known.get(journal, 0) for journal in dict.fromkeys(watch)}
    heads: dict[str, int] = {}
    for journal, position in cursors.items():
        head = heads[journal] = (await control.store.row(journal)).head
        if position > head:
            raise Problem(
                409,
                "position_ahead",
                f"{journal} ends at {head}, before position {position}. Watch it from 0.",
                state={"journal": journal, "head": head},
            )
    state = request.app.state
    if not (views or index):
        return EventStream(control, state.streams, who, cursors)
    return ViewStream(
        control,
        state.streams,
        who,
        heads,
        lives=state.lives,
        index=state.index,
        with_index=index,
    )


def _positions(text: bytes) -> dict[str, int]:
    try:
        return msgspec.json.decode(text, type=dict[str, Place]) if text else {}
    except msgspec.MsgspecError as error:
        raise Problem(
            422,
            "invalid",
            "`after` and `Last-Event-ID` are JSON objects with a position for each journal: "
            f"{error}.",
        ) from None
