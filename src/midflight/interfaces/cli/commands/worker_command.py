"""``midflight worker module:agent``: drive runs that are started and steered elsewhere.

On Restate it answers that server's calls; without it, it drives whatever its sweep finds in the
store. SIGTERM, Ctrl-C or a closed terminal ends it in good order: runs come to rest, and other
workers go on.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import anyio
import typer
from msgspec import Struct

from midflight.agents import Agent
from midflight.engines.driver_pool import DRAIN_S, LEASE_S
from midflight.engines.local_engine import LEAVING, leaving_on
from midflight.engines.restate_address import ADMIN, INGRESS, SERVICE
from midflight.engines.restate_address import shown as shown_place
from midflight.errors import InvalidRequest
from midflight.interfaces.cli.arguments import (
    EngineOption,
    IngressOption,
    Placing,
    ServiceOption,
    all_at,
    is_http,
    placing,
)
from midflight.interfaces.cli.commands.serve_command import listening
from midflight.interfaces.cli.console import greeting, log_to_stderr, print, print_json
from midflight.interfaces.cli.target import JsonOption, StoreOption, quick_loop, store_of
from midflight.stores import open_store, shown

app = typer.Typer()
PORT: Final = 9080
LEASE_MAX_S: Final = 3600.0  # a dead worker's runs wait for so long
ANSWERS_S: Final = 3.0  # for what is left to be told when runs have come to rest


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """The options of a worker."""

    store: str
    placed: Placing
    uri: str
    workdir: str
    drain: float
    lease: float
    as_json: bool


@app.command()
def worker(
    agents: Annotated[
        list[str], typer.Argument(metavar="MODULE:AGENT…", help="Or a module, for all its agents.")
    ],
    store: StoreOption = "",
    engine: EngineOption = "local",
    ingress: IngressOption = INGRESS,
    admin: Annotated[
        str, typer.Option(metavar="URL", envvar="MIDFLIGHT_RESTATE_ADMIN", help="Its admin side.")
    ] = ADMIN,
    service: ServiceOption = SERVICE,
    uri: Annotated[
        str,
        typer.Option(
            metavar="URL", help="Where Restate finds workers with this code; else told by you."
        ),
    ] = "",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 for a free one.")] = PORT,
    workdir: Annotated[str, typer.Option(help="Where runs have their folders.")] = ".midflight",
    drain: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="What steps have to end at the end.")
    ] = DRAIN_S,
    lease: Annotated[
        float,
        typer.Option(
            min=0.5,
            max=LEASE_MAX_S,
            metavar="SECONDS",
            help="How soon it counts as lost, on Postgres.",
        ),
    ] = LEASE_S,
    as_json: JsonOption = False,
) -> int:
    """Drive agents for servers elsewhere, until Ctrl-C or SIGTERM."""
    found, address = all_at(agents), store_of(store)
    options = WorkerOptions(
        store=address,
        placed=placing(engine, address, ingress, admin=admin, service=service),
        uri=_checked(uri),
        workdir=workdir,
        drain=drain,
        lease=lease,
        as_json=as_json,
    )
    log_to_stderr()
    if engine == "local":
        anyio.run(_sweeping, options, found, backend_options=quick_loop())
    else:
        with listening(host, port) as probe:  # or say now that it cannot be done
            bound = probe.getsockname()[1]
        answering = partial(
            _answering, listen=partial(listening, host, bound), at=f"{host}:{bound}"
        )
        anyio.run(answering, options, found, backend_options=quick_loop())
    return 0


def _checked(uri: str) -> str:
    if uri and not is_http(uri):
        raise InvalidRequest(
            f"{shown_place(uri)!r} is not an address at which Restate could find workers: write it "
            f"like http://workers-v1:{PORT}. Nothing was started."
        )
    return uri


async def _sweeping(chosen: WorkerOptions, agents: list[Agent]) -> None:
    from midflight.engines.local_engine import LocalEngine

    async with (
        open_store(chosen.store, lease_s=chosen.lease) as store,
        LocalEngine.open(
            store,
            agents,
            workdir=chosen.workdir,
            drain_s=chosen.drain,
            signals=LEAVING,
        ) as engine,
    ):
        _greet(chosen, engine.name)
        await anyio.sleep_forever()


async def _answering(
    chosen: WorkerOptions, agents: list[Agent], listen: Callable[[], socket.socket], at: str
) -> None:
    from midflight.engines.restate_worker import working

    async with (
        leaving_on(LEAVING, chosen.drain + ANSWERS_S) as until_told,
        open_store(chosen.store, lease_s=chosen.lease) as store,
        working(
            store,
            agents,
            chosen.placed.restate(),
            listen,
            until=until_told,
            uri=chosen.uri,
            workdir=Path(chosen.workdir),
            drain_s=chosen.drain,
        ) as worker,
    ):
        _greet(chosen, worker.crew.name, f"http://{at}")
        await anyio.sleep_forever()


def _greet(chosen: WorkerOptions, driver: str, url: str = "") -> None:
    """Say that the worker has started; everything after that goes to the log."""
    store, engine = shown(chosen.store), chosen.placed.engine
    calls = f" for calls of Restate at {url}" if url else ""
    with greeting():
        if chosen.as_json:
            print_json({"driver": driver, "engine": engine, "store": store, "url": url})
        else:
            print(f"{driver} drives runs of {store}{calls}")
