"""A worker: drives the runs that Restate gives it.

A driver is a task of the worker and not of the call that asked for it. If Restate dies, loses its
connection or gives the call up, the run goes on here, and the call that Restate makes again finds
it at work. A call that comes to another worker waits there until the lease of the worker that has
the run is gone, which is soon if that worker has died. A worker that cannot renew its lease closes
its door, and Restate's calls go to others.
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

from midflight.agents import Agent
from midflight.engines.driver_pool import DRAIN_S, Crew, Post, known_agents
from midflight.engines.restate_address import Restate
from midflight.engines.restate_placement import RestateEngine, keep_registered
from midflight.engines.sweep import SWEEP_S
from midflight.errors import InvalidRequest, JournalNotFound, StoreError, to_install
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
                "Restate asks for run %s, which is not in this store: it was purged, or its store "
                "is another one, whose workers have the same --service %s. Then give each store a "
                "--service of its own",
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


try:
    import hypercorn.asyncio
    from hypercorn.config import Config
    from restate.server import LifeSpanNotImplemented
except ImportError as missing:
    raise ImportError(
        "a worker for Restate needs restate-sdk and hypercorn, which are not installed: "
        f"{to_install('restate')}"
    ) from missing

LOOK_S: Final = 0.1
UNSURE_S: Final = 3.0  # a loop that was only busy renews its lease before that
ANSWER_S: Final = 2.0  # seconds in which calls are answered, once their runs have come to rest

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

hung_up: Final[ContextVar[anyio.Event]] = ContextVar("hung_up")
"""Of a call: set when its caller is not there any more."""


async def first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    """Wait until one of them is over."""
    async with anyio.create_task_group() as together:

        async def one(wait: Callable[[], Awaitable[object]]) -> None:
            await wait()
            together.cancel_scope.cancel()

        for wait in waits:
            together.start_soon(one, wait)


class Door:
    """A door that is open while its worker is ``sure`` of its lease, until the worker leaves."""

    def __init__(
        self, listen: Callable[[], socket.socket], sure: Callable[[], bool], patience_s: float
    ) -> None:
        self.leaving = anyio.Event()
        self.unsure = anyio.Event()
        self.closed = anyio.Event()
        self._listen = listen
        self._sure = sure
        self._patience_s = patience_s
        self._sure_at = anyio.current_time()

    def look(self) -> None:
        """Look whether the lease is held. Call this often: a lease that runs out tells nobody.

        Nothing is begun without it. Calls are given up only when it stays lost: giving up all of
        them whenever the machine is busy would only make it busier, everywhere.
        """
        now = anyio.current_time()
        self._sure_at = now if self._sure() else self._sure_at
        if now - self._sure_at > UNSURE_S and not self.unsure.is_set():
            self.unsure.set()  # layer one-not-sure-of-lease-closes
            about = {"action": "door_closed"}
            words = (
                "This worker has lost its lease; until it has it again it takes no calls of Restate"
            )
            log.warning(words, extra=about)

    async def keep(self, app: App) -> None:
        """Let calls in, over and over, until the worker leaves."""
        app = _listening(_without_signals(app))
        try:
            while not self.leaving.is_set():
                await self._open(app)
                await self._until_sure()
        finally:
            self.closed.set()

    async def _until_sure(self) -> None:
        """Wait until the door may be open again; a little at least, whatever has closed it."""
        while not self.leaving.is_set():
            await anyio.sleep(LOOK_S)
            if self._sure():
                break
        else:
            return  # it stays closed, as was said
        if self.unsure.is_set() and self._sure():
            words = "This worker has its lease again and takes calls of Restate"
            log.info(words, extra={"action": "door_open"})
        self.unsure = anyio.Event()

    async def _open(self, app: App) -> None:
        try:
            listener = self._listen()
        except InvalidRequest as error:  # somebody has taken our port while it was closed
            about = {"action": "door_blocked", "error": str(error)}
            log.warning(
                "This worker takes no calls of Restate; trying again: %s", error, extra=about
            )
            return
        config = Config()
        config.bind = [f"fd://{listener.detach()}"]
        config.loglevel = "WARNING"
        config.accesslog = None
        config.keep_alive_max_requests = 1 << 62  # else it hangs up on calls in flight
        config.h2_max_concurrent_streams = 1 << 16
        config.graceful_timeout = self._patience_s

        async def until() -> None:
            await first_of(self.leaving.wait, self.unsure.wait)
            if not self.leaving.is_set():
                config.graceful_timeout = ANSWER_S  # all calls end at once, with an error

        try:
            await hypercorn.asyncio.serve(app, config, shutdown_trigger=until)  # type: ignore[arg-type]
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # else it has given calls up that took too long, and says so in this way
        except Exception as error:
            # It stumbles over a call that comes while it closes. Restate makes that one again.
            log.info("Calls were cut short", extra={"action": "calls_cut"}, exc_info=error)


def _without_signals(app: App) -> App:
    """The SDK takes SIGTERM for itself when it is first called, unless that is in a thread."""

    async def call() -> None:
        with suppress(LifeSpanNotImplemented):
            await app({"type": "lifespan"}, _nothing, _nothing)

    thread = threading.Thread(target=lambda: asyncio.run(call()))
    thread.start()  # layer sigterm-ours-and-not-sdk
    thread.join()
    return app


async def _nothing(_message: object = None) -> None:
    """Do nothing: there is no caller."""


def _listening(app: App) -> App:
    """Tell calls when they are hung up on."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        gone = anyio.Event()
        hung_up.set(gone)

        async def heard() -> Any:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
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
