"""Parts that the routes of all verbs share: the caller, the key, the description of the answer."""

from __future__ import annotations

import re
from inspect import Parameter, Signature
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from midflight.agents import Agent
from midflight.control import Ack, Control, verbs
from midflight.interfaces.http.access.access import caller
from midflight.interfaces.http.bodies import BODIES, Asked, IdempotencyKey
from midflight.interfaces.http.problems import Problem, as_json
from midflight.journal.record import Actor

JSON: Final = "application/json"
WAIT_MAX_S: Final = 30.0  # for which a request for a receipt may wait


def control_of(request: Request) -> Control:
    """Return the ``Control`` of this app."""
    control: Control = request.app.state.control
    return control


def asker(who: Annotated[Actor, Depends(caller)], key: IdempotencyKey = "") -> verbs.By:
    """Return the caller and the idempotency key, as every verb of ``Control`` takes them."""
    return {"who": who, "key": key}


Controlled = Annotated[Control, Depends(control_of)]
By = Annotated[verbs.By, Depends(asker)]
Caller = Annotated[Actor, Depends(caller)]


def answers(
    name: str, example: Any = None, *, status: int = 200
) -> dict[int | str, dict[str, Any]]:
    """Describe an answer by the struct that it is."""
    content: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{name}"}}
    if example is not None:
        content["example"] = example
    return {status: {"description": name, "content": {JSON: content}}}


PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {
        "description": "Refused; nothing was changed. A 409 says how the run really is.",
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/ProblemView"}}},
    },
    "5XX": {
        "description": "It failed here.",
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/ProblemView"}}},
    },
}
RECEIPT: Final = answers(
    "Ack",
    {"run": "r-0192", "verb": "cancel", "position": 41, "in_flight": ["email"], "status": ""},
)


def accepted(request: Request, receipt: Ack) -> Response:
    """The delivery receipt, which is also in the audit."""
    note(request, verb=receipt.verb, target_run=receipt.run, position=receipt.position)
    return as_json(receipt)


def note(request: Request, **what: Any) -> None:
    """Add to the line that the door writes into the audit."""
    request.state.audit = {**getattr(request.state, "audit", {}), **what}


def named(request: Request, name: str) -> Agent:
    """The agent of that name, if it can be started from outside."""
    agents: dict[str, Agent] = request.app.state.agents
    if name not in agents:
        known = ", ".join(sorted(agents)) or "none"
        raise Problem(422, "unknown_agent", f"there is no agent {name!r} here; known: {known}.")
    return agents[name]


def add_verbs(router: APIRouter, under: str, target: Any) -> None:
    """Have all verbs of the table that are asked for under a path, and whose body is in ``BODIES``.

    The router has the others as routes of their own.
    """
    for verb in verbs.VERBS.values():
        for path in verb.paths:
            if path.startswith(under) and verb.name in BODIES:
                body = BODIES[verb.name]
                _add_verb(router, path.removeprefix(router.prefix), verb.name, body, target)


def _add_verb(router: APIRouter, path: str, name: str, kind: type[Asked], target: Any) -> None:
    """Have a verb of ``Control`` at a path; the path's parameter says to what it is done."""

    async def press(
        request: Request, control: Control, by: verbs.By, body: Asked | None, **path: str
    ) -> Response:
        (journal,) = path.values()
        verb = getattr(control, name)
        return accepted(request, await verb(journal, **(body or kind()).asked(), **by))

    needed = any(field.is_required() for field in kind.model_fields.values())
    (parameter,) = re.findall(r"{(\w+)}", path)
    taken = {"request": Request, "control": Controlled, "by": By, parameter: target}
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
    router.add_api_route(path, press, methods=["POST"], responses=RECEIPT)
