"""The engine that has runs driven, and its address: options of both ``serve`` and ``worker``."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer
from msgspec import Struct

from midflight.agents import Agent
from midflight.control import Control, local
from midflight.engines.restate_place import INGRESS, SERVICE, Restate, shown
from midflight.errors import InvalidRequest
from midflight.stores.factory import open_store

ENGINES: Final = ("local", "restate")
SERVICE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

EngineOption = Annotated[
    str,
    typer.Option(metavar="local|restate", help="Who has runs driven: this process, or Restate."),
]
IngressOption = Annotated[
    str, typer.Option(metavar="URL", envvar="MIDFLIGHT_RESTATE", help="Where Restate takes calls.")
]
ServiceOption = Annotated[
    str, typer.Option(metavar="NAME", help="Under which Restate knows the runs of this store.")
]


class Placing(Struct, frozen=True, kw_only=True):
    """The engine as it was asked for."""

    engine: str = "local"
    ingress: str = INGRESS
    admin: str = ""
    service: str = SERVICE

    def restate(self) -> Restate:
        """Where Restate is."""
        return Restate(ingress=self.ingress, admin=self.admin, service=self.service)


def placing(
    engine: str, store: str, ingress: str, *, admin: str = "", service: str = SERVICE
) -> Placing:
    """Check the options: Restate needs a store that other machines can reach."""
    if engine not in ENGINES:
        raise InvalidRequest(f"{engine!r} is no engine: use local or restate. Nothing was started.")
    if engine == "restate" and not store.startswith(("postgres:", "postgresql:")):
        raise InvalidRequest(
            "runs that Restate places are driven on several machines, so their store must be "
            "Postgres: --store postgresql://USER@HOST/DATABASE. Nothing was started."
        )
    for address in filter(None, (ingress, admin)):
        if not is_http(address):
            raise InvalidRequest(
                f"{shown(address)!r} is not an address of Restate: write it like {INGRESS}. "
                "Nothing was started."
            )
    if not SERVICE_NAME.fullmatch(service):
        raise InvalidRequest(
            f"{service!r} cannot be the name of a service: use letters, digits, _ and -. "
            "Nothing was started."
        )
    return Placing(engine=engine, ingress=ingress, admin=admin, service=service)


def is_http(address: str) -> bool:
    """Return whether an address is a valid one of HTTP or HTTPS."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return False
    plain = not re.search(r"\s", address) and "@" not in parts.path
    return plain and parts.scheme in {"http", "https"} and bool(parts.hostname) and port != 0


@asynccontextmanager
async def controlling(
    placed: Placing, store: str, agents: list[Agent], *, workdir: Path, drain_s: float
) -> AsyncIterator[Control]:
    """Control runs of a store, and have them driven: here, or by workers."""
    if placed.engine == "local":
        async with local(store, *agents, workdir=workdir, drain_s=drain_s) as control:
            yield control
        return
    from midflight.engines.restate import RestateEngine

    async with (
        open_store(store) as opened,
        RestateEngine.open(opened, agents, placed.restate()) as engine,
    ):
        yield Control(opened, engine)
