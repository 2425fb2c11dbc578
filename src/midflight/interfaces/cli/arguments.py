"""Arguments that several commands share: agents, caps, engine; and asking to confirm."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path, PurePath
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer
from msgspec import Struct

from midflight.agents import Agent
from midflight.control import Control, local
from midflight.engines.restate_address import INGRESS, SERVICE, Restate, shown
from midflight.errors import InvalidRequest
from midflight.interfaces.cli.console import Unknown, print
from midflight.stores import open_store

Usd = Annotated[float | None, typer.Option(min=0, help="At most so many dollars.")]
Seconds = Annotated[float | None, typer.Option(min=0, help="At most so long in motion.")]
Steps = Annotated[int | None, typer.Option(min=0, help="At most so many steps.")]
Tokens = Annotated[int | None, typer.Option(min=0, help="At most so many tokens.")]
ToolCalls = Annotated[int | None, typer.Option(min=0, help="At most so many calls of tools.")]
Repeats = Annotated[
    int | None, typer.Option(min=0, help="The same call with the same result, so often again.")
]
OPTIONS: Final = {
    "steps": "--steps",
    "usd": "--usd",
    "tokens": "--tokens",
    "seconds": "--seconds",
    "tool_calls": "--tool-calls",
    "repeats": "--repeats",
}
"""Cap -> the option that sets it."""


YES = frozenset({"y", "yes"})


def confirm(question: str, otherwise: str) -> None:
    """Ask the person at the terminal, and refuse unless they say yes; without one, refuse as well.

    It is asked on standard error to the last sign: standard output is for the answer, which a
    program may read. Typer's own question leaves a space there.
    """
    if not sys.stdin.isatty():
        raise InvalidRequest(f"{question} Confirm with --yes. Nothing was changed.")
    print(f"{question} [y/N]: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().casefold() not in YES:
        raise InvalidRequest(otherwise)


def found_at(place: str) -> list[Agent]:
    """Return the agents that ``module:name`` or ``module`` means."""
    module, _, name = place.partition(":")
    if "/" in module or module.endswith(".py"):
        meant = _as_module(module, name or "AGENT")
        raise Unknown(f"name a module, not a file: {meant}. Nothing was started.")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does: modules of this folder can be named
    try:
        there = importlib.import_module(module)
        found = getattr(there, name) if name else list(vars(there).values())
    except (ImportError, AttributeError, ValueError) as error:
        raise Unknown(f"there is no agent at {place}: {error}. Nothing was started.") from error
    except SystemExit as error:
        raise Unknown(
            f"{module} ended the program while it was imported (sys.exit): what it does when it is "
            'called belongs below `if __name__ == "__main__":`. Nothing was started.'
        ) from error
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise Unknown(f"{module} cannot be imported: {told}. Nothing was started.") from error
    every: Iterable[Any] = found if isinstance(found, list | tuple) else [found]
    agents = [agent for agent in every if isinstance(agent, Agent)]
    if not agents:
        raise Unknown(
            f"{place} is not an agent: name an `async def` that is decorated with `@agent`. "
            "Nothing was started."
        )
    return agents


def _as_module(path: str, name: str) -> str:
    """Return a file of this folder as ``module:agent``; of another one, with where to go first."""
    parts = PurePath(path.removesuffix(".py")).parts
    if path.startswith("/") or ".." in parts:
        return f"{parts[-1]}:{name}, from the folder that it is in"
    return f"{'.'.join(parts)}:{name}"


def all_at(places: Iterable[str]) -> list[Agent]:
    """Return the agents of several places, each once."""
    return list({agent.name: agent for place in places for agent in found_at(place)}.values())


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
        """Return the addresses of Restate."""
        return Restate(ingress=self.ingress, admin=self.admin, service=self.service)


def placing(
    engine: str, store: str, ingress: str, *, admin: str = "", service: str = SERVICE
) -> Placing:
    """Check the options: Restate needs a store that other machines can reach."""
    if engine not in ENGINES:
        raise InvalidRequest(
            f"{engine!r} is not an engine: use local or restate. Nothing was started."
        )
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
    from midflight.engines.restate_placement import RestateEngine

    async with (
        open_store(store) as opened,
        RestateEngine.open(opened, agents, placed.restate()) as engine,
    ):
        yield Control(opened, engine)
