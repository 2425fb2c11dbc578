"""Routes about no single run: access, the kill switch, health, figures, the stream of events."""

from __future__ import annotations

from typing import Annotated, Final

import anyio
import msgspec
from fastapi import APIRouter, Header, Query, Request
from msgspec.structs import astuple
from starlette.responses import PlainTextResponse, Response

from midflight.errors import StoreError
from midflight.interfaces.http import bodies as b
from midflight.interfaces.http import responses as views
from midflight.interfaces.http.access.access import CUSTOM_HEADER, Access
from midflight.interfaces.http.access.keyring import SESSION_S
from midflight.interfaces.http.event_streams import EventStream, ViewStream
from midflight.interfaces.http.problems import Problem, as_json
from midflight.interfaces.http.responses import PROBLEMS, Caller, Controlled, answers, note

HEALTH_S: Final = 2.0
WATCHED_MAX: Final = 64  # each id names them all
Place = Annotated[int, msgspec.Meta(ge=0, le=b.POSITION_MAX)]
EXAMPLE: Final = (
    'event: record\nid: {"r-0192":7}\ndata: {"journal":"r-0192","position":7,"at":1.5,'
    '"event":{"event":"run.paused"}}\n\nevent: delta\ndata: {"journal":"r-0192","step":"s1",'
    '"attempt":5,"offset":0,"text":"Dear"}\n\n'
)
router: Final = APIRouter(responses=PROBLEMS)


@router.post("/v1/session", tags=["access"], responses=answers("Session"))
async def come_in(request: Request, body: b.Code) -> Response:
    """Exchange a one-time code for a session, once.

    The cookie alone lets nobody in. Send the answered `page_secret` as `X-Midflight-Page` too.
    """
    access: Access = request.app.state.access
    if CUSTOM_HEADER not in request.headers:
        raise Problem(403, "header_missing", "this request needs the header `X-Midflight: 1`.")
    session = await anyio.to_thread.run_sync(access.keyring.exchange, body.code)
    who = access.keyring.of_session(*astuple(session)) if session is not None else None
    if session is None or who is None:
        raise Problem(
            401,
            "code_not_valid",
            "this one-time code is not valid: it was used, is older than ten minutes, or was never "
            "given out. Ask the operator of the server for another, which "
            "`midflight token NAME --link URL` makes.",
        )
    note(request, by=who.by, role=str(who.role))
    answer = as_json(views.Session(who.by, who.role, session.page_secret))
    return _with_cookie(request, answer, session.cookie, int(SESSION_S))


@router.get("/v1/me", tags=["access"], responses=answers("Me"))
async def me(request: Request, control: Controlled, who: Caller) -> Response:
    """Tell the caller their name and role, the agents that can be started, and about the server."""
    agents = [views.agent_view(agent) for agent in request.app.state.agents.values()]
    kind = type(control.store).__name__.removesuffix("Store").lower()
    server = views.ServerView(
        version=request.app.version, store=kind, voice=request.app.state.voice
    )
    return as_json(views.Me(who.by, who.role, agents, server))


@router.post("/v1/leave", tags=["access"], responses=answers("Session"))
async def leave(request: Request, who: Caller) -> Response:
    """End the session of this browser."""
    access: Access = request.app.state.access
    session = access.session_in(request.headers)
    await anyio.to_thread.run_sync(access.keyring.end_session, session)
    return _with_cookie(request, as_json(views.Session(who.by, who.role)), "", 0)


def _with_cookie(request: Request, answer: Response, value: str, max_age: int) -> Response:
    """Give a browser its session's cookie for the place where we are mounted; age 0 deletes it.

    Browsers take ``__Host-`` cookies for ``/`` only.
    """
    access: Access = request.app.state.access
    name, root = access.cookie_name(request.headers), str(request.scope.get("root_path") or "/")
    answer.set_cookie(
        name,
        value,
        max_age=max_age,
        expires=0 if not max_age else None,
        path="/" if name.startswith("__Host-") else root,
        secure=access.is_secure(request.url.scheme),
        httponly=True,
        samesite="strict",
    )
    return answer


@router.get("/v1/operator/switches", tags=["operator"], responses=answers("Switches"))
async def switches(control: Controlled, who: Caller) -> Response:
    """The kill switches that are on."""
    return as_json(views.Switches(await control.switches()))


@router.post("/v1/operator/kill", tags=["operator"], responses=answers("Killing"))
async def kill(request: Request, body: b.Kill, control: Controlled, who: Caller) -> Response:
    """Stop everything in scope at once, without clean-up. When this answers, it has stopped."""
    note(request, verb="kill", scope=body.scope)
    killing = await control.kill(body.scope, who=who, reason=body.reason)
    request.app.state.index.look_at_switches()
    return as_json(killing)


@router.post("/v1/operator/release", tags=["operator"], responses=answers("Released"))
async def release(request: Request, body: b.Release, control: Controlled, who: Caller) -> Response:
    """Let a scope move again."""
    note(request, verb="release", scope=body.scope)
    released = await control.release(body.scope, who=who)
    request.app.state.index.look_at_switches()
    return as_json(views.Released(released))


@router.get(
    "/healthz", tags=["operator"], responses=answers("Health") | answers("Health", status=503)
)
async def health(control: Controlled) -> Response:
    """Tell whether the store answers and can be written. Open to everybody, and says no more."""
    try:
        with anyio.fail_after(HEALTH_S):
            await control.store.ready()
    except (TimeoutError, StoreError) as error:
        return as_json(views.Health(ok=False, store=type(error).__name__), 503)
    return as_json(views.Health(ok=True, store="answers"))


@router.get("/metrics", tags=["operator"], response_class=PlainTextResponse)
async def metrics(request: Request, control: Controlled, who: Caller) -> Response:
    """Figures for Prometheus."""
    state = request.app.state
    text = await state.metrics.text(control, state.meter)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


@router.get(
    "/v1/events",
    tags=["events"],
    status_code=200,
    response_class=EventStream,
    responses={200: {"content": {"text/event-stream": {"example": EXAMPLE}}}},
)
async def events(
    request: Request,
    control: Controlled,
    who: Caller,
    watch: Annotated[list[b.JournalId], Query(max_length=WATCHED_MAX)] = [],  # noqa: B006 - copied
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
        raise Problem(
            422, "invalid", "the query names nothing to watch: add `watch=r-…` or `index=true`."
        )
    known = _positions(last_event_id.encode("latin-1") or after.encode())
    # layer comes-back-goes-on-where-they
    cursors = {journal: known.get(journal, 0) for journal in dict.fromkeys(watch)}
    heads: dict[str, int] = {}
    for journal, position in cursors.items():
        head = heads[journal] = (await control.store.row(journal)).head
        if position > head:
            raise Problem(
                409,
                "position_ahead",
                f"{journal} ends at position {head} and cannot be watched from {position} on. "
                "Watch it from 0.",
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
            "`after` and `Last-Event-ID` must be JSON objects with a position for each journal, "
            f'such as {{"r-0192": 7}}: {error}.',
        ) from None
