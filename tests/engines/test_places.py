"""Where Restate is may hold a secret: it is told to Restate, and to nobody else."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.engines.restate_address import Restate
from midflight.engines.restate_placement import RestateEngine
from midflight.errors import InvalidRequest
from midflight.interfaces.cli.arguments import placing
from midflight.run import Run
from midflight.stores.memory import MemoryStore


def test_an_address_that_is_none_is_refused_without_its_secret() -> None:
    with pytest.raises(InvalidRequest) as refused:
        placing("restate", "postgresql://db/app", "ftp://ann:hush@restate:8080")

    assert "•••@restate:8080" in str(refused.value)
    assert "hush" not in str(refused.value)


async def unknown(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that has nothing under any name."""
    while (await reader.readline()).strip():
        pass
    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    await writer.drain()
    writer.close()


@pytest.mark.anyio
async def test_what_restate_does_not_know_is_logged_without_its_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @agent("placed")
    async def clerk(run: Run) -> None:
        pass

    store = MemoryStore()
    async with await asyncio.start_server(unknown, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        place = Restate(ingress=f"http://ann:hush@127.0.0.1:{port}")
        async with RestateEngine.open(store, [clerk], place) as engine:
            await Control(store, engine).start(clerk, "work")
            with anyio.fail_after(10):
                await engine.unknown.wait()  # a worker would register now

    told = [vars(r) for r in caplog.records if "engine_unreached" in vars(r).values()]
    assert [f"•••@127.0.0.1:{port}" in str(one["error"]) for one in told] == [True]
    assert "hush" not in str(told)


@pytest.mark.parametrize(
    "options",
    [
        ("--ingress", "http://"),
        ("--ingress", "http://ann:hu/sh@restate:8080"),
        ("--ingress", "http://restate:eighty"),
        ("--admin", "http://[::1"),
        ("--admin", "http://restate:99999"),
        ("--uri", "not an address"),
        ("--uri", "ftp://workers"),
        ("--uri", "http://ann:hush@"),
        ("--service", "a/b"),
        ("--service", ""),
    ],
    ids=" ".join,
)
def test_a_worker_that_is_told_a_wrong_place_says_so_and_does_not_start(
    options: tuple[str, str],
) -> None:
    told = ("worker", "engines.fleet_world", "--engine", "restate", "--store", "postgresql://x/y")
    done = subprocess.run(
        [sys.executable, "-m", "midflight", *told, *options],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.endswith("Nothing was started.\n")
    assert done.stderr.count("\n") == 1
    assert not [secret for secret in ("hush", "sh@") if secret in done.stderr]
