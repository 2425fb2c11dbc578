"""An error that came over HTTP, turned back into the one that was raised there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from midflight import errors

KINDS: Final[Mapping[str, type[errors.MidflightError]]] = {
    "not_allowed": errors.NotAllowed,
    "illegal_signal": errors.IllegalSignal,
    "outdated": errors.Outdated,
    "key_reused": errors.KeyReused,
    "scope_stopped": errors.ScopeStopped,
    "refused": errors.InvalidRequest,
    "invalid": errors.InvalidRequest,
    "not_json": errors.InvalidRequest,
    "position_ahead": errors.InvalidRequest,
    "unknown_agent": errors.UnknownAgent,
    "not_found": errors.JournalNotFound,
    "too_large": errors.PayloadTooLarge,
    "store_busy": errors.StoreBusy,
    "store_read_only": errors.StoreReadOnly,
    "store_full": errors.StoreFull,
    "store_replaced": errors.StoreReplaced,
    "store_unavailable": errors.StoreUnavailable,
    "not_known": errors.NotAdmitted,
    "wrong_host": errors.NotAdmitted,
    "wrong_origin": errors.NotAdmitted,
}
"""The server's name of an error -> the error. One that is not known here is ``ServerFailed``."""


class Told(Struct):
    """A problem, as the server tells it."""

    error: str
    message: str
    changed: bool | None = None
    state: Any = None
    about: dict[str, Any] | None = None


def told(status: int, body: bytes, url: str) -> Told:
    """Read an answer that is an error; also one that does not come from a Midflight server."""
    try:
        return msgspec.json.decode(body, type=Told)
    except msgspec.MsgspecError:
        return Told(
            "failed",
            f"{url} answers with {status}, and not as a Midflight server does: is the address "
            "right? It is not known whether anything was changed.",
        )


def error_of(problem: Told) -> errors.MidflightError:
    """The error with its words, its fields, and as ``state`` how the run really is."""
    kind = KINDS.get(problem.error, errors.ServerFailed)
    error = kind.__new__(kind)
    Exception.__init__(error, problem.message)
    for name, value in (problem.about or {}).items():
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    if problem.state is not None:
        error.state = problem.state  # type: ignore[attr-defined]  # only who was refused has it
    return error
