"""A server on another machine than its workers, and somebody who reads there what a step says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from engines import fleet_world
from engines.fleet import PATHS, Fleet
from forks import Forked
from midflight.control import Control
from midflight.control.remote import RemoteControl
from midflight.interfaces.http.access.keyring import Keyring
from midflight.journal.phases import Role
from midflight.stores.hints import Delta


@contextmanager
def serving(
    control: Control, workers: Fleet, address: str, name: str = "ann"
) -> Iterator[tuple[str, str]]:
    """``midflight serve`` as a process that drives nothing: its URL, and a token for it."""
    schema = control.store._server._schema  # type: ignore[attr-defined]
    keys = workers.folder / f"keys-{name}.json"
    token = Keyring(keys).issue(name, Role.OPERATOR)
    place = workers.restate
    process = Forked(
        [
            *(sys.executable, "-m", "midflight", "serve", "engines.fleet_world", "--json"),
            *("--engine", "restate", "--ingress", place.ingress, "--service", place.service),
            *("--store", f"{address}&schema={schema}", "--keys", str(keys), "--port", "0"),
        ],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": PATHS, fleet_world.FOLDER: str(workers.folder)},
        cwd=workers.folder,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"].partition("/#")[0], token
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


async def read_out(remote: RemoteControl, run: str) -> tuple[str, list[float]]:
    """The text of a run that tells the time, and how late each piece of it came."""
    text, late = "", list[float]()
    with anyio.fail_after(30):
        async with remote.watch_live({run: 0}) as news:
            async for item in news:
                if isinstance(item, Delta):
                    text = text[: item.offset] + item.text
                    late.append(time.monotonic() - float(text.split()[-1].partition("@")[2]))
                    if "99@" in text:
                        return text, late
    raise AssertionError
