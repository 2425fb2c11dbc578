"""Places runs by Restate, a server that chooses a worker, and another one when that one dies.

Each run is one object of Restate's, with one long call: *drive this run until it rests*. Our steps
are not steps of Restate's. The journal, and leases on the store's clock, guard what must not happen
twice. So Restate may forget, repeat or be wrong: all that is lost is time. See docs/engines.md.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final, Self

import anyio
import msgspec
from msgspec import Struct

from midflight.agents import Agent
from midflight.engines.driver_pool import known_agents
from midflight.engines.restate.restate_address import Restate, shown
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
            log.warning("A run could not be looked at", extra=_about(run, "look_failed", error))
            return
        # Told again of the same state, while that call waits or goes on, Restate drops it. It
        # forgets the key with the call's end, because a worker may leave where nothing has changed.
        await self._send(run, key=f"{run}:{row.head}")

    async def _send(self, run: str, *, key: str) -> None:
        path = f"/{self._restate.service}/{run}/drive/send"
        try:
            answer = await self._client.post(path, headers={"idempotency-key": key})
            answer.raise_for_status()
            msgspec.json.decode(answer.content, type=_Taken)  # others say yes to all
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == NOT_FOUND:
                self.unknown.set()
            if self._reached:  # once, and not for every run every two seconds
                about = _about(run, "engine_unreached", error)
                log.warning("Restate could not be told; every sweep tries again", extra=about)
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
