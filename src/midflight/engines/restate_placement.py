"""Places runs by Restate, a server that chooses a worker, and another one when that one dies.

Each run is one object of Restate's, with one long call: *drive this run until it rests*. Our steps
are not steps of Restate's. The journal, and leases on the store's clock, guard what must not happen
twice. So Restate may forget, repeat or be wrong: all that is lost is time. See docs/engines.md.

A worker tells Restate its address. Restate keeps what it has found there when it first looked. Told
again, it says yes and looks no further, even if other services are there by now. So we read its
answer, and if our service is not in it, Restate has to look anew.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final, Self, TypeVar

import anyio
import msgspec
from msgspec import Struct

from midflight.agents import Agent
from midflight.engines.driver_pool import known_agents
from midflight.engines.restate_address import Restate, shown
from midflight.engines.sweep import SWEEP_S, Sweep
from midflight.errors import InvalidRequest, JournalNotFound, StoreError, to_install
from midflight.inputs import Ids, new_id
from midflight.journal.phases import ENDS
from midflight.stores.protocol import Store
from midflight.tasks import owned_tasks

try:
    import httpx
except ImportError as missing:
    raise ImportError(
        f"driving on Restate needs httpx, which is not installed: {to_install('restate')}"
    ) from missing

SENDERS: Final = 8  # calls at once: enough for thousands a second on one host
SEND_S: Final = 5.0
NOT_FOUND: Final = 404
log: Final = logging.getLogger(__name__)


class _Taken(Struct, rename="camel", frozen=True):
    """The answer of Restate to a call that it will make."""

    invocation_id: str


class RestateEngine:
    """Has runs driven by workers behind Restate. Drives none itself, so servers use it."""

    def __init__(self, store: Store, agents: Iterable[Agent], restate: Restate) -> None:
        self.agents = known_agents(agents)
        self._store = store
        self._restate = restate
        self._wanted: set[str] = set()  # those in the queue: each is there once
        self._put, self._get = anyio.create_memory_object_stream[str](math.inf)
        self._reached = True
        self.unknown = anyio.Event()  # Restate has never heard of us, or has forgotten us
        self._client: httpx.AsyncClient

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: Store,
        agents: Iterable[Agent],
        restate: Restate,
        *,
        ids: Ids = new_id,
        sweep_s: float = SWEEP_S,
    ) -> AsyncIterator[Self]:
        """Tell Restate of runs that want a driver for as long as the block runs."""
        engine = cls(store, agents, restate)
        sweep = Sweep(store, engine.agents, engine.ensure, ids=ids, every_s=sweep_s)
        async with (
            _client(restate) as engine._client,
            engine._put,
            engine._get,
            owned_tasks(sweep.keep_on, *[engine._keep_telling] * SENDERS),
        ):
            yield engine

    async def ensure(self, run: str) -> None:
        """See ``Engine.ensure``. The next sweep sends a run that cannot be sent now."""
        if run not in self._wanted:
            self._wanted.add(run)
            self._put.send_nowait(run)

    @property
    def service(self) -> str:
        """The name under which Restate knows our runs; another store needs another one."""
        return self._restate.service

    def agent(self, name: str) -> Agent | None:
        """See ``Engine.agent``."""
        return self.agents.get(name)

    async def _keep_telling(self) -> None:
        async for run in self._get:
            self._wanted.discard(run)
            await self.tell(run)

    async def tell(self, run: str) -> None:
        """Have a run driven, unless a driver that lives has it: that one hears through the store.

        A driver leaves only where nothing was asked since, so it has seen what we look at here, or
        it is gone.
        """
        try:
            row = await self._store.row(run)
            over = row.phase in ENDS and not row.wants_driver
            if over or (row.driver and not await self._store.lease_gone(row.driver)):
                return
        except JournalNotFound:
            return
        except StoreError as error:
            words = "Run %s could not be read, so Restate was not told of it; trying again: %s"
            log.warning(words, run, error, extra=_about(run, "look_failed", error))
            return
        # Told again of the same state, while that call waits or goes on, Restate drops it. It
        # forgets the key with the call's end, because a worker may leave where nothing has changed.
        await self._send(run, key=f"{run}:{row.head}")

    async def _send(self, run: str, *, key: str) -> None:
        path = f"/{self._restate.service}/{run}/drive/send"
        try:
            answer = await self._client.post(path, headers={"idempotency-key": key})
            answer.raise_for_status()
            # layer says-yes-to-everything-no-restate
            msgspec.json.decode(answer.content, type=_Taken)  # others say yes to all
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == NOT_FOUND:
                self.unknown.set()  # layer one-restate-does-not-know-tells
            if self._reached:  # once, and not for every run every two seconds
                about = _about(run, "engine_unreached", error)
                words = "Restate could not be told to have run %s driven; trying again: %s"
                log.warning(words, run, about["error"], extra=about)
            self._reached = False
            return
        if not self._reached:
            log.info("Restate answers again", extra={"action": "engine_reached"})
        self._reached = True


def _about(run: str, action: str, error: Exception) -> dict[str, str]:
    return {"action": action, "run": run, "error": shown(error) or type(error).__name__}


def _client(restate: Restate) -> httpx.AsyncClient:
    try:
        return httpx.AsyncClient(base_url=restate.ingress, timeout=SEND_S, trust_env=False)
    except httpx.InvalidURL as error:
        raise InvalidRequest(
            f"{shown(restate.ingress)!r} is not the address of Restate's ingress: write it like "
            f"http://127.0.0.1:8080 ({shown(error)}). Nothing was started."
        ) from error


REGISTER_S: Final = 2.0  # between two tries
ANSWER_S: Final = 10.0  # Restate tries for two seconds before it says what is wrong there
SHARED_S: Final = 60.0  # the longest pause between two looks at an address that others have, too
IN_VAIN: Final = 3  # times registered and not known: after one it may not have got round yet
REASON_MAX: Final = 500  # characters of what Restate says
TROUBLE: Final = (httpx.HTTPError, msgspec.DecodeError)
T = TypeVar("T")


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
                "Restate's admin (%s) knows service %s, and its ingress (%s) does not: see that "
                "both addresses are of the same Restate, and that they are the right way round",
                shown(restate.admin),
                restate.service,
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
            words = "This worker could not be registered with Restate; trying again: %s"
            log.warning(words, about["error"], extra=about)
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
    if service not in found:  # layer one-at-address-where-others-has
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
        if where.rstrip("/") != uri.rstrip("/"):  # layer one-code-not-called-any-more
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
