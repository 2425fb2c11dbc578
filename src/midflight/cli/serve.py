"""``midflight serve module:agent``: open the store, drive the agents, serve until told to leave.

SIGTERM or Ctrl-C ends it in good order: streams end, requests finish, runs come to rest where the
next start takes them up. A second signal ends it at once, which is as safe as a crash.
"""

from __future__ import annotations

import getpass
import importlib
import os
import socket
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import TYPE_CHECKING, Any, Final

import anyio

from midflight.cli.logs import log_to_stderr
from midflight.cli.token import KEYS
from midflight.control import Control, local
from midflight.engines.leaving import leaving_on
from midflight.engines.local import DRAIN_S
from midflight.errors import InvalidRequest
from midflight.kernel.phases import Role
from midflight.run import Agent

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    import uvicorn
    from fastapi import FastAPI

PORT: Final = 8321
REQUESTS_S: Final = 5  # what requests in flight have to end
UNREAD_S: Final = 30  # a client that takes nothing for so long is cut off by the system
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")

Greet = Callable[[Control, str], Awaitable[None]]


def add_to(commands: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    command = commands.add_parser("serve", help="drive agents and serve them over HTTP")
    command.add_argument(
        "agents", nargs="+", metavar="module:agent", help="or a module, for all its agents"
    )
    command.add_argument(
        "--store", default=os.environ.get("MIDFLIGHT_STORE", "midflight.db"), help="(%(default)s)"
    )
    command.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    command.add_argument("--port", type=int, default=PORT, help="(%(default)s; 0 for a free one)")
    command.add_argument("--allow-host", action="append", default=[], metavar="NAME")
    command.add_argument("--allow-origin", action="append", default=[], metavar="URL")
    command.add_argument("--workdir", default=".midflight", help="folders of runs (%(default)s)")
    command.add_argument("--keys", default=KEYS, help="where keys are kept (%(default)s)")
    command.add_argument("--drain", type=float, default=DRAIN_S, metavar="SECONDS")
    command.set_defaults(run=run)


def run(chosen: Namespace) -> int:
    """Serve until told to leave."""
    importlib.import_module("midflight.server")  # or say which extra it needs
    sys.path.insert(0, "")
    agents = [agent for place in chosen.agents for agent in found_at(place)]
    if chosen.host not in LOOPBACK and not chosen.allow_host:
        raise InvalidRequest(
            f"{chosen.host} can be reached from outside: say under which name, with --allow-host, "
            "and put something in front of it that speaks TLS. Nothing was started."
        )
    log_to_stderr()
    with listening(chosen.host, chosen.port) as listener:
        anyio.run(serving, chosen, agents, listener)
    return 0


def found_at(place: str) -> list[Agent]:
    """The agents that ``module:name`` or ``module`` means."""
    module, _, name = place.partition(":")
    try:
        there = importlib.import_module(module)
        found = getattr(there, name) if name else list(vars(there).values())
    except (ImportError, AttributeError) as error:
        raise InvalidRequest(f"{place}: {error}. Nothing was started.") from error
    every: Iterable[Any] = found if isinstance(found, list | tuple) else [found]
    agents = [agent for agent in every if isinstance(agent, Agent)]
    if not agents:
        raise InvalidRequest(
            f"{place} is no agent: name an `async def` below `@agent()`. Nothing was started."
        )
    return agents


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; its connections end when what they are sent is not taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise InvalidRequest(
            f"cannot listen on {host} port {port}: {error.strerror}. Choose another with --port. "
            "Nothing was started."
        ) from None
    # inherited by connections: asyncio sets it only on sockets that it has made itself, and without
    # it head and body of an answer are 40 ms apart
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_S * 1000)
    return listener


async def serving(
    chosen: Namespace, agents: list[Agent], listener: socket.socket, greet: Greet | None = None
) -> None:
    """Drive and serve until a signal comes; ``greet`` is told of the URL to open."""
    from midflight.server.access import LOOPBACK as NAMES
    from midflight.server.access import Access
    from midflight.server.app import create_app
    from midflight.server.keyring import Keyring

    keyring = Keyring(chosen.keys)
    access = Access(keyring, hosts=(*NAMES, *chosen.allow_host), origins=chosen.allow_origin)
    patience_s = chosen.drain + REQUESTS_S
    async with (
        leaving_on((SIGTERM, SIGINT), patience_s) as until_told,
        local(chosen.store, *agents, workdir=Path(chosen.workdir), drain_s=chosen.drain) as control,
    ):
        app = create_app(control, agents=agents, access=access)
        server = _server(app)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            with until_told:
                url = _url(chosen, listener, keyring.code(_person(), Role.OPERATOR))
                await (greet or partial(_greet, chosen))(control, url)
                await anyio.sleep_forever()
            app.state.streams.close()
            server.should_exit = True


def _server(app: FastAPI) -> uvicorn.Server:
    import uvicorn

    class Server(uvicorn.Server):
        """Leaves signals to us: runs have to come to rest after the last request."""

        def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override, explicit-override]
            """Capture none."""
            return nullcontext()

    return Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,  # it would hold queries, and with them what people wrongly put there
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=REQUESTS_S,
        )
    )


def _url(chosen: Namespace, listener: socket.socket, code: str) -> str:
    host, port = listener.getsockname()[:2]
    named = chosen.allow_host[0] if host not in LOOPBACK else host
    return f"http://{named}:{port}/#code={code}"


async def _greet(chosen: Namespace, _control: Control, url: str) -> None:
    print(f"Midflight serves {chosen.store} at {url}")
    print("The code works once, within ten minutes. For programs: midflight token NAME", flush=True)


def _person() -> str:
    """The name of who has started it; what cannot stand in a name is left out."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = ""
    return "".join(char for char in name if char.isascii() and char.isalnum()) or "operator"
