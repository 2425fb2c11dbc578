"""Ways to the store that can be cut, and ways to see what others are at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx

from engines import fleet_world
from engines.fleet import Fleet
from engines.link import Link, linked, to_socket
from midflight.control import Control
from midflight.journal import events as e

SOCKET = ".s.PGSQL.5432"
UNHURRIED = ("--lease", "10")
"""For workers whom nobody is to lose: a busy machine takes a short lease from the living."""


def folder_of(address: str) -> str:
    (folder,) = parse_qs(urlsplit(address).query)["host"]
    return folder


@asynccontextmanager
async def way_to(address: str, folder: Path) -> AsyncIterator[tuple[Link, str]]:
    """A link to the server that can be cut, and the address that leads through it."""
    folder.mkdir()
    async with linked(
        to_socket(f"{folder_of(address)}/{SOCKET}"), path=f"{folder}/{SOCKET}"
    ) as link:
        yield link, f"postgresql://postgres:@/postgres?host={folder}"


async def begun(folder: Path, key: str) -> None:
    """Another process says so, in a file."""
    while not any(line.what == "begin" and key in line.key for line in fleet_world.noted(folder)):  # noqa: ASYNC110
        await anyio.sleep(0.02)


async def all_at_work(control: Control, workers: Fleet, runs: Iterable[str]) -> None:
    """Wait until every worker drives some of the runs."""
    hands = {hand.driver for hand in workers.hands}
    while not hands <= {(await control.store.row(run)).driver for run in runs}:  # noqa: ASYNC110
        await anyio.sleep(0.1)


async def claims(control: Control, run: str) -> int:
    return sum(isinstance(r.event, e.DriverClaimed) for r in await control.store.read(run))


async def calls(admin: httpx.AsyncClient, service: str) -> list[dict[str, Any]]:
    """What Restate knows of the calls for our runs."""
    asked = f"SELECT id, retry_count FROM sys_invocation WHERE target_service_name = '{service}'"
    accept = {"accept": "application/json"}
    found = await admin.post("/query", json={"query": asked}, headers=accept)
    rows: list[dict[str, Any]] = found.raise_for_status().json()["rows"]
    return rows
