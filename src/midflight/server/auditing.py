"""Records for the audit what no verb records: logins, logouts, and requests that a door refused.

A verb of ``Control`` records itself. A request that was refused before any verb was called, a
login, a login that failed and a logout are recorded here, before they are answered. Anybody can
send requests that are refused, so of one address only the first few a minute are recorded one by
one, and the rest as a number.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import anyio
from msgspec.structs import replace
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from midflight.audit import record
from midflight.audit.chain import Head
from midflight.audit.flood import Flood
from midflight.audit.record import deed
from midflight.audit.visit import Visit, begin_visit, current_visit
from midflight.control import Control
from midflight.control.audit_trail import (
    RECORD_S,
    reason,
    record_counted,
    record_now,
    record_refusal,
    summed_up,
)
from midflight.errors import MidflightError, StoreError
from midflight.inputs import new_id
from midflight.kernel.record import Actor
from midflight.server.access import SAFE, Access
from midflight.server.problems import Problem

LOGIN: Final = "/v1/session"
ACTIONS: Final = {LOGIN: "login", "/v1/leave": "logout"}
TENDED_S: Final = 5.0  # after which keys and counts are looked at
HEAD_S: Final = 60.0  # after which the head is logged, if there is a new one
LAST_S: Final = 2.0
log: Final = logging.getLogger("midflight.audit")


class DoorAudit:
    """Records what comes to the door of an app."""

    def __init__(self, control: Control, access: Access, clock: Callable[[], float]) -> None:
        self._control, self._access = control, access
        self._floods = Flood(clock)  # of strangers
        self._floods_of_callers = Flood(clock)  # or strangers could use up the records of others

    async def answered(self, scope: Scope, visit: Visit, status: int, told: dict[str, Any]) -> bool:
        """Record a request that is about to be answered; False if it is only counted."""
        if visit.records or not self._concerns(scope, status):
            return True
        refused = status >= 400
        source = f"{visit.by} {visit.address}".strip()
        floods = self._floods_of_callers if visit.by else self._floods
        if refused and not floods.admits(source):
            return False
        about = {"method": str(scope["method"]), "status": status}
        asked = deed(
            *_asked(scope),
            id=new_id(),
            outcome=_outcome(status),
            why=visit.why or (f"http_{status}" if refused else ""),
            about=about,
        )
        by, role = told.get("by", asked.by), told.get("role", asked.role)
        await self.tend()
        await record_now(self._control.store, replace(asked, by=by, role=role))
        return True

    def _concerns(self, scope: Scope, status: int) -> bool:
        """Return whether it is a control, or somebody who could not come in."""
        if scope["method"] not in SAFE:
            return True
        headers = Headers(scope=scope)
        return status == 401 and ("authorization" in headers or self._has_cookie(headers))

    def _has_cookie(self, headers: Headers) -> bool:
        return bool(self._access.session_in(headers))

    async def tend(self, *, last: bool = False) -> None:
        """Record changes of keys, and refusals that were counted."""
        for floods in (self._floods, self._floods_of_callers):
            await record_now(self._control.store, *summed_up(floods, "http", all_of_them=last))
        await record_counted(self._control, last=last)
        await self._keys()

    async def _keys(self) -> None:
        try:
            changes = self._access.keyring.changes()
            if not changes:
                return
            with anyio.fail_after(RECORD_S, shield=True):
                await self._control.store.audit(*changes)
            ids = [change.id for change in changes]
            await anyio.to_thread.run_sync(self._access.keyring.forget_changes, ids)
        except (MidflightError, OSError) as error:  # they stay in the file, for the next time
            about = {"action": "key_changes_not_recorded", "error": str(error)}
            log.error("Changes of keys are not in the audit yet", extra=about)

    async def run(self) -> None:
        """Tend to it for as long as a server runs, and log the head of the chain."""
        known, told_at = Head(), 0.0
        try:
            while True:
                await self.tend()
                if anyio.current_time() >= told_at + HEAD_S:
                    told_at = anyio.current_time()
                    known = await self._tell_head(known)
                await anyio.sleep(TENDED_S)
        finally:
            with anyio.move_on_after(LAST_S, shield=True):
                await self.tend(last=True)
                await self._tell_head(known)

    async def _tell_head(self, known: Head) -> Head:
        """Log the head of the chain: with a log that is kept elsewhere the chain can be checked."""
        try:
            head = await self._control.store.audit_head()
        except StoreError:
            return known
        if head != known:
            log.info("Audit head", extra={"action": "audit_head", "head": head.text})
        return head


def at_own_door(name: str, request: Request, who: Actor) -> Visit | None:
    """Have a router that stands in an app of others say where this request comes from.

    Gives None where our own door stands around the app: it records what is refused.
    """
    if current_visit().door:
        return None
    address = request.client.host if request.client else ""
    visit = Visit(name, address, by=who.by, role=str(who.role))
    begin_visit(visit)  # a request has a context of its own, which ends with it
    return visit


async def refused_at(
    visit: Visit | None, control: Control, target: str, error: Problem | MidflightError
) -> None:
    """Record what such a router has refused, unless a verb has recorded it."""
    if visit is not None and not visit.records:
        why = error.body["error"] if isinstance(error, Problem) else reason(error)
        await record_refusal(control, deed("request", target, id=new_id(), why=why))


def _outcome(status: int) -> str:
    if status < 400:
        return record.DONE
    return record.REFUSED if status < 500 else record.FAILED


def _asked(scope: Scope) -> tuple[str, str]:
    """Return what a request asks for and of what, from its path: no route may have seen it."""
    path = str(scope["path"])
    for ending, action in ACTIONS.items():
        if path.endswith(ending):
            return action, ""
    if scope["method"] in SAFE:
        return "login", ""
    *before, last = path.rstrip("/").split("/") or [""]
    return last.replace("-", " ") or "request", before[-1] if before else ""
