"""Tells Restate the address of the workers with this code, and makes sure that Restate knows it.

Restate keeps what it has found at an address when it first looked. Told again, it says yes and
looks no further, even if other services are there by now. So we read its answer, and if our service
is not in it, Restate has to look anew.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final, TypeVar

import anyio
import msgspec
from msgspec import Struct

from midflight.engines.restate.placement import RestateEngine
from midflight.engines.restate.restate_address import Restate, shown
from midflight.errors import to_install

try:
    import httpx
except ImportError as missing:
    raise ImportError(
        f"a worker for Restate needs httpx, which is not installed: {to_install('restate')}"
    ) from missing

REGISTER_S: Final = 2.0  # between two tries
ANSWER_S: Final = 10.0  # Restate tries for two seconds before it says what is wrong there
SHARED_S: Final = 60.0  # the longest pause between two looks at an address that others have, too
IN_VAIN: Final = 3  # times registered and not known: after one it may not have got round yet
REASON_MAX: Final = 500  # characters of what Restate says
TROUBLE: Final = (httpx.HTTPError, msgspec.DecodeError)
T = TypeVar("T")
log: Final = logging.getLogger(__name__)


class _Service(Struct, frozen=True):
    name: str
    deployment_id: str


class _Deployment(Struct, frozen=True):
    """The services that Restate takes to be at an address."""

    services: tuple[_Service, ...]


class _Address(Struct, frozen=True):
    uri: str


async def keep_registered(engine: RestateEngine, restate: Restate, uri: str) -> None:
    """Tell Restate of us, and again when it does not know us: its disk may be a new one."""
    in_a_row = 0
    while True:
        engine.unknown = anyio.Event()
        await register(restate, uri)
        await anyio.sleep(REGISTER_S)
        in_a_row = in_a_row + 1 if engine.unknown.is_set() else 0
        if in_a_row == IN_VAIN:
            about = {"action": "still_unknown", "service": restate.service}
            log.warning(
                "Restate's admin knows service %s and its ingress does not: are %s and %s the same "
                "Restate, and the right way round?",
                restate.service,
                shown(restate.admin),
                shown(restate.ingress),
                extra=about,
            )
        await engine.unknown.wait()


async def register(restate: Restate, uri: str) -> None:
    """Tell Restate where workers with this code are, until it has found us there."""
    anew, pause = False, REGISTER_S
    while True:
        try:
            async with _admin(restate) as admin:
                if await _is_found(admin, restate.service, uri, anew=anew):
                    await _tell_who_is_newer(admin, restate.service, uri)
                    return
        except TROUBLE as error:
            about = {"action": "register_failed", "uri": shown(uri), "error": shown(_reason(error))}
            log.warning("Restate was not told of this worker; trying again", extra=about)
            await anyio.sleep(REGISTER_S)
            continue
        if anew:  # another service shares the address and does the same: do not fight
            await anyio.sleep(pause)
            pause = min(2 * pause, SHARED_S)
        anew = True


def _admin(restate: Restate) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=restate.admin, timeout=ANSWER_S, trust_env=False)


async def _is_found(admin: httpx.AsyncClient, service: str, uri: str, *, anew: bool) -> bool:
    answer = await admin.post("/deployments", json={"uri": uri, "force": anew})
    there = msgspec.json.decode(answer.raise_for_status().content, type=_Deployment)
    found = [one.name for one in there.services]
    about = {"uri": shown(uri), "service": service}
    if service not in found:
        about |= {"action": "address_shared" if anew else "address_reused"}
        log.warning(_instead(found, anew=anew), extra=about)
        return False
    log.info("Registered", extra={"action": "worker_registered", **about})
    return True


async def _tell_who_is_newer(admin: httpx.AsyncClient, service: str, uri: str) -> None:
    """New calls go to the address that was registered last, whether anybody is there or not."""
    with suppress(*TROUBLE):  # we are registered all the same
        newest = (await _got(admin, f"/services/{service}", _Service)).deployment_id
        where = (await _got(admin, f"/deployments/{newest}", _Address)).uri
        if where.rstrip("/") != uri.rstrip("/"):
            log.warning(
                "Restate's new calls go to %s, which was registered after this worker's address. "
                "To have them here again, as for a rollback: DELETE /deployments/%s?force=true",
                shown(where),
                newest,
                extra={"action": "not_newest", "service": service, "newest": shown(where)},
            )


async def _got(admin: httpx.AsyncClient, path: str, kind: type[T]) -> T:
    return msgspec.json.decode((await admin.get(path)).raise_for_status().content, type=kind)


def _instead(found: list[str], *, anew: bool) -> str:
    others = ", ".join(found) or "nothing"
    if anew:
        return (
            f"Workers of another service answer at this address (Restate finds {others} there): "
            "each service needs an address of its own; trying again"
        )
    return f"Restate had found {others} at this address when it first looked; it looks anew"


def _reason(error: Exception) -> str:
    """Return what Restate says about an error, such as an address out of reach; else our words."""
    told = error.response.text if isinstance(error, httpx.HTTPStatusError) else ""
    return told[:REASON_MAX] or str(error) or type(error).__name__
