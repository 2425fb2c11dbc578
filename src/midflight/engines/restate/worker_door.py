"""The door of a worker: Restate's calls come in here over HTTP/2, while it may be open."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final

import anyio

from midflight.errors import InvalidRequest, to_install
from midflight.tools.secret import clean_logger

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
log: Final = clean_logger(__name__)

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
            self.unsure.set()
            about = {"action": "door_closed"}
            log.warning("The lease stays lost: Restate's calls go elsewhere", extra=about)

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
            log.info("Restate's calls may come in again", extra={"action": "door_open"})
        self.unsure = anyio.Event()

    async def _open(self, app: App) -> None:
        try:
            listener = self._listen()
        except InvalidRequest as error:  # somebody has taken our port while it was closed
            about = {"action": "door_blocked", "error": str(error)}
            log.warning("Restate's calls cannot come in; trying again", extra=about)
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
    thread.start()
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
