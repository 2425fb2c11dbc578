"""``midflight serve module:agent``: open the store, drive the agents, serve until told to leave.

SIGTERM, Ctrl-C or a closed terminal ends it in good order: streams end, requests finish, runs come
to rest where the next start takes them up. A second SIGTERM or Ctrl-C ends it at once, which is as
safe as a crash.
"""

from __future__ import annotations

import importlib
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import anyio
import typer
from msgspec import Struct
from typing_extensions import override

from midflight.agents import Agent
from midflight.control import Control
from midflight.engines.driver_pool import DRAIN_S
from midflight.engines.local_engine import LEAVING, leaving_on
from midflight.engines.restate_address import INGRESS, SERVICE
from midflight.errors import InvalidRequest
from midflight.inputs import LOOPBACK
from midflight.interfaces.cli.arguments import (
    EngineOption,
    IngressOption,
    Placing,
    ServiceOption,
    all_at,
    controlling,
    placing,
)
from midflight.interfaces.cli.commands.token_command import (
    KEYS,
    KeysOption,
    keyring_at,
    parts_of,
    public_origin,
)
from midflight.interfaces.cli.console import greeting, log_to_stderr, person, print, print_json
from midflight.interfaces.cli.target import JsonOption, StoreOption, quick_loop, store_of
from midflight.journal.phases import Role
from midflight.stores import shown
from midflight.tasks import owned_tasks
from midflight.tools.secret import clean_logger

if TYPE_CHECKING:
    import uvicorn
    from fastapi import APIRouter, FastAPI

app = typer.Typer()
PORT: Final = 8321
REQUESTS_S: Final = 5  # time for requests in flight to end
WAITING_MAX: Final = 4096  # connections that are not accepted yet
UNREAD_S: Final = 30  # a client that takes nothing for so long is cut off by the system
MESSAGE_MAX: Final = 1024 * 1024  # bytes of a WebSocket's; a larger one ends the connection

ProxyOption = Annotated[
    list[str],
    typer.Option(metavar="ADDRESS", help="What stands in front; its X-Forwarded-For counts."),
]
VoiceOption = Annotated[bool, typer.Option("--voice", help="Let people talk to it by voice.")]

Greet = Callable[[Control, str], Awaitable[None]]


class ServeOptions(Struct, frozen=True, kw_only=True):
    """The options of a server."""

    store: str
    workdir: str
    keys: str
    drain: float = DRAIN_S
    placed: Placing = Placing()
    allow_host: tuple[str, ...] = ()
    allow_origin: tuple[str, ...] = ()
    public_url: str = ""
    proxies: tuple[str, ...] = ()
    voice: bool = False


@app.command()
def serve(
    agents: Annotated[
        list[str], typer.Argument(metavar="MODULE:AGENT…", help="Or a module, for all its agents.")
    ],
    store: StoreOption = "",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 for a free one.")] = PORT,
    allow_host: Annotated[
        list[str], typer.Option(metavar="NAME", help="A name under which it may be asked for.")
    ] = [],  # noqa: B006 - read and never changed
    allow_origin: Annotated[
        list[str], typer.Option(metavar="URL", help="A page of another site that may use it.")
    ] = [],  # noqa: B006 - read and never changed
    public_url: Annotated[
        str, typer.Option(metavar="URL", help="Where people open it, behind what speaks TLS.")
    ] = "",
    proxy: ProxyOption = [],  # noqa: B006 - read and never changed
    workdir: Annotated[str, typer.Option(help="Where runs have their folders.")] = ".midflight",
    keys: KeysOption = KEYS,
    drain: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="What steps have to end at the end.")
    ] = DRAIN_S,
    engine: EngineOption = "local",
    ingress: IngressOption = INGRESS,
    service: ServiceOption = SERVICE,
    voice: VoiceOption = False,
    as_json: JsonOption = False,
) -> int:
    """Drive agents and serve them over HTTP, until Ctrl-C or SIGTERM."""
    importlib.import_module("midflight.interfaces.http")  # or say which extra it needs
    if voice:
        importlib.import_module("midflight.interfaces.voice")
    found = all_at(agents)
    _check_reach(host, named=bool(allow_host or public_url))
    check_origins(allow_origin)
    check_proxies(proxy)
    address = store_of(store)
    options = ServeOptions(
        store=address,
        placed=placing(engine, address, ingress, service=service),
        workdir=workdir,
        keys=keys,
        drain=drain,
        allow_host=tuple(allow_host),
        allow_origin=tuple(allow_origin),
        public_url=public_origin(public_url) if public_url else "",
        proxies=tuple(proxy),
        voice=voice,
    )
    keyring_at(keys, otherwise="Nothing was started.")
    log_to_stderr()
    with listening(host, port) as listener:
        greet = partial(_greet, options, as_json)
        anyio.run(serving, options, found, listener, greet, backend_options=quick_loop())
    return 0


def check_origins(origins: list[str]) -> None:
    """Refuse an origin in a form that browsers never send: it would match no request."""
    for origin in origins:
        parts = parts_of(origin)
        if not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}":
            raise InvalidRequest(
                f"{origin!r} is not an origin as browsers send it: write scheme and host only, "
                "such as https://desk.example.com. Nothing was started."
            )


def check_proxies(addresses: list[str]) -> None:
    """Refuse a proxy that is not named by its address: a name or ``*`` could be anybody."""
    for address in addresses:
        try:
            ip_network(address)
        except ValueError:
            raise InvalidRequest(
                f"--proxy {address[:80]!r} is not an address: give the one from which the proxy "
                "connects, such as 10.0.0.7 or 10.0.0.0/24. Nothing was started."
            ) from None


