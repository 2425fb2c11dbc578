"""A worker: drives the runs that Restate gives it.

A driver is a task of the worker and not of the call that asked for it. If Restate dies, loses its
connection or gives the call up, the run goes on here, and the call that Restate makes again finds
it at work. A call that comes to another worker waits there until the lease of the one who has the
run is gone, which is soon if it has died.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import anyio
import httpx

from midflight.engines.crew import DRAIN_S, Crew, Post, known_agents
from midflight.engines.restate import Restate, RestateEngine
from midflight.engines.sweep import SWEEP_S
from midflight.errors import JournalNotFound, StoreError
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.run import Agent
from midflight.stores.base import Store
from midflight.stores.hub import owned_tasks

try:
    import hypercorn.asyncio
    import restate as sdk
    from hypercorn.config import Config
    from restate.server import LifeSpanNotImplemented
except ImportError as missing:
    raise ImportError(
        "a worker for Restate needs restate-sdk and hypercorn, which are not installed: "
        "pip install 'midflight[restate]'"
    ) from missing

LEASE_S: Final = 1.5  # a dead worker's runs are free after so long; one that stalls loses its own
PATIENCE_S: Final = 5.0  # for a lease that may run out; beyond that its holder lives
LOOK_S: Final = 0.1
RETRY_S: Final = 0.1
RETRY_MAX_S: Final = 1.0
RETRIES: Final = 20  # about fifteen seconds; then the next sweep asks anew, of the newest code
SILENCE: Final = timedelta(days=365)  # a call says nothing while it drives, and is not stuck
ANSWER_S: Final = 2.0  # what calls have to be answered in, once their runs have come to rest
REGISTER_S: Final = 2.0
log: Final = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_hung_up: ContextVar[anyio.Event] = ContextVar("hung_up")
"""Set when whoever made the call is not there any more."""


class Worker:
    """Answers Restate's calls with the drivers of this process. Made by ``working``."""

    def __init__(self, store: Store, crew: Crew, engine: RestateEngine) -> None:
        self.crew = crew
        self._store = store
        self.engine = engine
        self._departures = Departures(store)

    async def drive(self, run: str) -> None:
        """Drive a run until it rests, here or wherever it is driven."""
        while True:
            self.crew.take_up(run)
            if not await _before_hanging_up(self.crew.left(run)):
                return
            if self.crew.closing:
                await self.engine.tell(run)  # somebody else's from here on
                return
            other = await self._driven_by(run)
            if not other or not await self._departures.of(other):
                return

    async def _driven_by(self, run: str) -> str:
        """Who has it, if not we: we have just left it, or the sweep sees to it."""
        try:
            row = await self._store.row(run)
        except (JournalNotFound, StoreError):
            return ""
        return row.driver if row.driver != self.crew.name else ""

    def app(self, service: str) -> App:
        """What Restate speaks to, over HTTP/2."""
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

        return _listening(_without_signals(sdk.app([run])))


