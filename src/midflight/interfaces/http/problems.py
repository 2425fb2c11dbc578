"""Every error as JSON: what, where, what now, and whether anything changed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from midflight import errors
from midflight.audit import current_visit
from midflight.control import Control
from midflight.control.recorder import offers
from midflight.journal.state import RunState
from midflight.journal.transition_table import State, accepts_now
from midflight.tools.secret import clean_logger

log: Final = clean_logger(__name__)

STATUS: Final[Mapping[type[Exception], tuple[int, str]]] = {
    errors.NotAllowed: (403, "not_allowed"),
    errors.IllegalSignal: (409, "illegal_signal"),
    errors.Outdated: (409, "outdated"),
    errors.KeyReused: (409, "key_reused"),
    errors.ScopeStopped: (409, "scope_stopped"),
    errors.InvalidRequest: (409, "refused"),
    errors.JournalNotFound: (404, "not_found"),
    errors.PayloadTooLarge: (413, "too_large"),
    errors.StoreBusy: (503, "store_busy"),
    errors.StoreReadOnly: (503, "store_read_only"),
    errors.StoreFull: (503, "store_full"),
    errors.StoreReplaced: (503, "store_replaced"),
    errors.StoreUnavailable: (503, "store_unavailable"),
}
"""Any other error is a 500, and nobody knows whether anything was changed."""


def status_of(error: Exception, otherwise: tuple[int, str]) -> tuple[int, str]:
    """Return the status and the name under which an error is answered."""
    known = (STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return next(known, otherwise)


class Problem(HTTPException):
    """An answer that is an error. Nothing was changed."""

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.body = {
            "error": error,
            "message": f"{message} Nothing was changed.",
            "changed": False,
            **more,
        }

    def response(self) -> Response:
        """Return the answer as it goes over the wire."""
        return as_json(self.body, self.status_code, self.headers)


def as_json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encode plain data and structs alike."""
    encoded = msgspec.json.encode(body)
    return Response(encoded, status, dict(headers or {}), "application/json")


def install(app: FastAPI, control: Control) -> None:
    """Have every error of this app answered here."""

    async def refused(request: Request, error: Exception) -> Response:
        return await _told(control, request, error)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        current_visit().why = "invalid"
        return _invalid(error)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        problem = _as_problem(error)
        current_visit().why = problem.body["error"]
        return problem.response()

    app.add_exception_handler(errors.MidflightError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, refused)


async def _told(control: Control, request: Request, error: Exception) -> Response:
    status, name = status_of(error, (500, "failed"))
    if status == 500:
        log.error("Request failed", extra={"action": "request_failed"}, exc_info=error)
        return as_json(_unsure(error), 500)
    changed = None if isinstance(error, errors.StoreError) and error.unsure else False
    body: dict[str, Any] = {"error": name, "message": str(error), "changed": changed}
    if vars(error):
        body["about"] = vars(error)
    journal = request.path_params.get("run") or request.path_params.get("thread")
    if status == 409 and journal is not None:
        with suppress(errors.StoreError):  # the refusal is true also where nothing can be read
            body["state"] = _state(await control.store.load(journal))  # layer refusal-says-how-run
    elif name == "refused":
        status, body["error"] = 422, "invalid"
    return as_json(body, status, {"retry-after": "1"} if status == 503 else None)


def _state(state: State) -> dict[str, Any]:
    """Return the present state of a run or thread, for a caller whose request was refused."""
    if not isinstance(state, RunState):
        todos, unread = list(state.todos), list(state.unread)
        about = {"thread": state.journal, "head": state.head, "front": state.front}
        return {**about, "unread": unread, "todos": todos}
    return {
        "run": state.journal,
        "phase": state.phase,
        "head": state.head,
        "accepts": accepts_now(state),
        "preview": offers(state),
    }


def _unsure(error: Exception) -> dict[str, Any]:
    what = (
        str(error)
        if isinstance(error, errors.MidflightError)
        else "the server failed at this request, and its log says why"
    )
    message = (
        f"{what.rstrip('.')}. Nobody knows whether anything was changed: look, or repeat the "
        "request under the same Idempotency-Key, under which nothing is done twice."
    )
    return {"error": "failed", "message": message, "changed": None}


def _invalid(error: RequestValidationError) -> Response:
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        return Problem(400, "not_json", "the body of the request is not JSON.").response()
    where = [
        {"where": ".".join(str(part) for part in one["loc"]), "what": one["msg"]} for one in found
    ]
    first = f"{where[0]['where']}: {where[0]['what']}"
    return Problem(422, "invalid", f"the request is not valid: {first}.", details=where).response()


_PLAIN: Final = {
    400: ("bad_request", "the request could not be read."),
    404: ("not_found", "this server has nothing at this address."),
    405: ("method_not_allowed", "this address does not take this method."),
}


def _as_problem(error: HTTPException) -> Problem:
    if isinstance(error, Problem):
        return error
    name, message = _PLAIN.get(error.status_code, ("refused", f"{error.detail}."))
    return Problem(error.status_code, name, message, headers=error.headers)