def _check_reach(host: str, *, named: bool) -> None:
    """Refuse to listen for other machines unless it is said under which name they come in."""
    if host not in LOOPBACK and not named:
        raise InvalidRequest(
            f"{host} can be reached from other machines, and the server speaks plain HTTP: put a "
            "proxy that speaks TLS in front of it, and give the address that people open "
            "(--public-url URL) or the name of its host (--allow-host NAME). Nothing was started."
        )


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; its connections end when what they are sent is not taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=WAITING_MAX)
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
    chosen: ServeOptions, agents: list[Agent], listener: socket.socket, greet: Greet
) -> None:
    """Drive and serve until a signal comes; ``greet`` is told of the URL to open."""
    from midflight.interfaces.app import create_app
    from midflight.interfaces.http.access.access import HERE, Access
    from midflight.interfaces.http.access.keyring import Keyring

    keyring = Keyring(chosen.keys)
    hosts = (*HERE, *map(_in_url, chosen.allow_host), *_public_host(chosen.public_url))
    access = Access(keyring, hosts=hosts, origins=chosen.allow_origin, public_url=chosen.public_url)
    patience_s = chosen.drain + REQUESTS_S
    async with (
        leaving_on(LEAVING, patience_s) as until_told,
        controlling(
            chosen.placed,
            chosen.store,
            agents,
            workdir=Path(chosen.workdir),
            drain_s=chosen.drain,
        ) as control,
    ):
        doors = [_voice(control, agents)] if chosen.voice else []
        app = create_app(control, agents=agents, access=access, doors=doors)
        server = _server(app, proxies=chosen.proxies)
        async with owned_tasks(app.state.records.run), anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            with until_told:
                url = _url(chosen, listener)
                if _is_seen_by_who_started_it(chosen, listener):
                    url += f"/#code={keyring.code(person(), Role.OPERATOR)}"
                await greet(control, url)
                await anyio.sleep_forever()
            app.state.streams.close()
            server.should_exit = True


def _voice(control: Control, agents: list[Agent]) -> APIRouter:
    from midflight.interfaces.voice.page_call import router
    from midflight.interfaces.voice.speech.offline_engines import offline_engines

    clean_logger("midflight.interfaces.voice")
    return router(control, agents, offline_engines)


def _server(app: FastAPI, *, proxies: tuple[str, ...] = ()) -> uvicorn.Server:
    import uvicorn

    from midflight.interfaces.http.access.connections import Accepting, guarded, make_room

    protocol = guarded(make_room())

    class Server(uvicorn.Server):
        """Leaves signals to us: runs have to come to rest after the last request."""

        @override
        def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
            """Capture none."""
            return nullcontext()

        @override
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            """Accept in our own order, see ``midflight.interfaces.http.access.connections``."""
            await super().startup([])  # its loop would accept connections, too
            made = partial(
                protocol,
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )
            self.accepting = [Accepting(one, made, protocol.pending) for one in sockets or ()]
            for one in self.accepting:
                one.start()

        @override
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Accept nobody any more, then end what is open."""
            for one in self.accepting:
                one.close()
            await super().shutdown(sockets)

    return Server(
        uvicorn.Config(
            app,
            log_config=None,
            http=protocol,
            backlog=WAITING_MAX,
            proxy_headers=bool(proxies),  # or a client could say that it is somebody else
            forwarded_allow_ips=list(proxies),
            access_log=False,  # it would hold queries, and with them what people wrongly put there
            server_header=False,
            lifespan="off",
            ws="websockets-sansio" if find_spec("websockets") else "none",
            ws_max_size=MESSAGE_MAX,
            timeout_graceful_shutdown=REQUESTS_S,
        )
    )


def _url(chosen: ServeOptions, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    named = chosen.allow_host[0] if chosen.allow_host and host not in LOOPBACK else host
    return chosen.public_url or f"http://{_in_url(named)}:{port}"


def _is_seen_by_who_started_it(chosen: ServeOptions, listener: socket.socket) -> bool:
    """Return whether a code may be printed: not into a log of a server that others reach."""
    named = chosen.public_url or chosen.allow_host  # then something in front brings others here
    here = not named and listener.getsockname()[0] in LOOPBACK
    return here or sys.stdout.isatty()  # layer others-reach-prints-no-code


def _public_host(url: str) -> tuple[str, ...]:
    host = urlsplit(url).hostname
    return (_in_url(host),) if host else ()


def _in_url(host: str) -> str:
    """An IPv6 address stands in brackets, in a URL and as the host that is asked for."""
    return f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host


async def _greet(chosen: ServeOptions, as_json: bool, _control: Control, url: str) -> None:
    with greeting():
        if as_json:
            print_json({"url": url, "store": shown(chosen.store)})
        else:
            print(f"Midflight serves {shown(chosen.store)} at {url}\n{_way_in(chosen, url)}")


def _way_in(chosen: ServeOptions, url: str) -> str:
    if "#code=" in url:
        return "The code works once, within ten minutes. For programs: midflight token NAME"
    if chosen.public_url or urlsplit(url).hostname in LOOPBACK:
        return f"To come in: midflight token NAME --role operator --link {url}{_keys_named(chosen)}"
    return (
        "For people to come in: put something in front of it that speaks TLS, and say where "
        "they open it, with --public-url https://…. For programs: midflight token NAME"
        f"{_keys_named(chosen)}"
    )


def _keys_named(chosen: ServeOptions) -> str:
    return f" --keys {chosen.keys}" if chosen.keys != KEYS else ""