class Departures:
    """Waits until other drivers have gone, with one look for all who wait for the same one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked: dict[str, tuple[float, bool]] = {}

    async def of(self, driver: str) -> bool:
        """Whether its lease has run out within our patience."""
        with anyio.move_on_after(PATIENCE_S):
            while not await self._gone(driver):  # noqa: ASYNC110 - a clock elsewhere says so
                await anyio.sleep(LOOK_S)
            return True
        return False

    async def _gone(self, driver: str) -> bool:
        at, gone = self._looked.get(driver, (float("-inf"), False))
        if gone or anyio.current_time() - at < LOOK_S:
            return gone
        self._looked[driver] = (anyio.current_time(), False)  # those who come meanwhile wait
        with suppress(StoreError):
            gone = await self._store.lease_gone(driver)
        self._looked[driver] = (anyio.current_time(), gone)
        return gone


async def _before_hanging_up(awaited: Awaitable[None]) -> bool:
    """Wait for something, but no longer than the caller does; false if they have gone."""
    done = False
    async with anyio.create_task_group() as both:

        async def listen() -> None:
            await _hung_up.get().wait()
            both.cancel_scope.cancel()

        both.start_soon(listen)
        await awaited
        done = True
        both.cancel_scope.cancel()
    return done


def _without_signals(app: App) -> App:
    """The SDK takes SIGTERM for itself when it is first called, unless that is in a thread."""

    async def call() -> None:
        with suppress(LifeSpanNotImplemented):
            await app({"type": "lifespan"}, _nothing, _nothing)

    thread = threading.Thread(target=lambda: asyncio.run(call()))
    thread.start()
    thread.join()
    return app


async def _nothing(_message: object = None) -> None:
    """Nobody is there."""


def _listening(app: App) -> App:
    """Tell calls when they are hung up on."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        hung_up = anyio.Event()
        _hung_up.set(hung_up)

        async def heard() -> Any:
            message = await receive()
            if message["type"] == "http.disconnect":
                hung_up.set()
            return message

        if scope["type"] == "lifespan":
            await _live(receive, send)
        else:
            await app(scope, heard, send)

    return wrapped


async def _live(receive: Receive, send: Send) -> None:
    while True:
        said = (await receive())["type"]
        await send({"type": f"{said}.complete"})
        if said == "lifespan.shutdown":
            return


@asynccontextmanager
async def working(
    store: Store,
    agents: Iterable[Agent],
    restate: Restate,
    listener: socket.socket,
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

    ``uri`` is where Restate finds workers with this code: it is told of it. Without one somebody
    else tells it. At the end nothing further is taken, runs come to rest within ``drain_s``, and
    Restate is told of them, so that others go on.
    """
    post = Post(store, known_agents(agents), Path(workdir), clock, ids)
    leaving, left = anyio.Event(), anyio.Event()
    async with (
        RestateEngine.open(store, agents, restate, ids=ids, sweep_s=sweep_s) as engine,
        owned_tasks() as tasks,
    ):
        async with Crew.open(f"worker-{ids()}", post, engine.ensure, drain_s, until) as crew:
            worker = Worker(store, crew, engine)
            app = worker.app(restate.service)
            tasks.start_soon(_serve, app, listener, drain_s, leaving, left)
            tasks.start_soon(_tend, crew, sweep_s)
            if uri:
                tasks.start_soon(_register, restate, uri)
            try:
                yield worker
            finally:
                leaving.set()  # no further call comes in; those in flight end with the drain
        with anyio.move_on_after(ANSWER_S, shield=True):
            await left.wait()


async def _tend(crew: Crew, every_s: float) -> None:
    while True:
        await anyio.sleep(every_s)
        crew.tend()


async def _serve(
    app: App, listener: socket.socket, drain_s: float, leaving: anyio.Event, left: anyio.Event
) -> None:
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.loglevel = "WARNING"
    config.accesslog = None
    config.keep_alive_max_requests = 1 << 62  # else it hangs up on calls in flight
    config.h2_max_concurrent_streams = 1 << 16
    config.graceful_timeout = drain_s + ANSWER_S
    try:
        await hypercorn.asyncio.serve(app, config, shutdown_trigger=leaving.wait)  # type: ignore[arg-type]
    finally:
        left.set()


async def _register(restate: Restate, uri: str) -> None:
    """Tell Restate where workers with this code are, until it has heard it."""
    while True:
        try:
            async with httpx.AsyncClient(base_url=restate.admin, trust_env=False) as client:
                told = {"uri": uri, "force": False}
                answer = await client.post("/deployments", json=told, timeout=REGISTER_S)
                answer.raise_for_status()
            log.info("Registered", extra={"action": "worker_registered", "uri": uri})
            return
        except httpx.HTTPError as error:
            about = {"action": "register_failed", "uri": uri, "error": str(error)}
            log.warning("Restate was not told of this worker; trying again", extra=about)
            await anyio.sleep(REGISTER_S)
