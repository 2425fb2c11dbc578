"""A worker: drives the runs that Restate gives it.

A driver is a task of the worker and not of the call that asked for it. If Restate dies, loses its
connection or gives the call up, the run goes on here, and the call that Restate makes again finds
it at work. A call that comes to another worker waits there until the lease of the worker that has
the run is gone, which is soon if that worker has died. A worker that cannot renew its lease closes
its door, and Restate's calls go to others.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import anyio

from midflight.agents import Agent
from midflight.engines.driver_pool import DRAIN_S, Crew, Post, known_agents
from midflight.engines.restate.placement import RestateEngine, keep_registered
from midflight.engines.restate.restate_address import Restate
from midflight.engines.restate.worker_door import ANSWER_S, LOOK_S, App, Door, first_of, hung_up
from midflight.engines.sweep import SWEEP_S
from midflight.errors import JournalNotFound, StoreError, to_install
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.stores.protocol import Store
from midflight.tasks import owned_tasks

try:
    import restate as sdk
except ImportError as missing:
    raise ImportError(
        f"a worker for Restate needs restate-sdk, which is not installed: {to_install('restate')}"
    ) from missing

PATIENCE_S: Final = 5.0  # for a lease that may run out; beyond that its holder lives
TRIES: Final = 2  # at once, and when the last driver's lease is over; the sweep sees to the rest
RETRY_S: Final = 0.1
RETRY_MAX_S: Final = 1.0
RETRIES: Final = 20  # about fifteen seconds; then the next sweep asks anew, of the newest code
SILENCE: Final = timedelta(days=365)  # a call says nothing while it drives, and is not stuck
log: Final = logging.getLogger(__name__)


class LeaseLost(Exception):
    """Raised to make Restate ask another worker."""


def _said_once(record: logging.LogRecord) -> bool:
    """The SDK tells of every call that we have refused; we tell of the lease, once."""
    return not (record.exc_info and isinstance(record.exc_info[1], LeaseLost))


class Worker:
    """Answers Restate's calls with the drivers of this process. Made by ``working``."""

    def __init__(self, store: Store, crew: Crew, engine: RestateEngine, door: Door) -> None:
        self.crew = crew
        self.engine = engine
        self._door = door
        self._store = store
        self._looked: dict[str, tuple[float, bool]] = {}  # at the leases of others
        self._missed = False  # a run that we were called for is not in our store

    async def drive(self, run: str) -> None:
        """Drive a run until it rests, here or wherever it is driven."""
        unheard = hung_up.get()
        for _ in range(TRIES):
            if unheard.is_set():
                return
            self.crew.take_up(run)
            await first_of(lambda: self.crew.left(run), unheard.wait, self._door.unsure.wait)
            if self._door.unsure.is_set():
                raise LeaseLost
            if self.crew.closing:
                await self.engine.tell(run)  # somebody else's from here on
                return
            other = await self._driven_by(run)
            if not other or not await self._has_gone(other):
                return

    async def _driven_by(self, run: str) -> str:
        """Return the other driver that has a run which wants one; else an empty text."""
        try:
            row = await self._store.row(run)
        except JournalNotFound:
            self._tell_of_a_stranger(run)
            return ""
        except StoreError:
            return ""
        return row.driver if row.wants_driver and row.driver != self.crew.name else ""

    def _tell_of_a_stranger(self, run: str) -> None:
        """Log once that a run is not in this store.

        If it was not just purged, all runs of another store come here.
        """
        if not self._missed:
            self._missed = True
            about = {"action": "run_unknown", "run": run, "service": self.engine.service}
            log.warning(
                "Restate asks for run %s, which is not in this store: it was purged, or workers of "
                "another store have the same --service %s and miss their runs",
                run,
                self.engine.service,
                extra=about,
            )

    async def _has_gone(self, driver: str) -> bool:
        """Return whether the lease of another driver runs out within our patience."""
        with anyio.move_on_after(PATIENCE_S):
            while not self._door.leaving.is_set():
                if await self._is_gone(driver):
                    return True
                await anyio.sleep(LOOK_S)
        return False

    async def _is_gone(self, driver: str) -> bool:
        """Return whether a driver's lease is gone; one look serves all that wait for it."""
        at, gone = self._looked.get(driver, (float("-inf"), False))
        now = anyio.current_time()
        if now - at < LOOK_S:  # also one that was gone may be back by now
            return gone
        self._looked = {who: seen for who, seen in self._looked.items() if now - seen[0] < LOOK_S}
        self._looked[driver] = (now, False)  # those who come meanwhile wait
        with suppress(StoreError):
            gone = await self._store.lease_gone(driver)
        self._looked[driver] = (anyio.current_time(), gone)
        return gone

    def app(self, service: str) -> App:
        """Return the application that Restate calls over HTTP/2."""
        run = sdk.VirtualObject(
            service,
            inactivity_timeout=SILENCE,
            abort_timeout=SILENCE,
            journal_retention=timedelta(),
            idempotency_retention=timedelta(),
            invocation_retry_policy=sdk.InvocationRetryPolicy(
                initial_interval=timedelta(seconds=RETRY_S),
                exponentiation_factor=1.5,
                max_interval=timedelta(seconds=RETRY_MAX_S),
                max_attempts=RETRIES,
                on_max_attempts="kill",  # it holds nothing but a place in the queue of its run
            ),
        )

        @run.handler()
        async def drive(context: sdk.ObjectContext) -> None:
            await self.drive(context.key())

        logging.getLogger("restate.server").addFilter(_said_once)
        app: App = sdk.app([run])
        return app


@asynccontextmanager
async def working(
    store: Store,
    agents: Iterable[Agent],
    restate: Restate,
    listen: Callable[[], socket.socket],
    *,
    until: anyio.CancelScope,
    uri: str = "",
    workdir: str | Path = ".midflight",
    clock: Clock = wall_clock,
    ids: Ids = new_id,
    sweep_s: float = SWEEP_S,
    drain_s: float = DRAIN_S,
) -> AsyncIterator[Worker]:
    """Drive what Restate gives us for as long as the block runs, or until ``until`` is cancelled.

    ``listen`` opens the socket for its calls, again each time that our lease was lost.
    ``uri`` is where Restate finds workers with this code: it is told of it. Without one somebody
    else tells it. At the end nothing further is taken, runs come to rest within ``drain_s``, and
    Restate is told of them, so that others go on.
    """
    post = Post(store, known_agents(agents), Path(workdir), clock, ids)
    async with (
        RestateEngine.open(store, agents, restate, ids=ids, sweep_s=sweep_s) as engine,
        owned_tasks() as tasks,
    ):
        async with Crew.open(f"worker-{ids()}", post, engine.ensure, drain_s, until) as crew:
            door = Door(listen, lambda: crew.sure, drain_s + ANSWER_S)
            worker = Worker(store, crew, engine, door)
            tasks.start_soon(door.keep, worker.app(restate.service))
            tasks.start_soon(_tend, crew, door, sweep_s)
            if uri:
                tasks.start_soon(keep_registered, engine, restate, uri)
            try:
                yield worker
            finally:
                door.leaving.set()  # no further call comes in; those in flight end with the drain
        with anyio.move_on_after(ANSWER_S, shield=True):
            await door.closed.wait()


async def _tend(crew: Crew, door: Door, every_s: float) -> None:
    """Look often whether our lease is held, and now and then after the crew."""
    tended = anyio.current_time()
    while True:
        door.look()
        if anyio.current_time() - tended >= every_s:
            crew.tend()
            tended = anyio.current_time()
        await anyio.sleep(min(LOOK_S, every_s))
