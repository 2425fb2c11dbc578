"""Tells Restate at which address workers with this code are, and sees to it that it knows.

Restate keeps what it has found at an address when it first looked. Told again, it says yes and
looks no further, even if other services are there by now: so its answer is read, and if ours is not
in it, it has to look anew.
"""

from __future__ import annotations

import logging
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from midflight.engines.restate import RestateEngine
from midflight.engines.restate_place import Restate, shown

try:
    import httpx
except ImportError as missing:
    raise ImportError(
        "a worker for Restate needs httpx, which is not installed: pip install 'midflight[restate]'"
    ) from missing

REGISTER_S: Final = 2.0
REASON_MAX: Final = 500  # characters of what Restate says
log: Final = logging.getLogger(__name__)


class _Service(Struct, frozen=True):
    name: str


class _Deployment(Struct, frozen=True):
    """What Restate takes to be at an address."""

    services: tuple[_Service, ...]


async def keep_registered(engine: RestateEngine, restate: Restate, uri: str) -> None:
    """Tell Restate of us, and again when it does not know us: its disk may be a new one."""
    while True:
        engine.unknown = anyio.Event()
        await register(restate, uri)
        await anyio.sleep(REGISTER_S)
        await engine.unknown.wait()


async def register(restate: Restate, uri: str) -> None:
    """Tell Restate where workers with this code are, until it has found us there."""
    anew = False
    while True:
        try:
            found = await _found(restate, uri, anew=anew)
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            about = {"action": "register_failed", "uri": shown(uri), "error": shown(_reason(error))}
            log.warning("Restate was not told of this worker; trying again", extra=about)
        else:
            about = {"uri": shown(uri), "service": restate.service}
            if restate.service in found:
                log.info("Registered", extra={"action": "worker_registered", **about})
                return
            about |= {"action": "address_shared" if anew else "address_reused"}
            log.warning(_instead(found, anew=anew), extra=about)
            if not anew:
                anew = True
                continue
        await anyio.sleep(REGISTER_S)


async def _found(restate: Restate, uri: str, *, anew: bool) -> list[str]:
    """The services that Restate has found there: now, or when it first looked."""
    async with httpx.AsyncClient(base_url=restate.admin, trust_env=False) as client:
        told = {"uri": uri, "force": anew}
        answer = await client.post("/deployments", json=told, timeout=REGISTER_S)
    answer.raise_for_status()
    known = msgspec.json.decode(answer.content, type=_Deployment)
    return [service.name for service in known.services]


def _instead(found: list[str], *, anew: bool) -> str:
    others = ", ".join(found) or "nothing"
    if anew:
        return (
            f"Workers of another service answer at this address (Restate finds {others} there): "
            "each service needs an address of its own; trying again"
        )
    return f"Restate had found {others} at this address when it first looked; it looks anew"


def _reason(error: Exception) -> str:
    """What Restate says about it, such as whom it could not reach; else what we know."""
    told = error.response.text if isinstance(error, httpx.HTTPStatusError) else ""
    return told[:REASON_MAX] or str(error) or type(error).__name__
